/*
 * The monotonic clock. A read costs 20 to 60 ns: no system call.
 *
 * It goes on while the process does not: a job scheduler suspends all processes of a job, Ctrl-Z stops them, a virtual machine is paused. They have not waited
 * for each other meanwhile, so waits with a deadline look at the clock in each of their naps, and begin that much later.
 *
 * Nor is rank 0 late while it waits for what the program alone would wait for: they begin anew as long as it is seen to do that (board.h: held_ns).
 */
#ifndef ACCEL_SHIM_COMM_CLOCK_H
#define ACCEL_SHIM_COMM_CLOCK_H

#include <stdatomic.h>
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

/* On the board; NULL: nobody says so. */
extern const _Atomic uint64_t *_Atomic clock_held;

/* When rank 0 was last held up; 0: never. One that has not come yet was written by another clock, in a container's time, and says nothing. */
static inline uint64_t clock_held_ns(void) {
    const _Atomic uint64_t *held = atomic_load_explicit(&clock_held, memory_order_relaxed);
    uint64_t held_ns = held ? atomic_load_explicit(held, memory_order_acquire) : 0;
    return held_ns && held_ns <= clock_ns() ? held_ns : 0;
}

/* When a wait that began then has begun, as far as deadlines go. */
static inline uint64_t clock_begun_ns(uint64_t since_ns) {
    uint64_t held_ns = clock_held_ns();
    return held_ns > since_ns ? held_ns : since_ns;
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
    wait->since_ns = clock_begun_ns(wait->since_ns + clock_pause_ns(&wait->looked_ns));
    return wait->looked_ns > wait->since_ns ? wait->looked_ns - wait->since_ns : 0;
}

static inline uint64_t clock_waited_ms(struct clock_wait *wait) {
    return clock_waited_ns(wait) / 1000000;
}

#endif
