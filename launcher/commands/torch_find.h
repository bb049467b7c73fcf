/*
 * Which libtorch a program or a Python interpreter would use: asked of the dynamic loader and of the interpreter, without loading libtorch.
 */
#ifndef ACCEL_RUN_TORCH_FIND_H
#define ACCEL_RUN_TORCH_FIND_H

#include <limits.h>
#include <stdbool.h>

#include "libraries.h"

struct torch_find {
    char python[PATH_MAX]; /* the interpreter itself (sys.executable); "" for a compiled program */
    char python_version[32];
    char folder[PATH_MAX]; /* of Python's torch package; "" none */
    char version[64];      /* of libtorch; "" unknown */
    struct libraries libraries;
    /* of `libraries`, borrowed; NULL: not needed */
    const struct library *cpu, *c10, *bindings, *cuda;
    char problem[256]; /* why less is known; "" nothing went wrong */
};

/* path: an ELF program; interpreter: its loader. Returns 0, or -1 with `problem`. */
int torch_find_of_program(struct torch_find *find, const char *path, const char *interpreter, char *const *environment);

/* python: as exec wants it. Returns 0 (also when it has no torch), or -1 with `problem`. */
int torch_find_of_python(struct torch_find *find, const char *python, char *const *environment);

#endif
