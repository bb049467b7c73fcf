/*
 * Starts the process of one rank.
 *
 * Rules of the window between fork and exec (spawn.c, spawn_child): only async-signal-safe calls, nothing allocated, nothing printed; what
 * goes wrong there travels to the launcher as a fixed record through the error pipe and is put into words by it (L1, L3).
 */
#ifndef ACCEL_RUN_SPAWN_H
#define ACCEL_RUN_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "placement/cpus.h"
#include "problem.h"

struct spawn_descriptor {
    int from, to;
};

struct spawn_request {
    const char *path; /* of the program */
    char *const *arguments;
    char *const *environment;
    const int *descriptors;                /* three: what becomes 0, 1, 2; -1: closed, as the launcher's own was */
    const struct spawn_descriptor *others; /* beyond 2, that are another file than the launcher's under their number */
    size_t other_count;
    const sigset_t *ignored; /* signals that were ignored when accel-run began (nohup) and stay so; all others are reset (L4) */
    const struct rlimit *open_files;
    const struct cpus *cpus; /* NULL: those of the launcher */
};

struct spawned {
    pid_t pid;
    int gate;   /* a byte lets the child go on to exec */
    int errors; /* end of file: exec has succeeded */
};

/* Forks. The child waits at the gate. Both descriptors are the caller's. Returns 0 or -1 with *problem. */
int spawn_rank(const struct spawn_request *request, struct spawned *spawned, struct problem *problem);

/* Opens the gate; closes it. Call for every child only after all were forked. Returns 0 or -1 with *problem. */
int spawn_release(struct spawned *spawned, struct problem *problem);

/* Waits until the released child has become the program; closes `errors`. Returns 0, or -1 with *problem (126 and 127 as shells have them).
   Call only after all were released: loading a program takes longer than all the rest, and they do it at the same time. */
int spawn_await(struct spawned *spawned, const char *path, struct problem *problem);

/* Why exec of the program did not succeed, in words. Returns -1. */
int spawn_exec_problem(int error, const char *path, struct problem *problem);

#endif
