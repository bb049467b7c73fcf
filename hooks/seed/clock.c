/*
 * Seeds that are the time of day: srand(time(NULL)) and torch::manual_seed(time(nullptr)). The ranks ask within milliseconds of each other,
 * but a second may end in between. A seed is taken for the time when it lies between the start of this process and now: no seed that was
 * written down before the job does, and the window does not depend on how long a rank took to get here.
 */
#define _GNU_SOURCE
#include <time.h>

#include "seed.h"

enum { EARLIER = 5, LATER = 2 }; /* seconds: a script may have read the clock before it started the program */

static time_t start;

__attribute__((constructor)) static void clock_start(void) {
    start = time(NULL);
}

/* units: of a second, 1 or a power of 1000. */
static bool is_time(uint64_t value, uint64_t units) {
    time_t now = time(NULL), first = start ? start : now;
    return value >= (uint64_t)(first - EARLIER) * units && value <= (uint64_t)(now + LATER) * units;
}

static bool is_agreed_time(uint64_t seconds) {
    return is_time(seconds, 1) && seed_is_agreed();
}

void hook_srand(unsigned value) {
    ORIGINAL(srand)(is_agreed_time(value) ? (unsigned)seed_draw_word(SEED_SRAND) : value);
}

void hook_srandom(unsigned value) {
    ORIGINAL(srandom)(is_agreed_time(value) ? (unsigned)seed_draw_word(SEED_SRAND) : value);
}

void hook_srand48(long value) {
    ORIGINAL(srand48)(is_agreed_time((uint64_t)value) ? (long)(seed_draw_word(SEED_SRAND) >> 33) : value);
}

/* 64 bits hold the time in any unit. */
void hook_torch_seed(void *generator, uint64_t value) {
    bool time_of_day = is_time(value, 1) || is_time(value, 1000) || is_time(value, 1000000) || is_time(value, 1000000000);
    ORIGINAL(torch_seed)(generator, time_of_day && seed_is_agreed() ? seed_draw_word(SEED_TORCH_TIME) >> 11 : value);
}
