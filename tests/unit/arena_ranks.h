/*
 * Ranks with memory that all of them see: what the tests of the arena share.
 */
#ifndef ACCEL_TESTS_ARENA_RANKS_H
#define ACCEL_TESTS_ARENA_RANKS_H

#include "ranks.h"

#include <stdlib.h>

#include "../../shim/comm/arena.h"

enum { SPANS = 6 };

/* Odd numbers of elements, one below the least size of an arena. */
static const size_t counts[SPANS] = {8192, 100003, 16001, 65536 * 3, 300, 40000};

static inline float *memory_of(size_t count, int is_shared) {
    float *memory = is_shared ? arena_take(count * sizeof(float)) : malloc(count * sizeof(float));
    RANK_EXPECT(memory);
    return memory;
}

static inline void open_arena(size_t bytes) {
    for (size_t span = 0; span < SPANS; span++) {
        arena_add_size(counts[span] * sizeof(float));
    }
    arena_reserve(bytes);
    RANK_EXPECT(arena_is_open());
}

static const uint32_t several[] = {2, 3, 4, 7};

static inline void run_several(void (*body)(void)) {
    for (size_t i = 0; i < sizeof several / sizeof several[0]; i++) {
        run_ranks(several[i], body, 0);
    }
}

#endif
