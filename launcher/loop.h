/*
 * The one poll loop: every round, each module adds the descriptors it wants watched with the function to call; then they are polled once.
 * Nothing is registered for longer than a round, so nothing can be forgotten to be removed.
 */
#ifndef ACCEL_RUN_LOOP_H
#define ACCEL_RUN_LOOP_H

#include <poll.h>
#include <stddef.h>

typedef void loop_ready(void *context, size_t index, short events);

struct loop_entry {
    loop_ready *ready;
    void *context;
    size_t index;
};

struct loop {
    struct pollfd *descriptors; /* owned */
    struct loop_entry *entries; /* owned */
    size_t count, capacity;
    int ready; /* of those that were polled last */
};

/* Adds a descriptor for this round (ignored when negative). Functions are called in the order of adding. Returns 0 or -1, out of memory. */
int loop_add(struct loop *loop, int descriptor, short events, loop_ready *ready, void *context, size_t index);

/* Polls. Returns as loop_round(). */
int loop_wait(struct loop *loop, int timeout_ms);
/* Calls those that are ready, and forgets everything added. */
void loop_call(struct loop *loop);
/* Both. Returns 0, or -1 with errno (EINTR counts as success). timeout_ms: -1 for ever. */
int loop_round(struct loop *loop, int timeout_ms);
void loop_clear(struct loop *loop);

#endif
