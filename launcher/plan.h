/*
 * The plan: everything that is decided before a process is started, computed from facts alone (no system calls), shown by --dry-run.
 */
#ifndef ACCEL_RUN_PLAN_H
#define ACCEL_RUN_PLAN_H

#include <stdint.h>
#include <stdio.h>

#include "../config/config.h"
#include "../config/protocol.h"
#include "engines/engines.h"
#include "placement/placement.h"
#include "program/preflight.h"

#define PLAN_VARIABLES_MAX 16
#define PLAN_REMOVED_MAX 256
#define PLAN_VALUE_CHARS 1024

/* The facts a plan is made of. All borrowed. */
struct plan_facts {
    const struct config *config;
    const struct target *target;
    char *const *arguments;            /* the program's, its name first, NULL at the end */
    char *const *environment;          /* the launcher's */
    uint32_t cores;                    /* topology_cores() */
    const struct placement *placement; /* NULL: nothing is bound */
    const struct engine *engine;       /* NULL: no other launcher was looked for */
    uint32_t share;                    /* cores of one rank; 0: cores / ranks */
};

struct plan_variable {
    const char *name; /* literal */
    char value[PLAN_VALUE_CHARS];
};

struct plan {
    uint32_t ranks, cores;
    const struct config *config;                    /* borrowed */
    const struct placement *placement;              /* borrowed, or NULL */
    uint32_t threads;                               /* per rank; 0: the program's own choice */
    const struct engine *engine;                    /* borrowed; NULL: none */
    bool threads_are_users;                         /* --threads, or OMP_NUM_THREADS */
    const char *path;                               /* borrowed: what exec gets */
    const char *shim;                               /* borrowed */
    char *const *arguments;                         /* borrowed */
    char *preload;                                  /* owned: LD_PRELOAD of every rank */
    struct plan_variable added[PLAN_VARIABLES_MAX]; /* to every rank's environment; those of the claim socket are not known yet */
    uint32_t added_count;
    const char *removed[PLAN_REMOVED_MAX]; /* borrowed "NAME=value" of the launcher's environment that ranks do not get */
    uint32_t removed_count;
};

/* Returns 0, or -1 with *problem (nested launch). The caller clears. */
int plan_build(struct plan *plan, const struct plan_facts *facts, struct problem *problem);
void plan_clear(struct plan *plan);
/* Several hosts have agreed on the threads of each rank; 0: nothing to change. */
void plan_set_threads(struct plan *plan, uint32_t threads);

/* What every rank is granted, but for its number and the size of the shared memory. */
struct protocol_grant plan_grant(const struct config *config, uint32_t ranks, uint32_t cores);

/* argv for a text file without "#!": /bin/sh FILE arguments. The list is the caller's, the strings are not; NULL when out of memory. */
char **plan_shell_arguments(const struct plan *plan);

/* What the user may not have meant, whatever the program is. cores: UINT32_MAX where a launcher may have bound the ranks. Returns how many; exit codes
   are 0. */
#define PLAN_ADVICE_MAX 3
uint32_t plan_advice(const struct config *config, char *const *environment, uint32_t ranks, uint32_t cores, struct problem *list);
/* The same, said on standard error, by who has no other way yet; not with --quiet. */
void plan_say_advice(const struct config *config, char *const *environment, uint32_t ranks, uint32_t cores);

/* What --dry-run prints. */
void plan_print(const struct plan *plan, FILE *out);

#endif
