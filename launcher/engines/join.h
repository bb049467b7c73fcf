/*
 * What rank 0's front makes for all ranks that another launcher has started: the page they share (config/join.h), where the others' output goes, and
 * how the cores are divided.
 */
#ifndef ACCEL_RUN_JOIN_MADE_H
#define ACCEL_RUN_JOIN_MADE_H

#include "../../config/config.h"
#include "../../config/join.h"
#include "engines.h"
#include "rendezvous.h"

struct join {
    uint32_t world_size;
    struct join_page *page; /* owned: mapped */
    int memory;             /* owned: the memfd */
    int (*outputs)[2];      /* owned: of each rank, for stdout and stderr; -1 for rank 0 */
};

/* Makes the page and the outputs. hellos[world_size], rank 0's own included. Returns 0, or -1 with *problem; clear in either case. */
int join_make(struct join *join, const struct config *config, const struct engine *engine, const char *program,
              const struct rendezvous_hello *hellos, struct problem *problem);
void join_clear(struct join *join);

/* Pure. How many cores a rank may use: its part of those that others may use, too, at least one; and how many all ranks together. */
uint32_t join_share(const struct rendezvous_hello *hellos, uint32_t world_size, uint32_t rank);
uint32_t join_cores(const struct rendezvous_hello *hellos, uint32_t world_size);

#endif
