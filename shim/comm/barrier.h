/*
 * The barrier of a host's ranks. Its leader waits for other hosts in network.c; nobody else in shim/comm waits.
 */
#ifndef ACCEL_SHIM_COMM_BARRIER_H
#define ACCEL_SHIM_COMM_BARRIER_H

#include <stddef.h>
#include <stdint.h>

/* Ends in options.fail when the job is being stopped; for those who wait for something else. */
void barrier_look_up(void);

/* One rank that has not come, in words that end with "; ". Returns the characters written, or needed. */
int barrier_describe(char *text, size_t room, uint32_t rank);

/* Tells the others of this host that this rank has come, and waits until all have. What a rank wrote to the segment before is visible to all afterwards.
   Ends in options.fail, never returning, when the job is aborted or segment.deadline_ns has passed. */
void barrier_pass(void);

#endif
