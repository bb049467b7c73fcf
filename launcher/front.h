/*
 * accel-run, started once for each rank by another launcher: meets the others and becomes the program by exec, so that there is no process more than that
 * launcher has started.
 *
 * Rules
 *  - What all ranks would say, rank 0 says. A refusal reaches the others where they meet, and all end with its exit code.
 *  - The launcher's descriptors (PMI_FD) and signals are left alone.
 */
#ifndef ACCEL_RUN_FRONT_H
#define ACCEL_RUN_FRONT_H

#include "../config/config.h"
#include "engines.h"
#include "preflight.h"

struct front {
    const struct engine *engine;
    const struct config *config;
    const struct target *target;
    char *const *arguments;   /* the program's */
    char *const *environment; /* ours */
};

/* Becomes the rank. Returns only with *problem; its id is empty where rank 0 says why: then nothing is left but to end with its exit code. */
void front_run(const struct front *front, struct problem *problem);

/* This rank is refused before it could meet the others: they are told. Returns true when rank 0 says it for all. */
bool front_tell(const struct engine *engine, const struct problem *problem);

#endif
