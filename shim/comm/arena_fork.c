/*
 * The arena and forks.
 *
 * A child of fork() has a copy of its parent's memory. Shared memory would not be copied: what the rank, or by way of a sum another rank, writes later would
 * appear in the child, and what the child writes in the rank. So before a fork all blocks in use become memory of the process's own, with what is in them;
 * given back, they are shared again. The pages are copied by the kernel when each is written to with its own value in one atomic operation: a thread that
 * writes to a gradient meanwhile loses nothing.
 *
 * A clone() that runs no handlers of pthread_atfork leaves the child without these pages (MADV_DONTFORK): it crashes where it touches them.
 */
#define _GNU_SOURCE
#include "arena_blocks.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void write_own_value(unsigned char *byte) {
    unsigned char value = __atomic_load_n(byte, __ATOMIC_RELAXED);
    __atomic_compare_exchange_n(byte, &value, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); /* writes in either case */
}

/* What is in the file is not needed any more: zeros again, and no memory. */
static bool detach(const struct arena_region *region, const struct arena_block *block) {
    off_t offset = block->memory - region->own;
    if (!own_is_there(&region->memory) ||
        mmap(block->memory, block->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, region->memory.number, offset) == MAP_FAILED) {
        return false;
    }
    for (size_t at = 0; at < block->bytes; at += ARENA_PAGE_BYTES) {
        write_own_value(block->memory + at);
    }
    fallocate(region->memory.number, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, (off_t)block->bytes);
    return true;
}

/* Where the program has closed our descriptor. Not atomic; the block cannot be shared again. */
static bool copy_away(const struct arena_block *block) {
    void *fresh = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) {
        return false;
    }
    memcpy(fresh, block->memory, block->bytes);
    if (mremap(fresh, block->bytes, block->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, block->memory) != MAP_FAILED) {
        return true;
    }
    munmap(fresh, block->bytes);
    return false;
}

static void detach_all(void) {
    for (uint32_t i = 0; i < arena.count; i++) {
        struct arena_region *region = &arena.regions[i];
        for (uint32_t at = 0; at < region->count; at++) {
            struct arena_block *block = &region->blocks[at];
            if (block->state == ARENA_SHARED && (detach(region, block) || copy_away(block))) {
                block->state = ARENA_OWN;
                arena.own_blocks++;
            }
        }
    }
}

static bool is_forking; /* both locks are held for a fork, by the thread that forks */

/* A signal handler that forks may have interrupted a sum, or what hands blocks out: then they stay as they are, and the child has none. A child, which may have
   come by another way than fork(), has none: the files are its parent's. */
static void before_fork(void) {
    if (!arena.count || arena.is_child || getpid() != arena.owner || arena_is_held(&arena.sharing) || arena_is_held(&arena.lock)) {
        return;
    }
    arena_lock_take(&arena.sharing);
    arena_lock_take(&arena.lock);
    is_forking = true;
    detach_all();
}

static void after_fork_in_parent(void) {
    if (!arena_is_held(&arena.lock) || !is_forking) {
        return;
    }
    is_forking = false;
    arena_lock_release(&arena.lock);
    arena_lock_release(&arena.sharing);
}

static void after_fork_in_child(void) {
    arena.is_child = arena.count > 0;
    after_fork_in_parent();
}

/* As early as can be: what registers later has its turn in between, without our locks before a fork and after it. */
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
