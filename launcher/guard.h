/*
 * The guard: a small process that outlives the launcher when that is killed with -9, and kills what it left.
 *
 * The parent-death signal reaches a rank's first process only; when that is a shell (bash train.sh), the trainer below it would live on.
 * The guard holds the read end of a pipe whose other end only the launcher has: end of file means the launcher is gone. Then every rank's
 * process group is killed, and every process that carries this job's socket name in its environment (one that left its group).
 * In the end, also when all is well, it removes what the ranks had under names of their own (shared_names.h).
 */
#ifndef ACCEL_RUN_GUARD_H
#define ACCEL_RUN_GUARD_H

#include <stdint.h>
#include <sys/types.h>

#include "rank.h"

struct guard {
    pid_t pid;
    int pipe; /* owned */
};

/* Before the first rank is forked. name: the claim socket's. Returns 0 or -1 with errno. */
int guard_start(struct guard *guard, const char *name);
/* Tells the guard a rank's group. */
void guard_add(struct guard *guard, pid_t group);
/* All is over: lets the guard go and reaps it. */
void guard_stop(struct guard *guard);

#endif
