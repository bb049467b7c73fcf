#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../program/preflight.h"
#include "torch_find.h"
#include "trial.h"
#include "trial_sources.h"

enum { COMPILE_MS = 40000, TITLE_CHARS = 256 };

static struct torch_find find; /* 270 KiB */

/* The interpreter that the user named, or the first of PATH. Returns 0, or -1 with the reason in `why`. */
static int find_python(struct trial *trial, char *why) {
    static const char *const names[] = {"python3", "python"};
    char path[PATH_MAX];
    struct problem problem;
    strcpy(why, "no python3 in PATH");
    if (trial->python)
        snprintf(why, TITLE_CHARS, "no program '%.200s'", trial->python);
    for (size_t i = 0; i < (trial->python ? 1 : sizeof names / sizeof *names); i++) {
        if (preflight_find(trial->python ? trial->python : names[i], trial->search, path, &problem))
            continue;
        if (torch_find_of_python(&find, path, trial->environment))
            snprintf(why, TITLE_CHARS, "%.120s: %.100s", path, find.problem);
        else if (*find.folder)
            return 0;
        else
            snprintf(why, TITLE_CHARS, "%.200s has no package torch", path);
    }
    return -1;
}

void trial_of_python(struct trial *trial) {
    char why[TITLE_CHARS], script[PATH_MAX], title[TITLE_CHARS];
    if (find_python(trial, why)) {
        trial_skip(trial, "Python", why, trial->python);
        return;
    }
    snprintf(title, sizeof title, "Python %s, torch %s", find.python_version, find.version);
    char *arguments[] = {find.python, script, NULL};
    if (trial_write(trial, "train.py", trial_python, script) == 0)
        trial_compare(trial, title, arguments);
}

/* ---- C++ */

struct kit {
    char include[PATH_MAX], api[PATH_MAX], library[PATH_MAX]; /* library "": the system's */
    int major, minor;
};

/* The number behind a name in one of libtorch's version headers; 0: not there. */
static int version_number(const struct kit *kit, const char *name) {
    char path[PATH_MAX + 64], line[256], key[64];
    const char *folders[] = {kit->api, kit->include};
    int number = 0;
    snprintf(key, sizeof key, "#define %s ", name);
    for (int i = 0; i < 2 && !number; i++) {
        snprintf(path, sizeof path, "%s/torch/%sversion.h", folders[i], i ? "headeronly/" : "");
        FILE *file = fopen(path, "re");
        while (file && fgets(line, sizeof line, file))
            if (!strncmp(line, key, strlen(key)))
                number = atoi(line + strlen(key));
        if (file)
            fclose(file);
    }
    return number;
}

static int kit_at(struct kit *kit, const char *include, const char *library) {
    snprintf(kit->include, PATH_MAX, "%s", include);
    snprintf(kit->api, PATH_MAX, "%.4000s/torch/csrc/api/include", include);
    snprintf(kit->library, PATH_MAX, "%s", library);
    kit->major = version_number(kit, "TORCH_VERSION_MAJOR");
    kit->minor = version_number(kit, "TORCH_VERSION_MINOR");
    return access(kit->api, R_OK);
}

/* What the user named, else the system's packages, else the headers that come with Python's torch. Returns 0, or -1: none. */
static int find_kit(const struct trial *trial, struct kit *kit) {
    char include[PATH_MAX], library[PATH_MAX];
    char real[PATH_MAX]; /* the compiler runs in another folder */
    const char *folder = !trial->libtorch ? find.folder : realpath(trial->libtorch, real) ? real : trial->libtorch;
    if (!trial->libtorch && (kit_at(kit, "/usr/include", "") == 0 || kit_at(kit, "/usr/local/include", "") == 0))
        return 0;
    snprintf(include, sizeof include, "%.4000s/include", folder);
    snprintf(library, sizeof library, "%.4000s/lib", folder);
    return *folder ? kit_at(kit, include, library) : -1;
}

/* Compiles the program in the folder; says why it could not. */
static int compile(struct trial *trial, const struct kit *kit, const char *title, char *source, char *program) {
    static struct capture capture; /* 512 KiB */
    char compiler[PATH_MAX], api[PATH_MAX + 16], include[PATH_MAX + 16], library[PATH_MAX + 16], path[PATH_MAX + 16];
    struct problem problem;
    if (preflight_find("c++", trial->search, compiler, &problem)) {
        trial_skip(trial, title, "no compiler 'c++' in PATH", trial->libtorch);
        return -1;
    }
    bool is_system = !*kit->library, is_old = kit->major < 2,
         has_old_strings = !is_system && (is_old || (kit->major == 2 && kit->minor < 6));
    snprintf(api, sizeof api, "-isystem%s", kit->api);
    snprintf(include, sizeof include, is_system ? "-DACCEL" : "-isystem%s", kit->include);
    snprintf(library, sizeof library, is_system ? "-Wl,--as-needed" : "-L%s", kit->library);
    snprintf(path, sizeof path, is_system ? "-Wl,--as-needed" : "-Wl,--allow-shlib-undefined,-rpath,%s", kit->library);
    char standard[] = "-std=c++20", abi[] = "-D_GLIBCXX_USE_CXX11_ABI=1", output[] = "-o", quiet[] = "-w", torch[] = "-ltorch",
         cpu[] = "-ltorch_cpu", c10[] = "-lc10", needed[] = "-Wl,--as-needed";
    if (is_old)
        memcpy(standard, "-std=c++17", sizeof standard);
    abi[sizeof abi - 2] = has_old_strings ? '0' : '1';
    char *arguments[] = {compiler, standard, abi,     quiet, api,   include, source, output,
                         program,  needed,   library, path,  torch, cpu,     c10,    NULL};
    if (trial_command(trial, arguments, COMPILE_MS, &capture) == 0)
        return 0;
    capture.errors[1000] = 0;
    trial_skip(trial, title, capture.has_timed_out ? "the compiler took too long" : capture.errors, trial->libtorch);
    return -1;
}

void trial_of_cpp(struct trial *trial) {
    static struct kit kit; /* 12 KiB */
    char title[TITLE_CHARS] = "C++", source[PATH_MAX], program[PATH_MAX];
    if (find_kit(trial, &kit)) {
        char why[TITLE_CHARS] = "no headers of libtorch in /usr/include or with Python's torch; --libtorch names their folder";
        if (trial->libtorch)
            snprintf(why, sizeof why, "no headers of libtorch in '%.200s/include'", trial->libtorch);
        trial_skip(trial, title, why, trial->libtorch);
        return;
    }
    snprintf(title, sizeof title, "C++, libtorch %d.%d (%.180s)", kit.major, kit.minor, *kit.library ? kit.library : "of the system");
    snprintf(program, sizeof program, "%s/train", trial->folder);
    char *arguments[] = {program, NULL};
    if (trial_write(trial, "train.cpp", trial_cpp, source) == 0 && compile(trial, &kit, title, source, program) == 0)
        trial_compare(trial, title, arguments);
}
