/* What a leaf has as its gradient before a backward. */
#include <string.h>

#include "reduce.h"

/* Zeros that zero_grad() has left (the default before libtorch 2.0) are accumulated into as in one process: putting them aside would take the memory of all
   gradients once more, made anew in each step (a fifth of the time of a step of 20 M parameters). Not so where the ranks see it: it is used again, and the sum
   over the ranks is added to what is there in the same pass. */
bool before_is_left_in_place(struct tensor *leaf, struct tensor *gradient) {
    bool in_place = !grad_mode_is_enabled() && !tensor_is_marked(leaf) && !tensor_is_marked(gradient);
    if (!in_place || !tensor_has_memory(gradient) || !tensor_is_on_host(gradient) || !tensor_is_dense(gradient))
        return false;
    unsigned char *bytes = tensor_data(gradient);
    size_t count = tensor_bytes(gradient);
    if ((count >= ARENA_LEAST_BYTES && arena_holds(bytes, count)) || !arena_is_zero(bytes, count))
        return false;
    arena_share_zeros(bytes);
    return true;
}

/* The whole of a marked gradient, owned. What is expanded stays so: adding to it throws, as in one process, before anything has been added. */
static struct tensor *whole_gradient(struct tensor *gradient) {
    struct tensor *dense = dispatch_client.whole(gradient);
    struct sizes sizes = tensor_sizes(dense);
    int64_t expanded[TORCH_DIMS_MAX];
    memcpy(expanded, sizes.data, sizes.count * sizeof *expanded);
    struct value whole = layout_unexpanded(value_tensor(dense), tensor_strides(gradient).data);
    if (whole.tensor == dense)
        return dense;
    value_replace(&whole, TORCH_CALL("aten::clone", "", whole, value_none()));
    value_replace(&whole, TORCH_CALL("aten::expand", "", whole, value_int_list(expanded, sizes.count), value_bool(false)));
    return whole.tensor;
}

/* What the program itself has set as a gradient (p.grad = features.mean(0)) may be rows or a part of a sum: what is accumulated into it is whole. Where the
   program has it still, it sees there what is accumulated. */
void before_settle(struct tensor *leaf) {
    struct tensor **slot = tensor_grad_slot(leaf), *gradient = *slot;
    if (!gradient || gradient == torch_facts.undefined || !tensor_is_marked(gradient))
        return;
    struct record have = record_get(gradient), of_leaf = record_get(leaf);
    bool is_like_leaf = of_leaf.kind == RECORD_SHARD && of_leaf.dim == have.dim && record_same_rows(&of_leaf, &have);
    if (have.kind != RECORD_PARTIAL && (have.kind != RECORD_SHARD || is_like_leaf))
        return;
    OPAQUE_SCOPE;
    bool is_seen = tensor_owners(gradient) > 1 || storage_owners(tensor_storage(gradient)) > 1;
    *slot = whole_gradient(gradient);
    if (is_seen)
        dispatch_client.stand_for(gradient, *slot);
    tensor_release(gradient);
}
