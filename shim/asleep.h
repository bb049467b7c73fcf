/*
 * Is the process asleep for good: does each of its threads wait for something that only another one of them could do, as for a lock?
 *
 * Threads that wait for other ranks say so, and may nap. For good sleeps who waits for a futex of the process's own without a time limit (locks,
 * condition variables, semaphores, joined threads), as the kernel shows it (/proc/self/task/TID/syscall). Who waits for a time, a file, another process,
 * or computes does not: it may yet come. Where the kernel does not show it, nobody sleeps for good.
 *
 * Any thread. Allocates nothing, keeps errno, takes no lock.
 */
#ifndef ACCEL_SHIM_ASLEEP_H
#define ACCEL_SHIM_ASLEEP_H

#include <stdbool.h>
#include <stdint.h>

/* This thread waits for other ranks from now on, or no longer. Returns a place, to be given back. */
int asleep_wait(void);
void asleep_wait_no_more(int place);

/* Are all threads but this one asleep, for good or napping? *mark: another one when one that does not wait for other ranks has run since. */
bool asleep_look(uint64_t *mark);

#endif
