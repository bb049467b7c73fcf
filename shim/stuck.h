/*
 * Ranks that wait for each other for ever: on one, a thread that has a lock of the program's waits for the other ranks, and on another one the thread that
 * would come waits for that lock, whose owner waits for the first rank. Neither order of the lock is wrong; in one process there is only one of them.
 *
 * Rules
 *  - Seen when all ranks have been asleep (asleep.h) at one time: each looks at its own threads while one of them waits, says so on the board, and counts
 *    the others only when they have looked again since. Nothing can happen then that does not come from a rank, so it is certain, not a guess by time.
 *  - Rank 0 goes on without the others, one thread of it, and they find later what it has done: that is one process with its order of the lock. The others
 *    never go on without rank 0.
 *  - One host: what other hosts' ranks do is not seen. There, and where the kernel does not show it, it is the deadlines of who waits.
 *  - Any thread. Allocates nothing, keeps errno.
 */
#ifndef ACCEL_SHIM_STUCK_H
#define ACCEL_SHIM_STUCK_H

#include <stdbool.h>
#include <stdint.h>

enum { STUCK_NAP_MS = 2, STUCK_NAPS = 50 }; /* how long one naps between the first looks, and how many are these */

/* At the claim. */
void stuck_begin(uint32_t world_size);
/* A thread begins to wait for other ranks; it waits no longer, place: what the first returned. */
int stuck_wait(void);
void stuck_wait_no_more(int place);
/* While it waits, once a nap. True: all ranks are stuck, and this thread, one at a time, is to go on; never unless it may. */
bool stuck_look(bool may_go_on);

#endif
