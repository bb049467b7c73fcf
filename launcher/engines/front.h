/*
 * accel-run, started once for each rank by another launcher on one host (on several: stand_by.h): meets the others and becomes the program by exec, so that
 * there is no process more than that launcher has started.
 *
 * Rules
 *  - What all ranks would say, rank 0 says. A refusal reaches the others where they meet, and all end with its exit code.
 *  - The launcher's descriptors (PMI_FD) and signals are left alone.
 */
#ifndef ACCEL_RUN_FRONT_H
#define ACCEL_RUN_FRONT_H

#include "../../config/config.h"
#include "engines.h"
#include "../program/preflight.h"
#include "rendezvous.h"

struct front {
    const struct engine *engine;
    const struct config *config;
    const struct target *target; /* NULL: not looked at yet */
    char *const *arguments;      /* the program's */
    char *const *environment;    /* ours */
};

/* Becomes the rank. Returns only with *problem; its id is empty where rank 0 says why: then nothing is left but to end with its exit code. */
void front_run(const struct front *front, struct problem *problem);

/* The meeting by itself. Rank 0: hears all others; hellos[world_size], connections[world_size] are -1 where nobody has come, and the caller's to close.
   Returns 0 or -1 with *problem, which nobody else has heard yet. The others: the connection, or -1 with *problem. */
int front_gather(const struct front *front, struct rendezvous_hello *hellos, int *connections, struct problem *problem);
int front_greet(const struct front *front, struct problem *problem);

/* This process is sent the signal when the launcher ends, where that can be told. Returns false when it has ended already. */
bool front_die_with(const struct engine *engine, int signal);

/* This rank is refused before it could meet the others: they are told. Returns true when rank 0 says it for all. */
bool front_tell(const struct engine *engine, const struct problem *problem);

#endif
