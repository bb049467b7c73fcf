/*
 * Custom autograd functions of libtorch's own, in C++: nn::CrossMapLRN2d is the only one that programs reach. Where libtorch is bound to itself the end of its
 * forward is no call that comes to us (hooks/reduce/custom_function.c), and its backward would see gradients of other sizes than what it has saved. There it is
 * given the whole batch, as what has no rule is: on other builds its operators gather all the same.
 */
#include "held.h"
#include "shard.h"

struct tensor **hook_cross_map_forward(struct tensor **result, void *module, struct tensor *const *input) {
    bool is_unseen = shim_active() && torch_facts.is_bound;
    enum record_kind kind = is_unseen ? record_get(*input).kind : RECORD_NONE;
    if (kind != RECORD_SHARD && kind != RECORD_PARTIAL)
        return ORIGINAL(cross_map_forward)(result, module, input);
    report_gather();
    dispatch_client.settle(); /* what the program has written through pointers */
    HELD_TENSOR whole = dispatch_client.whole(*input);
    ORIGINAL(cross_map_forward)(result, module, (struct tensor *const *)&whole);
    mark_gathered(*result, false);
    return result;
}
