/*
 * Do all ranks do the same? Publishes what this rank is about to do and compares.
 */
#ifndef ACCEL_SHIM_COMM_AGREE_H
#define ACCEL_SHIM_COMM_AGREE_H

#include "segment.h"

/* What a collective is; must be the same on all ranks. */
struct agree_call {
    enum segment_kind kind;
    uint32_t dtype, op, root;
    uint64_t bytes, blocks;
    uint64_t shape; /* hash of anything else: the parts of an all-gather */
    uint64_t list;  /* not 0: hash of a list that the ranks may have different; bytes and dtype then belong to the list */
};

/* Enters a collective: board, sequence number, clock, post. Waits for nobody. */
void agree_enter(const char *label, const struct agree_call *call);

/* The first barrier of a collective: returns when all ranks have entered the same one, else ends in options.fail("AR-RANKS-PARTED", ...). */
void agree_pass(void);

/* After agree_pass(): have all ranks the same list? The same answer on all ranks. */
int agree_same_list(void);

/* Leaves the collective: board and statistics. */
void agree_leave(void);

/* Order-dependent mixing, 64 bits. */
static inline uint64_t agree_mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

#endif
