/*
 * torch::autograd::grad: the gradient of divided rows is divided like them, that of anything replicated (parameters, a whole batch) is summed over the ranks.
 * With create_graph both stay part of the graph.
 */
#include <stdlib.h>

#include "reduce.h"

/* Edge: the node, last its output's number (4 bytes, padded to 8). */
uint32_t edge_output(const char *edge, size_t edge_bytes) {
    return *(const uint32_t *)(edge + edge_bytes - 8);
}

struct tensor *edge_leaf(const char *edge) {
    void *node = *(void *const *)edge;
    return node && node_is_accumulator(node) ? leaf_of_node(node) : NULL;
}

static struct record record_of_edge(const char *edge, size_t edge_bytes) {
    void *node = *(void *const *)edge;
    struct tensor *leaf = edge_leaf(edge);
    if (leaf) {
        struct record record = record_get(leaf);
        record.origin.calls = leaf_ordinal(leaf) + 1;
        return record;
    }
    struct record record = record_of_output(node, edge_output(edge, edge_bytes));
    if (record.kind == RECORD_NONE)
        edges_find(node, edge_output(edge, edge_bytes), &record);
    return record;
}

bool capture_is_of_wrapped(const struct vector *edges, size_t edge_bytes) {
    for (const char *edge = edges->begin; edge_bytes && edge < edges->end; edge += edge_bytes) {
        struct tensor *leaf = edge_leaf(edge);
        if (leaf && *tensor_key_set(leaf) & torch_facts.bit_wrapped)
            return true;
    }
    return false;
}

void capture_begin(struct capture *capture, const struct vector *edges, size_t edge_bytes) {
    capture->count = edge_bytes ? (size_t)(edges->end - edges->begin) / edge_bytes : 0;
    capture->tensors = malloc((capture->count + 1) * sizeof *capture->tensors);
    for (size_t i = 0; i < capture->count; i++)
        capture->tensors[i] = record_of_edge(edges->begin + i * edge_bytes, edge_bytes);
}

/* Of leaves alike in shape, listed in a set's order, each rank may have asked for another one. */
static void note_place(const struct record *tensor) {
    SHIM_NOTE_SCOPE;
    comm_note("tensor that a gradient is asked for", tensor->origin.calls);
}

/* Takes the gradient. Owned. */
static struct tensor *final_gradient(struct tensor *gradient, const struct record *tensor) {
    note_place(tensor);
    if (!tensor_is_plain(gradient)) {
        SHIM_COMM_SCOPE;
        struct tensor *sum = sparse_sum(gradient, "torch.autograd.grad");
        tensor_release(gradient);
        return sum;
    }
    struct record record = boundary_record_of_gradient(tensor);
    struct tensor *seen = boundary_show(gradient, &record);
    tensor_release(gradient);
    if (record.kind == RECORD_SHARD)
        return seen;
    struct tensor *whole = dispatch_client.whole(seen);
    tensor_release(seen);
    return boundary_hand_out(whole);
}

void capture_end(const struct capture *capture, const struct vector *gradients) {
    OPAQUE_SCOPE;
    for (size_t i = 0; i < capture->count && i < vector_tensors(gradients); i++) {
        struct tensor **gradient = vector_tensor(gradients, i);
        if (*gradient != torch_facts.undefined)
            *gradient = final_gradient(*gradient, &capture->tensors[i]);
    }
}

void capture_free(struct capture *capture) {
    free(capture->tensors);
}
