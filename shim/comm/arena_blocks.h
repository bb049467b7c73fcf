/*
 * Regions and blocks of the arena (arena.h).
 *
 *   region = [ places, in the first region only | blocks ]     a memfd of each rank's own, mapped by all
 */
#ifndef ACCEL_SHIM_COMM_ARENA_BLOCKS_H
#define ACCEL_SHIM_COMM_ARENA_BLOCKS_H

#include <pthread.h>

#include "arena.h"
#include "own.h"
#include "segment.h"

enum {
    ARENA_PAGE_BYTES = 4096,
    ARENA_REGIONS_MAX = 8,
    ARENA_SIZES_MAX = 256,   /* different ones */
    ARENA_PLACES_MAX = 8192, /* of one collective */
    ARENA_TRIES = 4,         /* descriptors and memory that are wanting at one time may be there at another */
};

enum arena_state {
    ARENA_FREE,   /* in its size's list */
    ARENA_SHARED, /* in use, the others see it */
    ARENA_OWN,    /* in use, the process's own since a fork: the others would see nothing of it */
    ARENA_LOST,   /* given back, but could not be shared again */
};

struct arena_block {
    unsigned char *memory;
    size_t bytes; /* whole pages */
    enum arena_state state;
    uint32_t size; /* index of its size */
    uint64_t next; /* free block of the same size: region << 32 | block, + 1; 0: none */
};

struct arena_region {
    unsigned char *views[BOARD_RANKS_MAX]; /* where each rank's memory is mapped here */
    unsigned char *own; /* this rank's: where blocks are. Known in forked children, too, which have forgotten their rank */
    size_t bytes, used;
    struct own_descriptor memory; /* of the own memfd; programs close what they find */
    struct arena_block *blocks;   /* by address */
    uint32_t count, room;
};

struct arena_size {
    size_t bytes;
    uint64_t free; /* as `next` in struct arena_block */
};

/* Knows its holder: a thread that forks holds both locks while other handlers run, which may give memory back; and a signal handler that forks may have
   interrupted a holder. One word says both that it is held and by whom: with a mutex beside it, such a handler could come in between, take its own thread
   for another, and wait for itself (a rank hung so in one of many hundred runs). */
struct arena_lock {
    _Atomic uintptr_t holder;       /* pthread_self(); 0: nobody */
    _Atomic uint32_t waiting, bell; /* threads; futex: another value whenever one of them may try again */
};

struct arena {
    struct arena_lock lock;    /* of all below */
    struct arena_lock sharing; /* held while other ranks may write to blocks: no fork comes in between. Taken before `lock` */
    struct arena_region regions[ARENA_REGIONS_MAX];
    struct arena_size sizes[ARENA_SIZES_MAX];
    uint32_t count, size_count; /* regions; sizes */
    uint32_t own_blocks;        /* in state ARENA_OWN */
    size_t reserved;            /* bytes of all regions, but for the places */
    pid_t owner;                /* the rank */
    bool is_child;              /* of a rank: blocks that are given back are left alone */
    uint32_t refusals;          /* regions that could not be made; the same on all ranks. After ARENA_TRIES no other is tried */
};
extern struct arena arena;

static inline bool arena_is_held(struct arena_lock *lock) {
    return atomic_load_explicit(&lock->holder, memory_order_relaxed) == (uintptr_t)pthread_self();
}
/* Returns false, nothing done, when this thread holds it already. */
bool arena_lock_take(struct arena_lock *lock);
void arena_lock_release(struct arena_lock *lock);
static inline void arena_scope_end(struct arena_lock **taken) {
    if (*taken) {
        arena_lock_release(*taken);
    }
}
/* Held until the end of the block; by whoever holds it already, beyond. */
#define ARENA_SCOPE(lock)                                                                                                                  \
    __attribute__((cleanup(arena_scope_end), unused)) struct arena_lock *arena_scope_ = arena_lock_take(lock) ? (lock) : NULL

/* Where the others see the bytes at data, for arena_view(); 0: nowhere. To stay true: `sharing` held. */
uint64_t arena_place(const void *data, size_t bytes);
static inline unsigned char *arena_view(uint32_t rank, uint64_t place) {
    return arena.regions[(place >> 48) - 1].views[rank] + (place & ((1ull << 48) - 1));
}
/* Where a rank writes the places that its spans have in a collective: ARENA_PLACES_MAX words, in one of two turns. There must be a region. */
#define ARENA_PLACES_BYTES (2 * ARENA_PLACES_MAX * sizeof(uint64_t))
static inline uint64_t *arena_places(uint32_t rank, unsigned turn) {
    return (uint64_t *)(void *)arena.regions[0].views[rank] + (size_t)turn * ARENA_PLACES_MAX;
}

/* A region of so many bytes on all ranks, or on none (arena_share.c). A collective. */
bool arena_make_region(struct arena_region *region, size_t bytes);
/* Maps a block shared again, with what is in the file; false: not possible. */
bool arena_map_shared(const struct arena_region *region, const struct arena_block *block);
#endif
