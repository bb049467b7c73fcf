/*
 * Which files the dynamic loader would load for a program: the loader itself is asked, as ldd does, which starts nothing of the program. So search
 * paths, RPATH, RUNPATH, LD_LIBRARY_PATH and the cache count as they will.
 */
#ifndef ACCEL_RUN_LIBRARIES_H
#define ACCEL_RUN_LIBRARIES_H

#include <stdbool.h>

#define LIBRARIES_MAX 640
#define LIBRARIES_PATH_CHARS 320

struct library {
    char name[96];
    char path[LIBRARIES_PATH_CHARS]; /* "" not found */
};

struct libraries {
    struct library list[LIBRARIES_MAX];
    int count;
    char problem[256]; /* the loader's words when it could not tell; else "" */
};

/* interpreter: the program's own loader. Returns 0, or -1 with `problem`. */
int libraries_read(struct libraries *libraries, const char *interpreter, const char *path, char *const *environment);

/* The library whose file name is `name`, followed by ".so" or "-" ("libc10" is libc10.so.1.13, never libc10_cuda.so); NULL: none. */
const struct library *libraries_find(const struct libraries *libraries, const char *name);

#endif
