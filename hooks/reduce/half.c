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
