/*
 * The monotonic clock. A read costs 20 to 60 ns: no system call.
 *
 * It goes on while the process does not: a job scheduler suspends all processes of a job, Ctrl-Z stops them, a virtual machine is paused. They have not waited
 * for each other meanwhile, so waits with a deadline look at the clock in each of their naps, and begin that much later.
 */
#ifndef ACCEL_SHIM_COMM_CLOCK_H
#define ACCEL_SHIM_COMM_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_ms(void) {
    return clock_ns() / 1000000;
}

enum { CLOCK_PAUSE_MS = 2000 }; /* far longer than a nap, even where many processes share a core */

/* looked_ns: when a waiting thread has looked before; it is now. How long the process was stopped since; 0: it was not. */
static inline uint64_t clock_pause_ns(uint64_t *looked_ns) {
    uint64_t now = clock_ns(), gap = now - *looked_ns;
    *looked_ns = now;
    return gap >= CLOCK_PAUSE_MS * (uint64_t)1000000 ? gap : 0;
}

/* Of one thread. */
struct clock_wait {
    uint64_t since_ns, looked_ns;
};

static inline struct clock_wait clock_wait_begin(void) {
    uint64_t now = clock_ns();
    return (struct clock_wait){now, now};
}

/* How long it has waited; to be asked in each nap. */
static inline uint64_t clock_waited_ns(struct clock_wait *wait) {
    wait->since_ns += clock_pause_ns(&wait->looked_ns);
    return wait->looked_ns - wait->since_ns;
}

static inline uint64_t clock_waited_ms(struct clock_wait *wait) {
    return clock_waited_ns(wait) / 1000000;
}

#endif
