#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf_target.h"
#include "interpret.h"
#include "preflight.h"

static const char *find_python(const char *search) {
    static char path[PATH_MAX];
    struct problem problem;
    if (preflight_find("python3", search, path, &problem) == 0)
        return "python3";
    return preflight_find("python", search, path, &problem) == 0 ? "python" : NULL;
}

/* Named *.py, there, and nothing that the kernel could execute: without the right to, or without a first line "#!...". */
static bool is_python_file(const char *name, const char *search) {
    static struct elf_target file; /* 4 KiB */
    char path[PATH_MAX];
    struct problem problem;
    struct stat status;
    if (!interpret_is_python_file(name))
        return false;
    if (preflight_find(name, search, path, &problem) == 0) {
        elf_target_read(path, &file);
        return file.kind == ELF_TARGET_OTHER && !strcmp(path, name); /* one found in PATH is not where python3 would look */
    }
    return stat(name, &status) == 0 && S_ISREG(status.st_mode);
}

/* A file of this folder that has its own interpreter ("#!") and may be executed: named without "./", as Python programs are, it is not looked for in PATH. */
static bool is_executable_here(const char *name) {
    static struct elf_target file; /* 4 KiB */
    if (strchr(name, '/') || access(name, X_OK))
        return false;
    elf_target_read(name, &file);
    return file.kind == ELF_TARGET_SCRIPT;
}

/* The arguments in a list of their own, `count` words in place of the first `skipped`. */
static int put_first(char *const **arguments, const char *const *words, size_t count, size_t skipped, struct problem *problem) {
    size_t rest = 0;
    char *const *kept = *arguments + skipped;
    while (kept[rest])
        rest++;
    char **list = calloc(count + rest + 1, sizeof *list);
    if (!list)
        return problem_set(problem, EXIT_LAUNCHER, "AR-MEMORY", "free some memory", "out of memory");
    memcpy(list, words, count * sizeof *list);
    memcpy(list + count, kept, rest * sizeof *list);
    *arguments = list;
    return 0;
}

int script_take(char *const **arguments, const struct config *config, const char *search, struct config_notes *notes,
                struct problem *problem) {
    const char *name = (*arguments)[0];
    if (config->module && (config->no_python || config->run_path))
        return problem_set(problem, EXIT_LAUNCHER, "AR-OPTION-CONTRADICTION", "leave one of them out",
                           "--module and --%s name the program in two ways", config->no_python ? "no-python" : "run-path");
    bool is_asked = config->module || config->run_path; /* which is stronger than --no-python, as in torchrun */
    if (!is_asked && (config->no_python || !is_python_file(name, search)))
        return 0;
    if (!is_asked && is_executable_here(name)) {
        static char path[PATH_MAX];
        snprintf(path, sizeof path, "./%s", name);
        return put_first(arguments, (const char *const[]){path}, 1, 1, problem);
    }
    const char *python = find_python(search);
    if (!python)
        return problem_set(problem, EXIT_NOT_FOUND, "AR-EXEC-NOT-FOUND",
                           "activate the environment that has Python, or name its interpreter: accel-run -n 2 /path/to/python train.py",
                           "'%s' needs Python, and PATH has neither python3 nor python", name);
    if (!is_asked)
        config_note(notes, CONFIG_NOTICE, "AR-PYTHON-FILE", "%.200s cannot be executed by itself: it is started as '%s %.80s'", name,
                    python, name);
    return put_first(arguments, (const char *const[]){python, "-m"}, config->module ? 2 : 1, 0, problem);
}
