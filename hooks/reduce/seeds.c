/*
 * What a backward begins with: its roots, and the gradient that flows into each. Roots are edges of the graph: Edge = {Node, input number}, whose size is the
 * vectors' ratio (Node ownership changed from shared_ptr to intrusive_ptr in 2.13/2.14).
 */
#include <stdlib.h>

#include "reduce.h"

void seeds_begin(struct seeds *seeds, size_t roots) {
    seeds->count = 0;
    seeds->tensors = roots > SEEDS_FEW ? malloc(roots * sizeof *seeds->tensors) : seeds->few;
}

void seeds_release(struct seeds *seeds) {
    for (size_t i = 0; i < seeds->count; i++)
        tensor_release(seeds->tensors[i]);
    if (seeds->tensors != seeds->few)
        free(seeds->tensors);
}

/* What the program lets flow is a factor of its loss. */
static void meet_seed(struct tensor *seed) {
    if (seed != torch_facts.undefined)
        numbers_meet_tensor(seed);
}

/* What must flow into a root so that the sum over the ranks is what one process lets flow. */
static struct tensor *seed_for(const struct record *root, struct tensor *seed) {
    OPAQUE_SCOPE;
    if (seed == torch_facts.undefined) {
        tensor_retain(seed);
        return seed;
    }
    if (root->kind == RECORD_PARTIAL) /* its gradient is whole */
        return dispatch_client.whole(seed);
    struct record own = record_get(seed);
    if (root->kind == RECORD_SHARD) {
        if (own.kind == RECORD_SHARD && own.dim == root->dim && record_same_rows(&own, root)) {
            tensor_retain(seed);
            return seed;
        }
        struct tensor *whole = dispatch_client.whole(seed), *rows = rows_take(whole, root, root->dim);
        tensor_release(whole);
        return rows;
    }
    struct tensor *whole = dispatch_client.whole(seed);
    struct value share = TORCH_CALL("aten::mul", "Scalar", value_tensor(whole), value_real(record_share(shim_rank(), shim_world_size())));
    tensor_release(whole);
    return share.tensor;
}

size_t seeds_edge_bytes(const struct vector *roots, size_t count) {
    return (size_t)(roots->end - roots->begin) / count;
}

static void *root_node(const struct vector *roots, size_t index, size_t count) {
    return *(void *const *)(roots->begin + index * seeds_edge_bytes(roots, count));
}

/* A leaf (what a checkpoint within the backward hands through, divided or not), whose edge leads to what accumulates into it; or the output of a node.
   Borrowed; NULL: it is no leaf, and has no record. */
static struct tensor *root_tensor(const struct vector *roots, size_t index, size_t count) {
    const char *edge = roots->begin + index * seeds_edge_bytes(roots, count);
    struct tensor *leaf = edge_leaf(edge);
    return leaf ? leaf : record_output(root_node(roots, index, count), edge_output(edge, seeds_edge_bytes(roots, count)));
}

/* tensor: the root's, or NULL */
static struct record record_of_root(struct tensor *tensor, const struct vector *roots, size_t index, size_t count) {
    struct record record = {.kind = RECORD_NONE};
    size_t edge_bytes = seeds_edge_bytes(roots, count);
    if (tensor)
        return record_get(tensor);
    edges_find(root_node(roots, index, count), edge_output(roots->begin + index * edge_bytes, edge_bytes), &record);
    return record;
}

struct record seeds_root(const struct vector *roots, size_t index, size_t count) {
    return record_of_root(root_tensor(roots, index, count), roots, index, count);
}

/* Where values are whole that come from divided rows: what hangs on them may have no record. */
static bool is_from_rows(void *node, const void *unused) {
    return dispatch_client.is_gathered(node) || custom_is_divided(node);
}

bool seeds_come_from_rows(const struct vector *roots, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (seeds_root(roots, i, count).kind != RECORD_NONE)
            return true;
    return count && graph_leads_to(roots, is_from_rows, NULL);
}

struct vector seeds_vector(struct seeds *seeds) {
    char *begin = (char *)seeds->tensors, *end = (char *)(seeds->tensors + seeds->count);
    return (struct vector){begin, end, end};
}

void seeds_take_whole(struct seeds *seeds, const struct vector *inputs) {
    size_t count = vector_tensors(inputs);
    while (seeds->count < count) {
        struct tensor *whole = dispatch_client.whole(*vector_tensor(inputs, seeds->count));
        seeds->tensors[seeds->count++] = whole;
    }
}

bool seeds_are_marked(const struct vector *inputs) {
    for (size_t i = 0; i < vector_tensors(inputs); i++)
        if (tensor_is_marked(*vector_tensor(inputs, i)))
            return true;
    return false;
}

/* Of two losses, alike in everything else, threads of a queue may have taken one on this rank and the other on the next. */
static void note_origin(const struct record *root) {
    SHIM_NOTE_SCOPE;
    if (!root->origin.newest)
        return;
    comm_note("batch that a loss comes from", origin_word(root->origin));
    comm_note("operation that a loss comes from", root->origin.calls);
}

void seeds_make(struct seeds *seeds, const struct vector *roots, const struct vector *inputs) {
    size_t count = vector_tensors(inputs);
    for (size_t i = 0; i < count; i++) {
        struct tensor *root = root_tensor(roots, i, count), *seed = *vector_tensor(inputs, i);
        struct record record = record_of_root(root, roots, i, count);
        struct fit_size size = root ? fit_size_of(root, &record) : (struct fit_size){.dims = FIT_ANY};
        note_origin(&record);
        meet_seed(seed);
        tensor_retain(seed);
        struct value fitting = value_tensor(fit_summed(seed, &size, NULL, i));
        seeds->tensors[seeds->count++] = seed_for(&record, fitting.tensor);
        value_drop(fitting);
    }
}
