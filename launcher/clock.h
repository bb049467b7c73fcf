/* Milliseconds of the monotonic clock. */
#ifndef ACCEL_RUN_CLOCK_H
#define ACCEL_RUN_CLOCK_H

#include <stdint.h>
#include <time.h>

enum { CLOCK_PAUSE_MS = 2000 }; /* what a wait takes more than it was given, where the machine was paused and not only busy */

static inline uint64_t clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

#endif
