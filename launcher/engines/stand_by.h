/*
 * Where a launcher has started one process for each rank on several hosts: the first one on each host starts the host's ranks and stays with them
 * (hosts.h), the others stand by and end as it ends. To become a rank by exec is for one host: between hosts somebody must hold the connection.
 */
#ifndef ACCEL_RUN_STAND_BY_H
#define ACCEL_RUN_STAND_BY_H

#include "../../config/board.h"
#include "front.h"

struct stand_by {
    int connections[BOARD_RANKS_MAX]; /* owned: at 1 .. count */
    uint32_t count;
};

/* The first process of the host: all others have come, with the same settings. Returns 0 or -1 with *problem; release in either case. */
int stand_by_gather(struct stand_by *others, const struct front *front, struct problem *problem);
/* They end with this exit code. */
void stand_by_release(struct stand_by *others, int exit_code);

/* Another process of the host. Returns the exit code when the first one ends, or -1 with *problem. */
int stand_by_wait(const struct front *front, struct problem *problem);

#endif
