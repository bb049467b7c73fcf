/*
 * DistributedDataParallel's Reducer, in a program that is one process, copies each gradient into its buckets as it arrives, and back into the leaves at the end
 * of the backward. What arrived before code of the program was called back (backward_pause) was made final then: the bucket has this rank's part of it, and
 * puts that over the sum. So the sum is kept, and put back where the part stands. (libtorch's Reducer::copy_bucket_to_grad; not with gradient_as_bucket_view,
 * where bucket and gradient are one.)
 */
#include <stdlib.h>

#include "reduce.h"

struct settled {
    struct tensor *leaf;
    size_t ordinal;
    uint64_t part;      /* a hash of this rank's */
    struct tensor *sum; /* owned; NULL: not made yet */
};

/* Borrowed; NULL: there is none, or the leaf is gone, or it has become something else. A hook of the leaf's own has left this rank's part marked as one. */
static struct tensor *gradient_of(struct tensor *leaf, size_t ordinal, enum record_kind kind) {
    struct tensor *gradient = leaf_has_ordinal(leaf, ordinal) ? *tensor_grad_slot(leaf) : NULL;
    if (!gradient || gradient == torch_facts.undefined || !tensor_is_plain(gradient))
        return NULL;
    return !tensor_is_marked(gradient) || (record_get(gradient).kind == kind && !tensor_is_marked(leaf)) ? gradient : NULL;
}

void settled_note_parts(struct backward *backward, const struct backward *arrived) {
    if (!unseen_has_reducer())
        return;
    backward->settled = realloc(backward->settled, (backward->settled_count + arrived->count) * sizeof *backward->settled);
    for (size_t i = 0; i < arrived->count; i++) {
        const struct leaf_gradient *leaf = &arrived->leaves[i];
        struct tensor *gradient = gradient_of(leaf->leaf, leaf->ordinal, RECORD_PARTIAL);
        if (gradient)
            backward->settled[backward->settled_count++] =
                (struct settled){.leaf = leaf->leaf, .ordinal = leaf->ordinal, .part = start_check_tensor(gradient)};
    }
}

void settled_note_sums(struct backward *backward) {
    for (size_t i = backward->settled_count; i-- > 0 && !backward->settled[i].sum;) {
        struct tensor *gradient = gradient_of(backward->settled[i].leaf, backward->settled[i].ordinal, RECORD_NONE);
        if (gradient)
            backward->settled[i].sum = TORCH_CALL("aten::clone", "", value_tensor(gradient), value_none()).tensor;
    }
}

void settled_put_back(const struct backward *backward) {
    OPAQUE_SCOPE;
    for (size_t i = 0; i < backward->settled_count; i++) {
        const struct settled *settled = &backward->settled[i];
        struct tensor *gradient = settled->sum ? gradient_of(settled->leaf, settled->ordinal, RECORD_NONE) : NULL;
        if (!gradient || start_check_tensor(gradient) != settled->part)
            continue;
        struct value plain = TORCH_CALL("aten::detach", "", value_tensor(gradient));
        value_drop(TORCH_CALL("aten::copy_", "", plain, value_tensor(settled->sum), value_bool(false)));
        value_drop(plain);
    }
}

void settled_free(struct backward *backward) {
    for (size_t i = 0; i < backward->settled_count; i++)
        tensor_release(backward->settled[i].sum);
    free(backward->settled);
}
