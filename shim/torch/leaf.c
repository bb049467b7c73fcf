/*
 * Leaves: the tensors that gradients are accumulated into. Each has an ordinal, the order in which the program made it, by which ranks speak of the same leaf;
 * and the autograd node that accumulates into it, known from its constructor, so that no offset within the node is needed.
 */
#include <pthread.h>
#include <stdlib.h>

#include "../pairs.h"
#include "../shim.h"
#include "../threads.h"
#include "functions.h"

static struct pairs ordinals, nodes; /* leaf → ordinal (+1), node → leaf; read without the lock */
static struct tensor **leaves;       /* by ordinal; NULL: gone */
static _Atomic size_t leaf_next;
static size_t leaf_room;
static bool made_by_threads;
static pthread_mutex_t leaf_mutex = PTHREAD_MUTEX_INITIALIZER; /* of who writes */

static void leaf_unlock(int *unused) {
    pthread_mutex_unlock(&leaf_mutex);
}

#define LEAF_SCOPE __attribute__((cleanup(leaf_unlock), unused)) int leaf_scope_ = pthread_mutex_lock(&leaf_mutex)

/* + 1; 0: none */
static size_t ordinal_of(struct tensor *leaf) {
    return (size_t)pairs_get(&ordinals, leaf);
}

static size_t ordinal_give(struct tensor *leaf) {
    LEAF_SCOPE;
    size_t known = ordinal_of(leaf);
    if (known) /* another thread was first */
        return known;
    if (leaf_next == leaf_room) {
        leaf_room = leaf_room ? 2 * leaf_room : 1024;
        leaves = realloc(leaves, leaf_room * sizeof(struct tensor *));
    }
    size_t ordinal = leaf_next;
    leaves[ordinal] = leaf;
    pairs_put(&ordinals, leaf, (void *)(ordinal + 1));
    tensor_mark_parameter(leaf);
    made_by_threads |= threads_own() != 0;
    leaf_next = ordinal + 1;
    return ordinal + 1;
}

size_t leaf_ordinal(struct tensor *leaf) {
    size_t known = ordinal_of(leaf);
    return (known ? known : ordinal_give(leaf)) - 1;
}

bool leaf_has_ordinal(struct tensor *leaf, size_t ordinal) {
    return ordinal_of(leaf) == ordinal + 1;
}

void leaf_gone(struct tensor *leaf) {
    size_t known = ordinal_of(leaf);
    if (!known)
        return; /* a view of a parameter carries its key */
    LEAF_SCOPE;
    leaves[known - 1] = NULL;
    pairs_put(&ordinals, leaf, NULL);
}

bool leaves_are_of_threads(void) {
    return made_by_threads;
}

size_t leaf_count(void) {
    return leaf_next;
}

struct tensor *leaf_by_ordinal(size_t ordinal) {
    LEAF_SCOPE;
    return ordinal < leaf_next ? leaves[ordinal] : NULL;
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
