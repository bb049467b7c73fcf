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

/* What every rank has put on its stage at `turn`: `each` bytes, or those of its rank in `bytes`. */
struct agree_stage {
    size_t turn, each;
    const size_t *bytes;
};

/* The first barrier of a collective: returns when all ranks have entered the same one, else ends in options.fail("AR-RANKS-PARTED", ...). Then the stages
   of ranks of other hosts are filled, too. stage: NULL for none. Where the ranks have different lists it is not looked at. */
void agree_pass(const struct agree_stage *stage);

/* What all ranks of this host wish for. */
uint32_t agree_wishes_here(void);
/* Do the ranks of this host have the same list? */
int agree_same_list_here(void);
/* Ends the job: ranks base and rank differ in their posts of this collective. */
void agree_fail(uint32_t base, uint32_t rank) __attribute__((noreturn));

/* After agree_pass(): have all ranks the same list? The same answer on all ranks. */
int agree_same_list(void);

/* Leaves the collective: board and statistics. */
void agree_leave(void);

/* Order-dependent mixing, 64 bits. */
static inline uint64_t agree_mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* Inside the caller's lock, whose turn is this thread's: what it has noted before belongs to the collective to come. */
void agree_take_notes(uint64_t thread);

/* turn.c: the program has, or has had, a second thread. */
int turn_are_several(void);

#endif
