/*
 * Trackers of runs whose files another process writes, by system calls that no hook sees: wandb's is a program in Go, one for each rank. They wrote the same
 * files at once where their runs had begun in the same second, and two folders of one run where not (wandb 0.31.0; logs came twice). Rank 0's writes where
 * the program wants it; each other rank's is told of a folder of its own in /tmp, which goes when the job ends (launcher/shared_names.c). To the program all
 * is as it was: the names that it is shown are those of the run.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files.h"

/* What wandb tells the other process of a run: among it, names of files below its folder. private(part) makes the folder for them. */
static const char code[] = "import os, sys\n"
                           "settings = sys.modules['wandb.sdk.wandb_settings'].Settings\n"
                           "original = settings.to_proto\n"
                           "def to_proto(self, *arguments, **named):\n"
                           "    told = original(self, *arguments, **named)\n"
                           "    common = getattr(getattr(told, 'wandb_dir', None), 'value', '')\n"
                           "    for _, setting in told.ListFields() if common else ():\n"
                           "        name = getattr(setting, 'value', None)\n"
                           "        if isinstance(name, str) and name.startswith(common):\n"
                           "            part = name[len(common):].lstrip('/')\n"
                           "            folder = private(os.fsencode(os.path.dirname(part)))\n"
                           "            setting.value = os.path.join(os.fsdecode(folder), part)\n"
                           "    return told\n"
                           "settings.to_proto = to_proto\n";

/* Nothing is said of a folder that cannot be made: the tracker says so. */
static void make_folders(char *path) {
    for (char *end = strchr(path + 1, '/');; end = strchr(end + 1, '/')) {
        if (end)
            *end = 0;
        syscall(SYS_mkdirat, AT_FDCWD, path, S_IRWXU);
        if (!end)
            return;
        *end = '/';
    }
}

/* private(part): the rank's folder, in which `part` has been made. */
static struct object *private_folder(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    const char *part = python->bytes_text(python->tuple_get(arguments, 0));
    char folder[PATH_MAX / 2], whole[PATH_MAX];
    if (shim_own_name("/tmp/accel-run", shim_slot(), folder, sizeof folder) &&
        (size_t)snprintf(whole, sizeof whole, "%s/%s", folder, part) < sizeof whole)
        make_folders(whole);
    return python->bytes_new(folder, (int64_t)strlen(folder));
}

/* Interpreter's lock held. */
static bool is_imported(const struct python_api *python) {
    struct object *module = python->item(python->modules(), "wandb.sdk.wandb_settings"),
                  *settings = module ? python->attribute(module, "Settings") : NULL;
    if (settings)
        python->release(settings);
    else
        python->error_clear();
    return settings;
}

/* The releases that were tried (0.18, 0.19, 0.21, 0.31) open such a log before they tell the other process of the run. */
static bool is_first_log(const char *path) {
    const char *folder = strstr(path, "wandb/");
    return folder && strstr(folder, "/logs/debug");
}

void trackers_look_at(const char *path) {
    static const struct python_method method = {"private", private_folder, PYTHON_VARARGS, NULL};
    static _Atomic bool is_done;
    const struct python_api *python = !is_done && is_first_log(path) && shim_job_name() && shim_slot() ? python_to_lock() : NULL;
    if (!python)
        return;
    int state = python->lock();
    if (!is_done && is_imported(python)) {
        is_done = true;
        python_extend(code, &method, python->none);
    }
    python->unlock(state);
}
