/*
 * Which nodes of autograd's graph lead to which, and the hooks that hang on a node. A node's edges are a std::vector<Edge> within it; where is found by one
 * node whose two edges are known. Where that is not found, every node is taken to lead to all.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "../shim.h"
#include "functions.h"

enum { NODE_BYTES = 512, OPERANDS = 2 };

static long edges_at;        /* 0: not found */
static ptrdiff_t edge_bytes; /* an Edge begins with the pointer to its node */

static bool are_edges(const char *words, void *const *nodes) {
    struct vector edges;
    void **fields[] = {(void **)&edges.begin, (void **)&edges.end, (void **)&edges.capacity}, *node;
    for (int i = 0; i < 3; i++)
        if (!peek_word(words + 8 * i, fields[i]))
            return false;
    ptrdiff_t bytes = (edges.end - edges.begin) / OPERANDS;
    if ((bytes != 16 && bytes != 24) || edges.capacity < edges.end) /* intrusive_ptr or shared_ptr, and a number */
        return false;
    for (int i = 0; i < OPERANDS; i++)
        if (!peek_word(edges.begin + i * bytes, &node) || node != nodes[i])
            return false;
    edge_bytes = bytes;
    return true;
}

/*
 * Behind the edges stand two pointers, then the hooks, each a std::vector of pointers: pre_hooks_ and post_hooks_ (1.13), or pre_hooks_, tensor_pre_hooks_,
 * retains_grad_hooks_ (a std::unordered_map) and post_hooks_ (2.0 to 2.15). A tensor's hook says in which of the first two it is.
 */
enum { VECTOR_BYTES = 24, MAP_BYTES = 56, MAP_BUCKET = 48 };

static long pre_hooks_at, post_hooks_at; /* 0: not found */

static size_t pointers_in(const char *vector) {
    char *begin, *end;
    if (!peek_word(vector, (void **)&begin) || !peek_word(vector + 8, (void **)&end))
        return SIZE_MAX;
    return (size_t)(end - begin) / sizeof(void *);
}

/* An empty map has one bucket, within itself. */
static bool is_empty_map(const char *map) {
    void *buckets;
    return peek_word(map, &buckets) && buckets == map + MAP_BUCKET;
}

/* The node has one tensor's hook. */
static void find_hooks(const char *node) {
    long first = edges_at + VECTOR_BYTES + 2 * (long)sizeof(void *), second = first + VECTOR_BYTES, third = second + VECTOR_BYTES;
    if (pointers_in(node + first) == 1 && pointers_in(node + second) == 0) {
        pre_hooks_at = first;
        post_hooks_at = second;
    } else if (pointers_in(node + first) == 0 && pointers_in(node + second) == 1 && is_empty_map(node + third) &&
               pointers_in(node + third + MAP_BYTES) == 0) {
        pre_hooks_at = first;
        post_hooks_at = third + MAP_BYTES;
    }
}

static struct tensor *pass_on(struct tensor *gradient, void *unused) {
    tensor_retain(gradient);
    return gradient;
}

static void *first_sought(const char *vector, bool (*is_sought)(void *hook)) {
    const struct vector *hooks = (const struct vector *)vector;
    for (char *hook = hooks->begin; hook < hooks->end; hook += sizeof(void *))
        if (*(void **)hook && is_sought(*(void **)hook))
            return *(void **)hook;
    return NULL;
}

void *graph_hook_of(void *node, bool (*is_sought)(void *hook)) {
    if (!pre_hooks_at)
        return NULL;
    void *hook = first_sought((const char *)node + pre_hooks_at, is_sought);
    return hook ? hook : first_sought((const char *)node + post_hooks_at, is_sought);
}

const struct vector *graph_edges_of(void *node) {
    return (const struct vector *)((char *)node + edges_at);
}

size_t graph_edges(const struct vector *edges) {
    return edge_bytes ? (size_t)((edges->end - edges->begin) / edge_bytes) : 0;
}

void *graph_edge(const struct vector *edges, size_t index) {
    return *(void *const *)(edges->begin + (ptrdiff_t)index * edge_bytes);
}

/*
 * A node keeps what its gradients will look like, in a SmallVector that begins with the pointer to its elements. Each begins with its TensorOptions: a device
 * (two bytes), a type (two bytes, the number of its ScalarType), ... (1.13 to 2.15). Where is found by the nodes of two casts.
 */
enum { OPTIONS_TYPE = 2 };

static void *cast_class, *leaf_class; /* AccumulateGrad's; NULL: not found */
static long inputs_at;                /* 0: not found */

static bool is_cast_to(const char *node, long at, int dtype) {
    void *first, *options;
    return peek_word(node + at, &first) && peek_word(first, &options) && (uint16_t)((uintptr_t)options >> 8 * OPTIONS_TYPE) == dtype;
}

static void find_casts(struct value leaf) {
    static const int types[] = {DTYPE_FLOAT16, DTYPE_FLOAT64};
    struct value casts[2];
    const char *nodes[2];
    for (int i = 0; i < 2; i++) {
        casts[i] = TORCH_CALL("aten::to", "dtype", leaf, value_int(types[i]), value_bool(false), value_bool(false), value_none());
        nodes[i] = tensor_node(casts[i].tensor);
    }
    for (long at = 8; nodes[0] && nodes[1] && at < NODE_BYTES && !inputs_at; at += 8)
        if (is_cast_to(nodes[0], at, types[0]) && is_cast_to(nodes[1], at, types[1]))
            inputs_at = at;
    if (inputs_at && edges_at && *(void *const *)nodes[0] == *(void *const *)nodes[1]) {
        cast_class = *(void *const *)nodes[0];
        leaf_class = *(void *const *)graph_edge(graph_edges_of((void *)nodes[0]), 0);
    }
    for (int i = 0; i < 2; i++)
        value_drop(casts[i]);
}

bool graph_is_cast_to_half(const void *node) {
    if (*(void *const *)node != cast_class)
        return false;
    const uint16_t *options = *(const uint16_t *const *)((const char *)node + inputs_at);
    return options[OPTIONS_TYPE / sizeof *options] == DTYPE_FLOAT16;
}

struct tensor *graph_leaf(void *node) {
    return node && *(void *const *)node == leaf_class ? leaf_of_node(node) : NULL;
}

static _Atomic int keepers; /* nested calls and other threads' count, too: who keeps too much only needs memory */

bool graph_is_kept(void) {
    return atomic_load(&keepers) > 0;
}

void graph_note_keeper(bool begins) {
    atomic_fetch_add(&keepers, begins ? 1 : -1);
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
    if (edges_at) {
        tensor_add_hook(sum.tensor, (struct hook_closure){.function = pass_on});
        find_hooks(node);
    }
    find_casts(leaf);
    shim_log('d', "a node's edges stand at %ld, of %td bytes each, its hooks at %ld and %ld, its inputs at %ld", edges_at, edge_bytes,
             pre_hooks_at, post_hooks_at, inputs_at);
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

static void walk_follow(struct walk *walk, const struct vector *edges) {
    for (const char *edge = edges->begin; edge < edges->end; edge += edge_bytes)
        walk_meet(walk, *(void *const *)edge);
}

bool graph_leads_to(const struct vector *edges, graph_visitor *is_sought, const void *context) {
    if (!edges_at)
        return true;
    __attribute__((cleanup(walk_free))) struct walk walk = {.count = 0};
    walk_follow(&walk, edges);
    while (walk.count) {
        void *node = walk.nodes[--walk.count];
        if (is_sought(node, context))
            return true;
        walk_follow(&walk, graph_edges_of(node));
    }
    return false;
}

bool graph_is_among(const struct vector *edges, const void *node) {
    for (const char *edge = edges->begin; edge < edges->end; edge += edge_bytes)
        if (*(void *const *)edge == node)
            return true;
    return false;
}
