/*
 * Leaves: the tensors that gradients are accumulated into. Each has an ordinal, the order in which the program made it, by which ranks speak of the same leaf;
 * and the autograd node that accumulates into it, known from its constructor, so that no offset within the node is needed.
 */
#include <pthread.h>
#include <stdlib.h>

#include "../shim.h"
#include "functions.h"

/* Two pointer tables in one shape: leaf → ordinal (+1), node → leaf. */
struct pair {
    void *key;
    void *value;
};

struct pairs {
    struct pair *entries;
    size_t size, used;
};

static struct pairs ordinals, nodes;
static struct tensor **leaves; /* by ordinal; NULL: gone */
static size_t leaf_next, leaf_room;
static pthread_mutex_t leaf_mutex = PTHREAD_MUTEX_INITIALIZER;

static void leaf_unlock(int *unused) {
    pthread_mutex_unlock(&leaf_mutex);
}

#define LEAF_SCOPE __attribute__((cleanup(leaf_unlock), unused)) int leaf_scope_ = pthread_mutex_lock(&leaf_mutex)

static struct pair *pairs_find(struct pairs *pairs, void *key) {
    size_t place = (size_t)(((uintptr_t)key * 0x9E3779B97F4A7C15ull) >> 32) & (pairs->size - 1);
    while (pairs->entries[place].key && pairs->entries[place].key != key)
        place = (place + 1) & (pairs->size - 1);
    return &pairs->entries[place];
}

/* A key once used stays as a place (its value may be NULL): addresses are reused, so the table stays small. */
static void pairs_put(struct pairs *pairs, void *key, void *value) {
    if (2 * pairs->used >= pairs->size) {
        struct pairs old = *pairs;
        pairs->size = old.size ? 2 * old.size : 1024;
        pairs->entries = calloc(pairs->size, sizeof *pairs->entries);
        for (size_t i = 0; i < old.size; i++)
            if (old.entries[i].key)
                *pairs_find(pairs, old.entries[i].key) = old.entries[i];
        free(old.entries);
    }
    struct pair *pair = pairs_find(pairs, key);
    pairs->used += !pair->key;
    *pair = (struct pair){key, value};
}

static void *pairs_get(struct pairs *pairs, void *key) {
    return pairs->size ? pairs_find(pairs, key)->value : NULL;
}

size_t leaf_ordinal(struct tensor *leaf) {
    LEAF_SCOPE;
    uintptr_t known = (uintptr_t)pairs_get(&ordinals, leaf);
    if (known)
        return known - 1;
    if (leaf_next == leaf_room) {
        leaf_room = leaf_room ? 2 * leaf_room : 1024;
        leaves = realloc(leaves, leaf_room * sizeof(struct tensor *));
    }
    leaves[leaf_next++] = leaf;
    pairs_put(&ordinals, leaf, (void *)leaf_next);
    tensor_mark_parameter(leaf);
    return leaf_next - 1;
}

void leaf_gone(struct tensor *leaf) {
    LEAF_SCOPE;
    uintptr_t known = (uintptr_t)pairs_get(&ordinals, leaf);
    if (!known)
        return; /* a view of a parameter carries its key */
    leaves[known - 1] = NULL;
    pairs_put(&ordinals, leaf, NULL);
}

size_t leaf_count(void) {
    LEAF_SCOPE;
    return leaf_next;
}

struct tensor *leaf_by_ordinal(size_t ordinal) {
    LEAF_SCOPE;
    return ordinal < leaf_next ? leaves[ordinal] : NULL;
}

void leaf_node_made(void *node, struct tensor *leaf) {
    leaf_ordinal(leaf);
    LEAF_SCOPE;
    pairs_put(&nodes, node, leaf);
}

struct tensor *leaf_of_node(void *node) {
    LEAF_SCOPE;
    return pairs_get(&nodes, node);
}
