/*
 * Which processors each rank may run on. Pure: from a topology and what the user wants.
 *
 * Rules
 *  - Cores are dealt out in the order of the topology, NUMA node by node, each rank the same share; SMT siblings stay together. A rank that fits into
 *    a node does not stand in two, if that is possible for all.
 *  - `core` binds a rank to its share; `cache`, `numa`, `socket` to all that lies in the same ones as its share.
 *  - Nothing is bound when ranks are more than cores, nor a rank that is alone.
 *  - The default binds nothing. A rank sees its mask, and so does the program: a loader that makes a worker for each processor makes fewer, and
 *    draws other random numbers; one that makes more than processors warns. Bound it would not be the one-process run. Nor does it gain on one node:
 *    docs/measurements.md.
 *  - `auto` is `numa` where nothing can be lost but that: several nodes, each rank within one, masks of equal size, nobody else has bound us (srun,
 *    taskset), no quota that says others are here, too.
 *  - Memory goes where it is first touched, which is the rank's own node then. No memory policy is set: it would forbid the other nodes' memory.
 */
#ifndef ACCEL_RUN_PLACEMENT_H
#define ACCEL_RUN_PLACEMENT_H

#include <stdio.h>

#include "../../config/config.h"
#include "topology.h"

struct placement {
    const struct topology *topology; /* borrowed */
    enum config_bind wanted, done;   /* done is none, core, cache, numa or socket */
    const char *why;                 /* nothing is bound, although wanted; "" else. Literal */
    uint32_t ranks;
    struct cpus *sets; /* owned: one for each rank; NULL: nothing is bound */
};

/* ranks: those of this machine. Returns 0, or -1 when there is no memory. Clear in either case. */
int placement_build(struct placement *placement, const struct topology *topology, enum config_bind wanted, uint32_t ranks);
void placement_clear(struct placement *placement);

/* The processors of a rank; NULL: all that accel-run itself has. */
const struct cpus *placement_of(const struct placement *placement, uint32_t rank);

/* What --dry-run prints of it. */
void placement_print(const struct placement *placement, FILE *out);

#endif
