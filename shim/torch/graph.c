/*
 * Which nodes of autograd's graph lead to which. A node's edges are a std::vector<Edge> within it; where is found by one node whose two edges are known. Where
 * that is not found, every node is taken to lead to all.
 */
#include <stdlib.h>

#include "../shim.h"
#include "functions.h"

enum { NODE_BYTES = 512, OPERANDS = 2 };

static long edges_at; /* 0: not found */
static ptrdiff_t edge_bytes;

struct edges { /* std::vector<Edge>; an Edge begins with the pointer to its node */
    char *begin, *end, *capacity;
};

static bool are_edges(const char *words, void *const *nodes) {
    struct edges edges;
    void **fields[] = {(void **)&edges.begin, (void **)&edges.end, (void **)&edges.capacity}, *node;
    for (int i = 0; i < 3; i++)
        if (!calibrate_read_word(words + 8 * i, fields[i]))
            return false;
    ptrdiff_t bytes = (edges.end - edges.begin) / OPERANDS;
    if ((bytes != 16 && bytes != 24) || edges.capacity < edges.end) /* intrusive_ptr or shared_ptr, and a number */
        return false;
    for (int i = 0; i < OPERANDS; i++)
        if (!calibrate_read_word(edges.begin + i * bytes, &node) || node != nodes[i])
            return false;
    edge_bytes = bytes;
    return true;
}

void graph_begin(void) {
    GRAD_MODE_SCOPE;
    struct value leaf = TORCH_CALL("aten::arange", "", value_int(2), value_int(DTYPE_FLOAT32), value_none(), value_none(), value_none());
    ORIGINAL(set_requires_grad)(leaf.tensor, 1);
    struct value operands[OPERANDS], sum;
    void *nodes[OPERANDS];
    for (int i = 0; i < OPERANDS; i++) {
        operands[i] = TORCH_CALL("aten::neg", "", leaf);
        nodes[i] = tensor_node(operands[i].tensor);
    }
    sum = TORCH_CALL("aten::add", "Tensor", operands[0], operands[1], value_int(1));
    const char *node = tensor_node(sum.tensor);
    for (long at = 8; node && nodes[0] && at < NODE_BYTES && !edges_at; at += 8)
        if (are_edges(node + at, nodes))
            edges_at = at;
    shim_log('d', "a node's edges stand at %ld, of %td bytes each", edges_at, edge_bytes);
    value_drop(sum);
    for (int i = 0; i < OPERANDS; i++)
        value_drop(operands[i]);
    value_drop(leaf);
}

/* Nodes met and not yet followed. */
struct walk {
    struct pairs met;
    void **nodes;
    size_t count, room;
};

static void walk_meet(struct walk *walk, void *node) {
    if (!node || pairs_put(&walk->met, node, node))
        return;
    if (walk->count == walk->room) {
        walk->room = walk->room ? 2 * walk->room : 256;
        walk->nodes = realloc(walk->nodes, walk->room * sizeof *walk->nodes);
    }
    walk->nodes[walk->count++] = node;
}

static void walk_free(struct walk *walk) {
    pairs_free(&walk->met);
    free(walk->nodes);
}

bool graph_leads_to(void *node, bool (*is_sought)(void *node)) {
    if (!edges_at)
        return true;
    __attribute__((cleanup(walk_free))) struct walk walk = {.count = 0};
    walk_meet(&walk, node);
    while (walk.count) {
        node = walk.nodes[--walk.count];
        if (is_sought(node))
            return true;
        const struct edges *edges = (const struct edges *)((char *)node + edges_at);
        for (const char *edge = edges->begin; edge < edges->end; edge += edge_bytes)
            walk_meet(&walk, *(void *const *)edge);
    }
    return false;
}
