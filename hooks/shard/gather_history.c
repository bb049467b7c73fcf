/* The gradients of gathered values: each rank has its part of their sums, which flow into the rows that were gathered. */
#include <pthread.h>
#include <stdlib.h>

#include "gather.h"

/* The gradient of a gathered value: each rank has its part of the sum; the sum is what flows into the own rows. */
static struct tensor *sum_gradient(struct tensor *gradient, const char *label, struct origin origin) {
    bool is_zero = *tensor_key_set(gradient) & torch_facts.bit_zero; /* the derivative of sgn: its clone has memory */
    if (!is_zero && !tensor_has_memory(gradient))
        shim_problem("AR-GRAD-KIND", "Ask for the gradients one by one, use torch.func.vjp within the transform, or run with -n 1.",
                     "%s: a gradient that a transform of torch.func or a class of Python's has wrapped, or that is sparse, flows into "
                     "gathered rows",
                     label);
    if (tensor_is_recorded(gradient)) /* create_graph: to be differentiated again */
        return gather_partial(label, gradient);
    struct value copy = TORCH_CALL("aten::clone", "", value_tensor(gradient), value_int(0));
    record_clear(copy.tensor);
    gather_sum_in_place(label, copy.tensor, origin);
    return copy.tensor;
}

/* Nodes of gathered values. A replicated root may hang on one without a mark of its own: in a buffer of the program's into which gathered
   values were written slice by slice, only the slices' results are marked. */
static struct pairs gathered_nodes;
static pthread_mutex_t gathered_mutex = PTHREAD_MUTEX_INITIALIZER; /* graphs end in any thread */

__attribute__((constructor)) static void gather_history_start(void) {
    threads_renew_in_child(&gathered_mutex);
}

static void gathered_node(void *node, bool lives) {
    pthread_mutex_lock(&gathered_mutex);
    pairs_put(&gathered_nodes, node, lives ? node : NULL);
    pthread_mutex_unlock(&gathered_mutex);
}

struct gathered {
    const char *label;
    void *node;
    struct origin origin;
};

static struct tensor *sum_hook(struct tensor *gradient, void *context) {
    const struct gathered *gathered = context;
    return sum_gradient(gradient, gathered->label, gathered->origin);
}

static void sum_hook_released(void *gathered) {
    gathered_node(((struct gathered *)gathered)->node, false);
    free(gathered);
}

void gather_add_sum_hook(struct tensor *tensor, const char *label, struct origin origin) {
    struct gathered *gathered = malloc(sizeof *gathered);
    *gathered = (struct gathered){label, tensor_node(tensor), origin};
    gathered_node(gathered->node, true);
    tensor_add_hook(tensor, (struct hook_closure){.function = sum_hook, .release = sum_hook_released, .data = gathered});
}

bool gather_is_node(void *node) {
    return pairs_get(&gathered_nodes, node);
}

/* A gathered value whose memory is repeated as in one process, where its history has one place for several elements: of one that is narrowed to what it
   repeats the first has all gradients, and copying into memory that overlaps loses some (CopySlices). So each element's gradient goes past that history. */
struct repeated {
    struct gathered gathered;
    struct record record;
    struct tensor *_Atomic gradient; /* of this rank's rows, in this backward; NULL: none */
    _Atomic int references;
};

static struct tensor *keep_gradient(struct tensor *gradient, void *context) {
    struct repeated *repeated = context;
    struct tensor *sum = sum_gradient(gradient, repeated->gathered.label, repeated->gathered.origin);
    struct tensor *before = atomic_exchange(&repeated->gradient, rows_take(sum, &repeated->record, repeated->record.dim));
    if (before)
        tensor_release(before);
    return sum;
}

static struct tensor *take_gradient(struct tensor *gradient, void *context) {
    struct tensor *kept = atomic_exchange(&((struct repeated *)context)->gradient, NULL);
    if (!kept)
        tensor_retain(kept = gradient);
    return kept;
}

static void repeated_released(void *context) {
    struct repeated *repeated = context;
    if (atomic_fetch_sub(&repeated->references, 1) > 1)
        return;
    if (repeated->gradient)
        tensor_release(repeated->gradient);
    free(repeated);
}

static void repeated_gone(void *context) {
    gathered_node(((struct repeated *)context)->gathered.node, false);
    repeated_released(context);
}

void gather_add_repeated_hooks(struct tensor *whole, struct tensor *own, const char *label, const struct record *record) {
    struct repeated *repeated = malloc(sizeof *repeated);
    *repeated = (struct repeated){{label, tensor_node(whole), record->origin}, *record, NULL, 2};
    gathered_node(repeated->gathered.node, true);
    tensor_add_hook(whole, (struct hook_closure){.function = keep_gradient, .release = repeated_gone, .data = repeated});
    tensor_add_hook(own, (struct hook_closure){.function = take_gradient, .release = repeated_released, .data = repeated});
}
