/*
 * The barrier: the only place of shim/comm that waits.
 */
#ifndef ACCEL_SHIM_COMM_BARRIER_H
#define ACCEL_SHIM_COMM_BARRIER_H

#include <stdint.h>

/* Monotonic time in nanoseconds. */
uint64_t barrier_now(void);

/* Tells the others that this rank has come, and waits until all have. What a rank wrote to the segment before is visible to all afterwards.
   Ends in options.fail, never returning, when the job is aborted or segment.deadline_ns has passed. */
void barrier_pass(void);

#endif
