/*
 * Parameters that are cast to float16 before they are used (torch.autocast): in one process the gradient of the whole batch passes through that type and is
 * infinite beyond its range, which makes a GradScaler skip the step. A rank's part may be finite, and the sum is made in the parameter's own type: so it is
 * made infinite where one process's is. Only of leaves whose whole gradient comes through one such cast: what else is added to it is float32 in one
 * process, too.
 */
#include <math.h>
#include <stdatomic.h>

#include "reduce.h"

static const float first_infinite = 65520; /* what rounds to 2^16 */

static atomic_bool is_met; /* no other walk in programs without such casts */

void half_meet(const void *node) {
    if (graph_is_cast_to_half(node))
        atomic_store_explicit(&is_met, true, memory_order_relaxed);
}

struct found {
    struct pairs *halves, others;
};

static void found_free(struct found *found) {
    pairs_free(&found->others);
}

/* Every edge is met once. */
static void note_edge(struct found *found, struct tensor *leaf, bool is_half) {
    bool is_first = !pairs_get(&found->others, leaf) && !pairs_get(found->halves, leaf);
    pairs_put(found->halves, leaf, is_half && is_first ? leaf : NULL);
    if (!is_half || !is_first)
        pairs_put(&found->others, leaf, leaf);
}

static bool note(void *node, const void *context) {
    struct found *found = *(struct found *const *)context;
    const struct vector *edges = graph_edges_of(node);
    bool is_half = graph_is_cast_to_half(node);
    for (size_t i = 0; i < graph_edges(edges); i++) {
        struct tensor *leaf = graph_leaf(graph_edge(edges, i));
        if (leaf)
            note_edge(found, leaf, is_half);
    }
    return false;
}

void half_find(const struct vector *roots, struct pairs *leaves) {
    __attribute__((cleanup(found_free))) struct found found = {.halves = leaves};
    const struct found *context = &found;
    if (atomic_load_explicit(&is_met, memory_order_relaxed) && roots->begin < roots->end)
        graph_leads_to(roots, note, &context);
}

void half_overflow(float *sums, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (fabsf(sums[i]) >= first_infinite)
            sums[i] = copysignf(INFINITY, sums[i]);
}

/* The same by operators, on any device: by a round trip, which is exact for what is infinite. */
void half_overflow_tensor(struct tensor *sum) {
    OPAQUE_SCOPE;
    struct value values = TORCH_CALL("aten::detach", "", value_tensor(sum));
    struct value half =
        TORCH_CALL("aten::to", "dtype", values, value_int(DTYPE_FLOAT16), value_bool(false), value_bool(false), value_none());
    struct value back = TORCH_CALL("aten::to", "dtype", half, value_int(DTYPE_FLOAT32), value_bool(false), value_bool(false), value_none());
    struct value is_infinite = TORCH_CALL("aten::isinf", "", back), all = TORCH_CALL("aten::where", "self", is_infinite, back, values);
    value_drop(TORCH_CALL("aten::copy_", "", values, all, value_bool(false)));
    struct value owned[] = {values, half, back, is_infinite, all};
    for (int i = 0; i < 5; i++)
        value_drop(owned[i]);
}

struct tensor *half_show(struct tensor *leaf, struct tensor *gradient) {
    if (!leaf || !tensor_is_plain(gradient) || tensor_dtype(gradient) != DTYPE_FLOAT32 || !backward_takes_half(leaf))
        return NULL;
    OPAQUE_SCOPE;
    struct value part = value_tensor(boundary_show(gradient, &(struct record){.kind = RECORD_PARTIAL}));
    struct value whole = value_tensor(dispatch_client.whole(part.tensor));
    struct value own = TORCH_CALL("aten::clone", "", whole, value_none());
    record_clear(own.tensor);
    value_drop(part);
    value_drop(whole);
    half_overflow_tensor(own.tensor);
    return boundary_hand_out(own.tensor);
}
