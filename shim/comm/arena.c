/*
 * Blocks of shared memory: handed out, found by address, taken back.
 */
#define _GNU_SOURCE
#include "arena_blocks.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

_Atomic uintptr_t arena_low, arena_high;
struct arena arena;

enum { REGION_BYTES_LEAST = 1 << 20, BLOCKS_FIRST = 64 };

static bool take_at_once(struct arena_lock *lock) {
    uintptr_t nobody = 0;
    return atomic_compare_exchange_strong(&lock->holder, &nobody, (uintptr_t)pthread_self());
}

/* Whoever waits counts itself before it looks again: whoever releases the lock after that look sees it, and rings. */
static void take_after_waiting(struct arena_lock *lock) {
    int saved_errno = errno;
    atomic_fetch_add(&lock->waiting, 1);
    for (;;) {
        uint32_t bell = atomic_load(&lock->bell);
        if (take_at_once(lock)) {
            break;
        }
        syscall(SYS_futex, &lock->bell, FUTEX_WAIT_PRIVATE, bell, NULL, NULL, 0);
    }
    atomic_fetch_sub(&lock->waiting, 1);
    errno = saved_errno;
}

bool arena_lock_take(struct arena_lock *lock) {
    if (arena_is_held(lock)) {
        return false;
    }
    if (!take_at_once(lock)) {
        take_after_waiting(lock);
    }
    return true;
}

void arena_lock_release(struct arena_lock *lock) {
    atomic_store(&lock->holder, 0);
    if (atomic_load(&lock->waiting)) {
        int saved_errno = errno;
        atomic_fetch_add(&lock->bell, 1);
        syscall(SYS_futex, &lock->bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        errno = saved_errno;
    }
}

static size_t whole_pages(size_t bytes) {
    return (bytes + ARENA_PAGE_BYTES - 1) / ARENA_PAGE_BYTES * ARENA_PAGE_BYTES;
}

static struct arena_size *find_size(size_t bytes) {
    for (uint32_t i = 0; i < arena.size_count; i++) {
        if (arena.sizes[i].bytes == bytes) {
            return &arena.sizes[i];
        }
    }
    return NULL;
}

void arena_add_size(size_t bytes) {
    ARENA_SCOPE(&arena.lock);
    size_t whole = whole_pages(bytes);
    if (bytes >= ARENA_LEAST_BYTES && arena.size_count < ARENA_SIZES_MAX && !find_size(whole)) {
        arena.sizes[arena.size_count++] = (struct arena_size){.bytes = whole};
    }
}

static void widen_bounds(const struct arena_region *region) {
    uintptr_t low = (uintptr_t)region->own, high = low + region->bytes;
    if (!arena_low || low < arena_low) {
        atomic_store(&arena_low, low);
    }
    if (high > arena_high) {
        atomic_store(&arena_high, high);
    }
}

static size_t largest(const uint64_t *all) {
    size_t most = 0;
    for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
        most = all[rank] > most ? (size_t)all[rank] : most;
    }
    return most;
}

bool arena_reserve(size_t bytes) {
    uint64_t all[BOARD_RANKS_MAX];
    comm_all_gather_words("bytes of shared gradients", bytes, all);
    size_t wanted = largest(all);
    if (segment_is_spread() || arena.refusals == ARENA_TRIES || wanted <= arena.reserved || arena.count == ARENA_REGIONS_MAX) {
        return true;
    }
    size_t more = whole_pages(wanted - arena.reserved) + (arena.count ? 0 : ARENA_PLACES_BYTES);
    struct arena_region *region = &arena.regions[arena.count];
    memset(region, 0, sizeof *region);
    if (!arena_make_region(region, more > REGION_BYTES_LEAST ? more : REGION_BYTES_LEAST)) {
        return ++arena.refusals == ARENA_TRIES;
    }
    region->used = arena.count ? 0 : ARENA_PLACES_BYTES;
    ARENA_SCOPE(&arena.lock);
    widen_bounds(region);
    arena.reserved += region->bytes - region->used;
    arena.count++;
    arena.owner = getpid();
    return true;
}

bool arena_is_open(void) {
    return arena.count > 0;
}

static struct arena_block *block_by_number(uint64_t number) {
    return &arena.regions[(number - 1) >> 32].blocks[(uint32_t)(number - 1)];
}

static uint64_t number_of(const struct arena_region *region, const struct arena_block *block) {
    return ((uint64_t)(region - arena.regions) << 32 | (uint64_t)(block - region->blocks)) + 1;
}

/* A new block at the end of what is used, or NULL. */
static struct arena_block *cut_from(struct arena_region *region, const struct arena_size *size) {
    if (region->bytes - region->used < size->bytes) {
        return NULL;
    }
    if (region->count == region->room) {
        uint32_t room = region->room ? 2 * region->room : BLOCKS_FIRST;
        struct arena_block *blocks = realloc(region->blocks, room * sizeof *blocks);
        if (!blocks) {
            return NULL;
        }
        region->blocks = blocks;
        region->room = room;
    }
    struct arena_block *block = &region->blocks[region->count++];
    *block = (struct arena_block){.memory = region->own + region->used, .bytes = size->bytes, .size = (uint32_t)(size - arena.sizes)};
    region->used += size->bytes;
    return block;
}

void *arena_take(size_t bytes) {
    if (arena_is_held(&arena.lock)) { /* what a child gets must not be taken while the fork is on its way */
        return NULL;
    }
    ARENA_SCOPE(&arena.lock);
    struct arena_size *size = arena.is_child ? NULL : find_size(whole_pages(bytes));
    struct arena_block *block = NULL;
    if (size && size->free) {
        block = block_by_number(size->free);
        size->free = block->next;
    }
    for (uint32_t i = 0; size && !block && i < arena.count; i++) {
        block = cut_from(&arena.regions[i], size);
    }
    if (!block) {
        return NULL;
    }
    block->state = ARENA_SHARED;
    return block->memory;
}

/* The region whose own memory holds the address. */
static struct arena_region *region_of(const void *memory) {
    for (uint32_t i = 0; i < arena.count; i++) {
        const unsigned char *begin = arena.regions[i].own;
        if ((const unsigned char *)memory >= begin && (const unsigned char *)memory < begin + arena.regions[i].used) {
            return &arena.regions[i];
        }
    }
    return NULL;
}

/* The last block that does not begin behind the address; NULL: none. */
static struct arena_block *block_at(const struct arena_region *region, const void *memory) {
    uint32_t low = 0, high = region->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (region->blocks[middle].memory <= (const unsigned char *)memory) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low ? &region->blocks[low - 1] : NULL;
}

/* A block in use at this address exactly, and its region. */
static struct arena_block *find_block(const void *memory, struct arena_region **region) {
    *region = region_of(memory);
    struct arena_block *block = *region ? block_at(*region, memory) : NULL;
    bool is_used = block && block->memory == memory && (block->state == ARENA_SHARED || block->state == ARENA_OWN);
    return is_used ? block : NULL;
}

bool arena_give_block(void *memory) {
    struct arena_region *region;
    ARENA_SCOPE(&arena.lock);
    struct arena_block *block = find_block(memory, &region);
    if (!block || arena.is_child) {
        return block != NULL;
    }
    if (block->state == ARENA_OWN) {
        arena.own_blocks--;
        if (!arena_map_shared(region, block)) {
            block->state = ARENA_LOST;
            return true;
        }
    }
    block->state = ARENA_FREE;
    block->next = arena.sizes[block->size].free;
    arena.sizes[block->size].free = number_of(region, block);
    return true;
}

bool arena_is_zero(const void *data, size_t bytes) {
    const unsigned char *all = data;
    return !bytes || (!all[0] && !memcmp(all, all + 1, bytes - 1)); /* each byte equals the one before it */
}

/* Of the block's bytes a part may be another tensor's, or more than the tensor's: all must be zeros. */
void arena_share_zeros(void *memory) {
    struct arena_region *region;
    ARENA_SCOPE(&arena.lock);
    struct arena_block *block = arena.own_blocks ? find_block(memory, &region) : NULL;
    if (block && block->state == ARENA_OWN && arena_is_zero(block->memory, block->bytes) && arena_map_shared(region, block)) {
        memset(block->memory, 0, block->bytes); /* where the file could not be emptied at the fork, what was in it then has come back */
        block->state = ARENA_SHARED;
        arena.own_blocks--;
    }
}

bool arena_holds(const void *data, size_t bytes) {
    return arena_is_near(data) && arena_place(data, bytes);
}

uint64_t arena_place(const void *data, size_t bytes) {
    ARENA_SCOPE(&arena.lock);
    const struct arena_region *region = region_of(data);
    const struct arena_block *block = region ? block_at(region, data) : NULL;
    if (!block || block->state != ARENA_SHARED || (const unsigned char *)data + bytes > block->memory + block->bytes) {
        return 0;
    }
    uint64_t offset = (uint64_t)((const unsigned char *)data - region->own);
    return (uint64_t)(region - arena.regions + 1) << 48 | offset;
}
