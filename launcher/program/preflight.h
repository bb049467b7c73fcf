/*
 * Looks at the program and at our own library before anything is started, and refuses by name what cannot work: a static or setuid program
 * would run without the shim, N whole copies of it, and nobody would notice (P14, P15, P16).
 *
 * Rules of launcher/program/
 *  - What the user has named becomes what exec gets (script.c), and that is followed through first lines and env to what runs in the end (interpret.c).
 *  - Files are read, never executed: an ELF file by its headers (elf_target.c), a script by its first line.
 *  - Every refusal has its own id and the exit status that a shell would give: 127 not found, 126 not executable, 125 ours.
 */
#ifndef ACCEL_RUN_PREFLIGHT_H
#define ACCEL_RUN_PREFLIGHT_H

#include <limits.h>
#include <stdbool.h>

#include "../problem.h"

enum { TARGET_CHARS = 512 };

struct target {
    char path[PATH_MAX];      /* what exec gets: found through PATH when the name has no slash */
    char shim[PATH_MAX];      /* libaccelshim.so */
    char checks[16];          /* as in elf_target.h */
    char sanitizer[64];       /* runtime to preload before the shim; "" none */
    char last[PATH_MAX];      /* what is executed at the end of first lines and of env: the program itself, or an interpreter */
    char python[PATH_MAX];    /* the first of them that is called python; "" none */
    char chain[TARGET_CHARS]; /* how they follow from each other, for people */
    bool has_own_random;      /* as in elf_target.h */
    bool through_shell;       /* text without #!: exec says ENOEXEC and shells run it with /bin/sh; so do we */
};

/* arguments: the program as the user typed it and what follows, NULL at the end; search: PATH (NULL: the default); shim: CONFIG_ENV_SHIM's value or NULL.
   Returns 0 with *target filled, or -1 with *problem. */
int preflight_run(char *const *arguments, const char *search, const char *shim, struct target *target, struct problem *problem);

/* What does not stop it, and is to be said before ranks are started: an exit code of 0 with the id, or no id. */
void preflight_advise(const struct target *target, struct problem *advice);

/* The file that exec gets, path[PATH_MAX]: found through `search` when the name has no slash. Returns 0, or -1 with *problem. */
int preflight_find(const char *name, const char *search, char *path, struct problem *problem);

#endif
