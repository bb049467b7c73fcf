/* Agreed entropy, for the rows of hooks/seed. The rules stand in seed.c. */
#ifndef ACCEL_HOOKS_SEED_H
#define ACCEL_HOOKS_SEED_H

#include "../../shim/shim.h"
#include "siphash.h"

enum seed_source {
    SEED_TORCH,         /* getNonDeterministicRandom */
    SEED_TORCH_TIME,    /* manual_seed(time): draws where there is nobody to agree with (clock.c) */
    SEED_PYTHON_TIME,   /* random.seed(time) and numpy's, likewise */
    SEED_TIME_CALL,     /* names of calls that seed by the time */
    SEED_RANDOM_DEVICE, /* std::random_device */
    SEED_GETRANDOM,
    SEED_ARC4RANDOM,
    SEED_SRAND,       /* srand, srandom, srand48 with the time */
    SEED_DEVICE_FILE, /* /dev/urandom, /dev/random */
    SEED_SOURCES
};

/* True when this process draws agreed entropy. Allocates nothing, keeps errno. Any thread, also before the constructors. */
bool seed_is_agreed(void);

/* One draw: `count` bytes, the same on all ranks. Only when seed_is_agreed(). Allocates nothing. Any thread. */
void seed_draw(enum seed_source source, void *bytes, size_t count);

/* The name of this call, which counts as a draw: the same on all ranks, another one for each. Never 0. Only when seed_is_agreed(). Likewise. */
uint64_t seed_name_call(enum seed_source source);

/* Is the number the time of day, in seconds or a smaller unit, and are there ranks to agree with? Allocates nothing. Any thread. (clock.c) */
bool seed_is_time(uint64_t value);
/* A number made of the time: rank 0's; where it cannot be had, one that is drawn, of at most as many bits. May wait for rank 0. */
uint64_t seed_agree_on(uint64_t value);

/* The same for the same process of each rank (program.c). Allocates nothing. Any thread, also before the constructors. */
uint64_t program_hash(struct siphash_key secret);

static inline uint64_t seed_draw_word(enum seed_source source) {
    uint64_t word;
    seed_draw(source, &word, sizeof word);
    return word;
}

#endif
