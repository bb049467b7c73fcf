/*
 * One signal that comes several times: somebody sends it to every process of the job (pkill), a scheduler to every host, and who has got it tells the others.
 * Pure: the time is given.
 *
 * Rule
 *  - Signals of one number within HEARD_MS are one, as long as none comes a second time from the same side: that is a new one (Ctrl-C twice).
 */
#ifndef ACCEL_RUN_HEARD_H
#define ACCEL_RUN_HEARD_H

#include <stdint.h>

#include "../config/board.h"

#define HEARD_MS 2000 /* a scheduler takes a moment for all hosts */

/* Sides: a rank of this host, to which it was sent; a host's accel-run; another host's ranks. Each with the number of a rank or host. */
enum heard_side { HEARD_RANK, HEARD_HOST, HEARD_RANKS_OF, HEARD_SIDES };

struct heard {
    uint64_t first_ms; /* 0: never */
    uint64_t sides[HEARD_SIDES][BOARD_RANKS_MAX / 64];
};

/* What this one is: another signal; one that an accel-run has told its ranks already; one that came to ranks alone so far, which all have it. */
enum heard_as { HEARD_NEW, HEARD_BEFORE, HEARD_BY_RANKS };

/* number: below BOARD_RANKS_MAX. now_ms: not 0. */
enum heard_as heard_take(struct heard *heard, enum heard_side side, uint32_t number, uint64_t now_ms);

#endif
