/*
 * Memory of a rank that the other ranks of its host see, for gradients: what lies there is summed in place (in_place.c) instead of passing through the rings.
 *
 * Rules
 *  - Blocks are handed out for the sizes that were added and no other, and are used again: nothing is cut or joined.
 *  - Nobody is owed a block. Where there is none (no /proc, little address space, several hosts) memory is the process's own, and sums pass through the rings.
 *  - A forked child shares nothing with the ranks: before a fork what is in use becomes the process's own (arena_fork.c), and the rest stays behind.
 *  - A block may be given back by any thread at any time, also in a forked child and while the process ends.
 */
#ifndef ACCEL_SHIM_COMM_ARENA_H
#define ACCEL_SHIM_COMM_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Below so many bytes the rings are as fast: in place costs a page a block and two barriers more. */
#define ARENA_LEAST_BYTES (32u << 10)

/* Makes sure that there is room for `bytes` bytes in all: a collective, every rank calls it. Each says what it wants, the most counts. False: a rank could not
   have it now, and may when it is asked for once more. The same answer on all ranks. */
bool arena_reserve(size_t bytes);
/* Is there any memory? The same answer on all ranks. */
bool arena_is_open(void);
/* From now on there are blocks of this size, as long as there is room. Any thread. */
void arena_add_size(size_t bytes);

/* Memory of a size that was added, page-aligned, contents undefined; NULL: none. Any thread. */
void *arena_take(size_t bytes);

/* All blocks lie between. */
extern _Atomic uintptr_t arena_low, arena_high;
static inline bool arena_is_near(const void *memory) {
    uintptr_t address = (uintptr_t)memory;
    return address >= atomic_load_explicit(&arena_low, memory_order_relaxed) &&
           address < atomic_load_explicit(&arena_high, memory_order_relaxed);
}
/* Takes a block back; false: it is none. Any thread, any process. */
bool arena_give_block(void *memory);
static inline bool arena_give(void *memory) {
    return arena_is_near(memory) && arena_give_block(memory);
}

/* Do the other ranks see these bytes? Any thread. */
bool arena_holds(const void *data, size_t bytes);

/* Are there nothing but zeros? Any memory. */
bool arena_is_zero(const void *data, size_t bytes);
/* The block at this address, if there is one, holds nothing but zeros: has a fork made it the process's own, it is shared again. Any thread. */
void arena_share_zeros(void *memory);

#endif
