/*
 * Which thread of the program is which: the same word on all ranks, so that a sum of one thread meets the other ranks' sums of that thread, in whatever order
 * the threads come.
 *
 * Rules
 *  - A thread is known by the one that has made it, by the code that it runs and by its number among those. The main thread's word is 0.
 *  - A task of Python's pools (concurrent.futures, multiprocessing.pool.ThreadPool) is known by the thread that has submitted it and its number, whichever
 *    worker does it.
 *  - Which thread takes what from a queue of the program's own is not known (docs/limits.md).
 */
#ifndef ACCEL_SHIM_THREADS_H
#define ACCEL_SHIM_THREADS_H

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic uint8_t threads_are_several; /* somebody has made a second one */

/* Any thread. */
uint64_t threads_own(void);

#endif
