/*
 * Leaves: the tensors that gradients are accumulated into. Each has an ordinal, the order in which the program made it, by which ranks speak of the same leaf;
 * and the autograd node that accumulates into it, known from its constructor, so that no offset within the node is needed.
 */
#include <pthread.h>
#include <stdlib.h>

#include "../pairs.h"
#include "../shim.h"
#include "functions.h"

static struct pairs ordinals, nodes; /* leaf → ordinal (+1), node → leaf */
static struct tensor **leaves;       /* by ordinal; NULL: gone */
static size_t leaf_next, leaf_room;
static pthread_mutex_t leaf_mutex = PTHREAD_MUTEX_INITIALIZER;

static void leaf_unlock(int *unused) {
    pthread_mutex_unlock(&leaf_mutex);
}

#define LEAF_SCOPE __attribute__((cleanup(leaf_unlock), unused)) int leaf_scope_ = pthread_mutex_lock(&leaf_mutex)

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
    if (torch_facts.is_bound) {
        struct tensor *leaf = *(struct tensor **)((char *)node + torch_facts.node_leaf);
        leaf_ordinal(leaf);
        return leaf;
    }
    LEAF_SCOPE;
    return pairs_get(&nodes, node);
}
