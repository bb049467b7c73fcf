/*
 * The list of leaves of each thread; and the autograd node that accumulates into a leaf, known from its constructor, so that no offset within the node is
 * needed.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../pairs.h"
#include "../python.h"
#include "../shim.h"
#include "../threads.h"
#include "functions.h"

enum { NUMBER_BITS = 32, CHUNK = 64 };

#define OF_EXAMPLES ((size_t)UINT32_MAX) /* no maker's key */

/* Leaves by number. A checkpoint that is computed again makes one each time: those of which all are gone are freed. */
struct chunk {
    size_t living;
    struct tensor *leaves[CHUNK]; /* NULL: gone */
};

/* Who makes leaves: a thread, or a task. Never freed. */
struct maker {
    size_t key;            /* of its word; two of 2^32 threads with one key count together */
    struct chunk **chunks; /* NULL: freed */
    size_t room;           /* for chunks */
    _Atomic size_t count, compared;
    struct maker *_Atomic from; /* who has made it; NULL: nobody who knew any that were not compared */
    size_t of_from;             /* leaves that were there by then */
};

static struct maker main_thread;
static struct pairs makers;          /* key → maker */
static struct pairs ordinals, nodes; /* leaf → ordinal (+1), node → leaf. All three are read without the lock. */
static pthread_mutex_t leaf_mutex = PTHREAD_MUTEX_INITIALIZER; /* of who writes */

static void leaf_unlock(int *unused) {
    pthread_mutex_unlock(&leaf_mutex);
}

#define LEAF_SCOPE __attribute__((cleanup(leaf_unlock), unused)) int leaf_scope_ = (python_lock(&leaf_mutex), 0)

__attribute__((constructor)) static void leaf_start(void) {
    threads_renew_in_child(&leaf_mutex);
}

/* ---- makers */

static size_t key_of(uint64_t word) {
    size_t key = word >> NUMBER_BITS;
    return word && (!key || key == OF_EXAMPLES) ? 1 : key;
}

/* NULL: it has none. */
static struct maker *maker_find(size_t key) {
    return key ? pairs_get(&makers, (void *)key) : &main_thread;
}

static struct maker *maker_own(void) {
    return maker_find(key_of(threads_own()));
}

/* Lock held. */
static struct maker *maker_get(size_t key) {
    struct maker *maker = maker_find(key);
    if (maker)
        return maker;
    maker = calloc(1, sizeof *maker);
    maker->key = key;
    pairs_put(&makers, (void *)key, maker);
    return maker;
}

/* Goes over those that this thread knows, from the latest to the oldest: limit is how many of the maker's. */
static struct maker *maker_before(const struct maker *maker, size_t *limit) {
    *limit = maker->of_from;
    return atomic_load_explicit(&maker->from, memory_order_acquire);
}

bool leaves_are_new(void) {
    struct maker *own = maker_own();
    size_t limit = own ? atomic_load_explicit(&own->count, memory_order_relaxed) : 0;
    for (struct maker *maker = own; maker; maker = maker_before(maker, &limit))
        if (atomic_load_explicit(&maker->compared, memory_order_acquire) < limit)
            return true;
    if (own && own->from) /* they remain compared */
        atomic_store_explicit(&own->from, NULL, memory_order_release);
    return false;
}

void leaves_pass_on(uint64_t word) {
    if (!leaves_are_new())
        return;
    struct maker *own = maker_own();
    LEAF_SCOPE;
    struct maker *made = maker_get(key_of(word));
    made->of_from = own->count;
    atomic_store_explicit(&made->from, own, memory_order_release);
}

/* ---- its leaves. Lock held. */

static struct tensor *leaf_at(const struct maker *maker, size_t number) {
    const struct chunk *chunk = number < maker->count ? maker->chunks[number / CHUNK] : NULL;
    return chunk ? chunk->leaves[number % CHUNK] : NULL;
}

static struct chunk *chunk_for(struct maker *maker, size_t number) {
    size_t at = number / CHUNK, before = maker->room;
    if (at == before) {
        maker->room = before ? 2 * before : 1;
        maker->chunks = realloc(maker->chunks, maker->room * sizeof *maker->chunks);
        memset(maker->chunks + before, 0, (maker->room - before) * sizeof *maker->chunks);
    }
    if (!maker->chunks[at])
        maker->chunks[at] = calloc(1, sizeof **maker->chunks);
    return maker->chunks[at];
}

static void forget(struct maker *maker, size_t number) {
    struct chunk **chunk = &maker->chunks[number / CHUNK];
    (*chunk)->leaves[number % CHUNK] = NULL;
    if (--(*chunk)->living)
        return;
    free(*chunk);
    *chunk = NULL;
}

/* Appends the maker's leaves up to limit. Other threads may let go of theirs meanwhile: their end waits for the lock (leaf_gone). */
static size_t take(struct maker *maker, size_t limit, struct tensor ***list, size_t count) {
    size_t first = maker->compared;
    if (first >= limit)
        return count;
    *list = realloc(*list, (count + limit - first) * sizeof **list);
    if (!*list)
        shim_problem("AR-MEMORY", "Run on a machine with more memory, or with fewer ranks.", "no memory to check %zu parameters", limit);
    for (size_t i = first; i < limit; i++) {
        struct tensor *leaf = leaf_at(maker, i);
        (*list)[count + i - first] = leaf && tensor_retain_living(leaf) ? leaf : NULL;
    }
    atomic_store_explicit(&maker->compared, limit, memory_order_release);
    return count + limit - first;
}

size_t leaves_take_new(struct tensor ***list) {
    LEAF_SCOPE;
    struct maker *maker = maker_own();
    size_t limit = maker ? maker->count : 0, count = 0;
    for (*list = NULL; maker; maker = maker_before(maker, &limit))
        count = take(maker, limit, list, count);
    return count;
}

bool leaf_is_known(size_t ordinal) {
    struct maker *maker = maker_find(ordinal >> NUMBER_BITS);
    return maker == maker_own() || !maker || maker->compared > leaf_number(ordinal);
}

size_t leaves_take_until(size_t ordinal, struct tensor ***list) {
    LEAF_SCOPE;
    *list = NULL;
    return take(maker_find(ordinal >> NUMBER_BITS), (size_t)leaf_number(ordinal) + 1, list, 0);
}

/* ---- leaves */

size_t leaf_place(const struct tensor *leaf) {
    return (size_t)pairs_get(&ordinals, leaf);
}

/* Of what a loader's worker makes while it reads an example: which worker reads which is another one on each rank. Not listed, so not compared. Lock held. */
static size_t number_of_example(void) {
    static size_t count;
    return OF_EXAMPLES << NUMBER_BITS | (uint32_t)count++;
}

/* Lock held. */
static size_t number_of_maker(struct tensor *leaf) {
    struct maker *maker = maker_get(key_of(threads_own()));
    struct chunk *chunk = chunk_for(maker, maker->count);
    chunk->leaves[maker->count % CHUNK] = leaf;
    chunk->living++;
    return maker->key << NUMBER_BITS | atomic_fetch_add_explicit(&maker->count, 1, memory_order_release);
}

static size_t ordinal_give(struct tensor *leaf) {
    bool is_of_example = shim_reads_example();
    if (is_of_example) /* how many there are hangs on how many are read */
        shim_note_draw();
    LEAF_SCOPE;
    size_t known = leaf_place(leaf);
    if (known) /* another thread was first */
        return known;
    size_t ordinal = is_of_example && !threads_is_main() ? number_of_example() : number_of_maker(leaf);
    pairs_put(&ordinals, leaf, (void *)(ordinal + 1));
    tensor_mark_parameter(leaf);
    return ordinal + 1;
}

size_t leaf_ordinal(struct tensor *leaf) {
    size_t known = leaf_place(leaf);
    return (known ? known : ordinal_give(leaf)) - 1;
}

bool leaf_has_ordinal(struct tensor *leaf, size_t ordinal) {
    return leaf_place(leaf) == ordinal + 1;
}

bool leaf_is_of_thread(size_t ordinal) {
    return ordinal >> NUMBER_BITS;
}

uint32_t leaf_number(size_t ordinal) {
    return (uint32_t)ordinal;
}

void leaf_gone(struct tensor *leaf) {
    size_t known = leaf_place(leaf);
    if (!known)
        return; /* a view of a parameter carries its key */
    LEAF_SCOPE;
    struct maker *maker = maker_find((known - 1) >> NUMBER_BITS);
    if (maker)
        forget(maker, leaf_number(known - 1));
    pairs_put(&ordinals, leaf, NULL);
}

struct tensor *leaf_by_ordinal(size_t ordinal) {
    LEAF_SCOPE;
    struct maker *maker = maker_find(ordinal >> NUMBER_BITS);
    return maker ? leaf_at(maker, leaf_number(ordinal)) : NULL;
}

void leaf_node_made(void *node, struct tensor *leaf) {
    leaf_ordinal(leaf);
    if (pairs_get(&nodes, node) == leaf) /* as in the step before: the same memory */
        return;
    LEAF_SCOPE;
    pairs_put(&nodes, node, leaf);
}

struct tensor *leaf_of_node(void *node) {
    if (torch_facts.is_bound) {
        struct tensor *leaf = *(struct tensor **)((char *)node + torch_facts.node_leaf);
        leaf_ordinal(leaf);
        return leaf;
    }
    return pairs_get(&nodes, node);
}
