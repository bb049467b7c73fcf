#define _GNU_SOURCE
#include "torch_find.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "../program/elf_target.h"

enum { PYTHON_MS = 6000 };

/* What `import torch` would find, without doing it: that takes seconds. The current folder is not searched, as for a script that lies elsewhere. */
static const char question[] = "import sys, os, glob, importlib.util as u\n"
                               "sys.path[:] = [p for p in sys.path if p]\n"
                               "s = u.find_spec('torch')\n"
                               "f = os.path.dirname(s.origin) if s and s.origin else ''\n"
                               "print(sys.executable)\n"
                               "print(sys.version.split()[0])\n"
                               "print(f)\n"
                               "print((glob.glob(os.path.join(f, '_C.*.so')) or [''])[0] if f else '')\n";

/* The text between `before` and `end` on the first line that has both, as in __version__ = '2.13.0+cu130'. */
static void read_quoted(const char *path, const char *before, char end, char *text, size_t size) {
    char line[512];
    FILE *file = fopen(path, "re");
    while (file && !*text && fgets(line, sizeof line, file)) {
        char *begin = strstr(line, before), *last = begin ? strchr(begin + strlen(before), end) : NULL;
        if (last)
            snprintf(text, size, "%.*s", (int)(last - begin - (long)strlen(before)), begin + strlen(before));
    }
    if (file)
        fclose(file);
}

/* A wheel and the downloaded libtorch say it in files beside lib/, Debian in the name of the library. */
static void find_version(struct torch_find *find) {
    char real[PATH_MAX], path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/version.py", find->folder);
    if (*find->folder)
        read_quoted(path, "__version__ = '", '\'', find->version, sizeof find->version);
    if (!find->cpu || !realpath(find->cpu->path, real))
        return;
    char *name = strrchr(real, '/');
    const char *suffix = strstr(name, ".so.");
    *name = 0;
    snprintf(path, sizeof path, "%s/../version.py", real);
    if (!*find->version)
        read_quoted(path, "__version__ = '", '\'', find->version, sizeof find->version);
    snprintf(path, sizeof path, "%s/../share/cmake/Torch/TorchConfigVersion.cmake", real);
    if (!*find->version)
        read_quoted(path, "set(PACKAGE_VERSION \"", '"', find->version, sizeof find->version);
    if (!*find->version && suffix)
        snprintf(find->version, sizeof find->version, "%.60s", suffix + 4);
}

static void find_libraries(struct torch_find *find) {
    find->cpu = libraries_find(&find->libraries, "libtorch_cpu");
    find->c10 = libraries_find(&find->libraries, "libc10");
    find->bindings = libraries_find(&find->libraries, "libtorch_python");
    find->cuda = libraries_find(&find->libraries, "libtorch_cuda");
    find_version(find);
}

static int read_libraries(struct torch_find *find, const char *path, const char *interpreter, char *const *environment) {
    int status = libraries_read(&find->libraries, interpreter, path, environment);
    snprintf(find->problem, sizeof find->problem, "%s", find->libraries.problem);
    find_libraries(find);
    return status;
}

int torch_find_of_program(struct torch_find *find, const char *path, const char *interpreter, char *const *environment) {
    memset(find, 0, sizeof *find);
    return read_libraries(find, path, interpreter, environment);
}

int torch_find_of_python(struct torch_find *find, const char *python, char *const *environment) {
    static struct capture capture;   /* static: 512 KiB */
    static struct elf_target target; /* 4 KiB */
    char *arguments[] = {(char *)(uintptr_t)python, (char *)(uintptr_t) "-c", (char *)(uintptr_t)question, NULL};
    struct capture_request request = {python, arguments, environment, NULL, PYTHON_MS, NULL};
    memset(find, 0, sizeof *find);
    if (capture_run(&request, &capture)) {
        char *last = strrchr(capture.errors, '\n');
        for (; last && !last[1] && last > capture.errors; last = memrchr(capture.errors, '\n', (size_t)(last - capture.errors)))
            *last = 0;
        snprintf(find->problem, sizeof find->problem, "%.250s",
                 capture.has_timed_out ? "it does not answer"
                 : last                ? last + 1
                                       : capture.errors);
        return -1;
    }
    char *rest = capture.out, *executable = strsep(&rest, "\n"), *version = strsep(&rest, "\n"), *folder = strsep(&rest, "\n"),
         *extension = strsep(&rest, "\n");
    snprintf(find->python, sizeof find->python, "%s", executable);
    snprintf(find->python_version, sizeof find->python_version, "%s", version ? version : "");
    snprintf(find->folder, sizeof find->folder, "%s", folder ? folder : "");
    if (!extension || !*extension)
        return 0;
    elf_target_read(find->python, &target);
    return read_libraries(find, extension, target.interpreter, environment);
}
