/*
 * Where gradients lie: what libtorch allocates in a backward, of the size of some parameter, is taken from memory that all ranks see, so that the sum needs no
 * copies. It may turn out to be something else of that size; that does no harm.
 */
#include <stdlib.h>

#include "reduce.h"

/* A gradient, and one that is added to it or is in another layout. */
enum { BLOCKS_PER_LEAF = 2 };

struct large_leaf {
    struct tensor *leaf; /* borrowed: not to be looked into unless it still has the ordinal */
    size_t ordinal, bytes;
};

static struct large_leaf *large_leaves; /* of at least ARENA_LEAST_BYTES, and alive when last looked at */
static size_t large_count, large_room;
static _Atomic bool frees_arrive; /* else what is taken could not be given back */

void *hook_alloc_cpu(size_t bytes) {
    void *memory = bytes >= ARENA_LEAST_BYTES && shim_active() && backward_is_divided() ? arena_take(bytes) : NULL;
    return memory ? memory : ORIGINAL(alloc_cpu)(bytes);
}

void hook_free_cpu(void *memory) {
    if (arena_give(memory))
        return;
    if (!atomic_load_explicit(&frees_arrive, memory_order_relaxed))
        atomic_store_explicit(&frees_arrive, true, memory_order_relaxed);
    ORIGINAL(free_cpu)(memory);
}

static void forget_the_gone(void) {
    size_t kept = 0;
    for (size_t i = 0; i < large_count; i++)
        if (leaf_has_ordinal(large_leaves[i].leaf, large_leaves[i].ordinal))
            large_leaves[kept++] = large_leaves[i];
    large_count = kept;
}

static void remember(struct tensor *leaf, size_t ordinal) {
    if (!tensor_is_plain(leaf) || !tensor_is_on_host(leaf) || record_get(leaf).kind != RECORD_NONE)
        return;
    size_t bytes = tensor_bytes(leaf);
    if (bytes < ARENA_LEAST_BYTES)
        return;
    if (large_count == large_room) {
        size_t room = large_room ? 2 * large_room : 64;
        struct large_leaf *list = realloc(large_leaves, room * sizeof *list);
        if (!list)
            return;
        large_leaves = list;
        large_room = room;
    }
    large_leaves[large_count++] = (struct large_leaf){leaf, ordinal, bytes};
    arena_add_size(bytes);
}

/* Of a thread: it has met leaves for whose gradients there is no room yet. Many a program only evaluates. */
static bool main_needs_room;
static const struct threads_kept needs_room = {&main_needs_room, sizeof main_needs_room, NULL};

static void remember_all(struct tensor *const *leaves, size_t count) {
    forget_the_gone();
    for (size_t i = 0; i < count; i++)
        if (leaves[i])
            remember(leaves[i], leaf_ordinal(leaves[i]));
    *(bool *)threads_own_kept(&needs_room) = true;
}

const struct leaves_client leaves_client = {remember_all};

void memory_for_new_leaves(void) {
    bool *needs = threads_own_kept(&needs_room);
    size_t bytes = 0;
    if (!*needs)
        return;
    SHIM_COMM_SCOPE;
    for (size_t i = 0; i < large_count; i++)
        bytes += large_leaves[i].bytes * BLOCKS_PER_LEAF;
    *needs = !arena_reserve(frees_arrive ? bytes : 0);
}
