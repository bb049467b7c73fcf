/*
 * Seeds that are the time of day: srand(time(NULL)) and torch::manual_seed(time(nullptr)); Python's are asked for in python_seeds.c. The ranks
 * ask within milliseconds of each other, but a second may end in between. A seed is taken for the time when it lies between the start of this
 * process and a day from now: no seed that was written down before the job does, and the window does not depend on how long a rank took to get here.
 *
 * All ranks take the value that rank 0's same call was given (the first time that this command runs): it is what rank 0 prints, and what
 * seeds another run like this one; a number that is used for two seeds is one. The ranks of one host find it in memory that they share,
 * before they are ranks. On several hosts, and below another launcher, the seed is drawn.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <time.h>

#include "seed.h"

/* Seconds: a script may have read the clock before it started the program; to what is read now a worker's number is added, perhaps times 1000. */
enum { EARLIER = 5, LATER = 86400 };
enum { CALLS = 1 << 16, NEAR = 256, STEP_NS = 1000000, DEADLINE_STEPS = 20000, DECIDE_STEPS = 1000 };

static time_t start;

__attribute__((constructor)) static void clock_start(void) {
    start = time(NULL);
}

/* units: of a second, 1 or a power of 1000. */
static bool is_time(uint64_t value, uint64_t units) {
    time_t now = time(NULL), first = start ? start : now;
    return value >= (uint64_t)(first - EARLIER) * units && value <= (uint64_t)(now + LATER) * units;
}

/* ---- what the ranks have agreed on */

enum { OPEN, BEING_WRITTEN, DECIDED };

struct call {
    _Atomic uint64_t name; /* 0: free */
    _Atomic uint64_t value;
    _Atomic uint32_t state;
};

static struct shared_table table = {.begin = "/dev/shm/accel_seeds", .rank = 0, .bytes = CALLS * sizeof(struct call)};

/* Of this name; NULL: there are too many near its place. Whoever comes first enters it, and nobody takes it out: all find it, or none. */
static struct call *call_named(struct call *calls, uint64_t name) {
    for (size_t i = 0; i < NEAR; i++) {
        struct call *call = &calls[((name >> 1) + i) % CALLS]; /* names are odd */
        uint64_t nobody = atomic_load_explicit(&call->name, memory_order_relaxed);
        if (nobody == name || (!nobody && (atomic_compare_exchange_strong(&call->name, &nobody, name) || nobody == name)))
            return call;
    }
    return NULL;
}

static bool is_decided(struct call *call, int steps) {
    while (atomic_load(&call->state) != DECIDED && steps-- > 0)
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    return atomic_load(&call->state) == DECIDED;
}

/* Rank 0's; after the deadline that of whoever has waited: rank 0 has not come here, and takes it when it does. */
static uint64_t agree(struct call *call, uint64_t own) {
    uint32_t open = OPEN;
    if (shim_slot() && is_decided(call, DEADLINE_STEPS))
        return atomic_load(&call->value);
    if (atomic_compare_exchange_strong(&call->state, &open, BEING_WRITTEN)) {
        atomic_store(&call->value, own);
        atomic_store(&call->state, DECIDED);
    }
    return is_decided(call, DECIDE_STEPS) ? atomic_load(&call->value) : own;
}

/* drawn: what replaces it where the ranks cannot agree; a function of the drawn word. */
static uint64_t agreed_time(uint64_t value, enum seed_source source, int drawn_shift) {
    int saved_errno = errno;
    struct call *calls = shim_has_hosts() ? NULL : shared_table_of(&table, true);
    struct call *call = calls ? call_named(calls, seed_name_call(SEED_TIME_CALL)) : NULL;
    uint64_t agreed = call ? agree(call, value) : seed_draw_word(source) >> drawn_shift;
    errno = saved_errno;
    return agreed;
}

static uint64_t agreed_seconds(uint64_t value, int drawn_shift) {
    return is_time(value, 1) && seed_is_agreed() ? agreed_time(value, SEED_SRAND, drawn_shift) : value;
}

void hook_srand(unsigned value) {
    ORIGINAL(srand)((unsigned)agreed_seconds(value, 0));
}

void hook_srandom(unsigned value) {
    ORIGINAL(srandom)((unsigned)agreed_seconds(value, 0));
}

void hook_srand48(long value) {
    ORIGINAL(srand48)((long)agreed_seconds((uint64_t)value, 33));
}

bool seed_is_time(uint64_t value) {
    bool time_of_day = is_time(value, 1) || is_time(value, 1000) || is_time(value, 1000000) || is_time(value, 1000000000);
    return time_of_day && seed_is_agreed();
}

uint64_t seed_agree_on(uint64_t value) {
    return agreed_time(value, SEED_PYTHON_TIME, value >> 32 ? 11 : 32);
}

/* 64 bits hold the time in any unit. */
void hook_torch_seed(void *generator, uint64_t value) {
    ORIGINAL(torch_seed)(generator, seed_is_time(value) ? agreed_time(value, SEED_TORCH_TIME, 11) : value);
}
