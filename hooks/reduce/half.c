/*
 * Parameters that are cast to float16 before they are used (torch.autocast): in one process the gradient of the whole batch passes through that type and is
 * infinite beyond its range, which makes a GradScaler skip the step. A rank's part may be finite, and the sum is made in the parameter's own type: so it is
 * made infinite where one process's is.
 */
#include <math.h>
#include <stdatomic.h>

#include "reduce.h"

static const float first_infinite = 65520; /* what rounds to 2^16 */

static atomic_bool is_met; /* no other walk in programs without such casts */

bool half_meet(const void *node) {
    if (!graph_is_cast_to_half(node))
        return false;
    atomic_store_explicit(&is_met, true, memory_order_relaxed);
    return true;
}

static bool note(void *node, const void *context) {
    struct pairs *leaves = *(struct pairs *const *)context;
    if (!half_meet(node))
        return false;
    const struct vector *edges = graph_edges_of(node);
    struct tensor *leaf = edges->begin < edges->end ? leaf_of_node(*(void **)edges->begin) : NULL;
    if (leaf)
        pairs_put(leaves, leaf, leaf);
    return false;
}

void half_find(const struct vector *roots, struct pairs *leaves) {
    if (atomic_load_explicit(&is_met, memory_order_relaxed) && roots->begin < roots->end)
        graph_leads_to(roots, note, &leaves);
}

void half_overflow(float *sums, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (fabsf(sums[i]) >= first_infinite)
            sums[i] = copysignf(INFINITY, sums[i]);
}
