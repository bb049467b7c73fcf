/*
 * Code of the program that autograd calls back runs at user level and sees the gradient that it would see in one process: with a record of what this
 * rank's tensor is a part of, so that whatever the program does with it follows the rules. Hooks that a C++ program puts on tensors; the others have
 * files of their own.
 */
#include <stdlib.h>

#include "reduce.h"

/* Words of libstdc++'s std::function; the manager's operation. It moves by its words alone. */
enum { FUNCTION_MANAGER = 2, FUNCTION_INVOKER = 3, FUNCTION_DESTROY = 3 };

struct user_hook {
    void *function[4];    /* the program's std::function, moved here */
    struct record record; /* of the tensor it was put on; RECORD_NONE: a leaf or another replicated tensor */
    void *node;           /* of the graph, which has computed the tensor */
    struct tensor *leaf;  /* NULL: it is none */
};

static void function_move(void **from, void **to) {
    memcpy(to, from, 4 * sizeof *to);
    from[FUNCTION_MANAGER] = NULL;
}

static void function_destroy(void **function) {
    int (*manage)(void **, void **, int) = function[FUNCTION_MANAGER];
    if (manage)
        manage(function, NULL, FUNCTION_DESTROY);
}

static void user_hook_release(void *data) {
    struct user_hook *hook = data;
    function_destroy(hook->function);
    free(hook);
}

struct boundary boundary_enter(void) {
    if (!shim_active() || dispatch_in_transform())
        return (struct boundary){.arriving = NULL};
    struct arrival *arriving = backward_pause();
    retained_show();
    return (struct boundary){user_enter(), arriving};
}

void boundary_leave(struct boundary *boundary) {
    bool has_entered = boundary->level.excluded;
    user_leave(&boundary->level);
    if (has_entered)
        dispatch_client.settle();
    backward_resume(boundary->arriving);
}

int64_t boundary_set_batch(int64_t batch) {
    int64_t *last = dispatch_client.last_batch(), before = *last;
    *last = batch;
    return before;
}

static struct tensor *user_call(struct user_hook *hook, struct tensor *gradient) {
    struct tensor *result = torch_facts.undefined;
    void *(*invoke)(struct tensor **, void *, struct tensor **) = hook->function[FUNCTION_INVOKER];
    BOUNDARY_SCOPE;
    invoke(&result, hook->function, &gradient);
    return result;
}

struct record boundary_record_of_gradient(const struct record *tensor) {
    if (tensor->packed) /* what flows there is whole where it was summed, the own elements' where a recurrent layer took them */
        shim_problem("AR-GRAD-KIND", "Ask for the gradient of the padded sequences, or run with -n 1.",
                     "the program asks for the gradient of the elements of packed sequences, of which each rank has its own");
    if (tensor->kind == RECORD_SHARD)
        return *tensor;
    return (struct record){.kind = tensor->kind == RECORD_PARTIAL ? RECORD_NONE : RECORD_PARTIAL};
}

/* A gradient that is itself differentiable, for the program: not the tensor on which the hook stands that sums what flows back over the ranks, for the
   program's hooks, and who asks for its gradient, are shown a part of a sum, as of anything computed from rows. */
struct tensor *boundary_hand_out(struct tensor *whole) {
    if (!tensor_requires_grad(whole))
        return whole;
    struct tensor *alias = TORCH_CALL("aten::alias", "", value_tensor(whole)).tensor;
    tensor_release(whole);
    record_clear(alias);
    record_set(alias, (struct record){.kind = RECORD_GATHERED});
    return alias;
}

/* What such a tensor holds cannot be shown as a part of a sum, nor be summed. */
static void refuse_subclass(void) {
    shim_problem(
        "AR-GRAD-KIND", "Let the function return and take plain tensors, or run with -n 1.",
        "a hook or a custom function would be given a gradient of a class of Python's own (with a __torch_dispatch__), of which each "
        "rank has a part");
}

/* Of a look-up's table: entries cannot be marked as parts of a sum, so that the sum itself is shown. */
static struct tensor *show_sparse(struct tensor *gradient) {
    SHIM_COMM_SCOPE;
    return sparse_sum(gradient, "a tensor with a hook");
}

/* What comes back of it is rank 0's, and no entries of the others. Takes it. */
static struct tensor *return_sparse(struct tensor *returned) {
    if (shim_rank() == 0)
        return returned;
    struct tensor *none = sparse_none(returned);
    tensor_release(returned);
    return none;
}

struct tensor *boundary_show(struct tensor *gradient, const struct record *record) {
    if (tensor_is_sparse(gradient) && record->kind == RECORD_PARTIAL)
        return show_sparse(gradient);
    if (dispatch_is_of_subclass(*tensor_key_set(gradient)))
        refuse_subclass();
    struct value seen = TORCH_CALL("aten::alias", "", value_tensor(gradient)); /* the engine's own tensor stays unmarked */
    record_clear(seen.tensor);
    if (record->kind != RECORD_NONE)
        record_set(seen.tensor, *record);
    return seen.tensor;
}

struct tensor *boundary_return(struct tensor *returned, const struct record *wanted) {
    if (returned == torch_facts.undefined)
        return returned;
    if (tensor_is_sparse(returned) && wanted->kind == RECORD_PARTIAL)
        return return_sparse(returned);
    OPAQUE_SCOPE;
    struct tensor *result = dispatch_client.in_form(returned, wanted);
    if (result != returned)
        record_clear(result);
    tensor_release(returned);
    return result;
}

static struct tensor *make_whole(struct tensor *returned) {
    static const struct record whole = {.kind = RECORD_NONE};
    return tensor_is_marked(returned) && !dispatch_in_transform() ? boundary_return(returned, &whole) : returned;
}

struct tensor *boundary_written(struct tensor *seen, const struct record *wanted) {
    if (!tensor_is_sparse(seen) || wanted->kind != RECORD_PARTIAL)
        return NULL;
    tensor_retain(seen);
    return return_sparse(seen);
}

void boundary_make_all_whole(const struct vector *returned) {
    for (size_t i = 0; i < vector_tensors(returned); i++)
        *vector_tensor(returned, i) = make_whole(*vector_tensor(returned, i));
}

static struct tensor *user_hook_called(struct tensor *gradient, void *data) {
    struct user_hook *hook = data;
    if (!backward_is_divided() || gradient == torch_facts.undefined)
        return make_whole(user_call(hook, gradient));
    struct record wanted = boundary_record_of_gradient(&hook->record);
    struct tensor *whole = half_show(hook->leaf, gradient);
    struct value seen = value_tensor(whole ? whole : boundary_show(gradient, &wanted));
    struct fit_size size = fit_size_of(seen.tensor, &wanted);
    struct tensor *returned = user_call(hook, seen.tensor);
    struct tensor *written = returned == torch_facts.undefined && !whole ? boundary_written(seen.tensor, &wanted) : NULL;
    if (returned == torch_facts.undefined && whole)
        tensor_retain(returned = whole);
    value_drop(seen);
    returned = written ? written : boundary_return(fit_exact(returned, &size), &wanted);
    dispatch_client.hook_returned(hook->node, returned);
    return returned;
}

/* It may be the first that the program does with a leaf: one that is made to require a gradient from the start was not seen. */
unsigned hook_register_hook(struct tensor *const *tensor, void **function) {
    if (!shim_training_begins() || dispatch_is_opaque() || !tensor_requires_grad(*tensor))
        return ORIGINAL(register_hook)(tensor, function);
    struct user_hook *hook = malloc(sizeof *hook);
    function_move(function, hook->function);
    hook->record = record_get(*tensor);
    hook->node = tensor_node(*tensor);
    hook->leaf = hook->node ? NULL : *tensor;
    return tensor_add_hook(
        *tensor, (struct hook_closure){.function = user_hook_called, .release = user_hook_release, .data = hook, .sees_none = true});
}

/* What was computed from parameters alone has no record, but its gradient is this rank's share of a sum: with the record of a value computed from shards the
   gradient is found when the backward is over (retained.c). */
void hook_retain_grad(struct tensor *const *tensor) {
    ORIGINAL(retain_grad)(tensor);
    retained_begins();
    if (!shim_active() || dispatch_is_opaque() || !tensor_requires_grad(*tensor) || !tensor_node(*tensor) || !tensor_is_plain(*tensor))
        return;
    record_set(*tensor, tensor_is_marked(*tensor) ? record_get(*tensor) : (struct record){.kind = RECORD_GATHERED});
}

/* ---- functions that run when the engine is through */

/* The program's function is what the first word of ours points to. The engine moves ours into its list, calls it there, and destroys it. */
static int queued_manage(void **own, void *const *source, int operation) {
    (void)source;
    if (operation == FUNCTION_DESTROY) {
        function_destroy(own[0]);
        free(own[0]);
    }
    return 0;
}

static void queued_call(void *const *own) {
    void **function = own[0];
    void (*invoke)(void *) = function[FUNCTION_INVOKER];
    BOUNDARY_SCOPE;
    invoke(function);
}

struct queued {
    void *function[4];
};

static void queued_drop(struct queued *queued) { /* it is still there when the engine has thrown */
    function_destroy(queued->function);
}

/* libtorch's own is DistributedDataParallel's, for one process: it puts back what it has taken of the gradients while they arrived, which are to be summed
   after it. */
void hook_queue_callback(void *engine, void **function) {
    if (!shim_active() || torch_has_function(function[FUNCTION_INVOKER])) {
        ORIGINAL(queue_callback)(engine, function);
        return;
    }
    __attribute__((cleanup(queued_drop))) struct queued queued = {{malloc(sizeof queued), NULL, queued_manage, queued_call}};
    function_move(function, queued.function[0]);
    ORIGINAL(queue_callback)(engine, queued.function);
}

/* ---- Python's hooks */

void hook_add_hook_shared(struct tensor *const *tensor, void *hook) {
    python_hook_met(*tensor, hook);
    ORIGINAL(add_hook_shared)(tensor, hook);
}

void hook_add_hook_unique(struct tensor *const *tensor, void *hook) {
    python_hook_met(*tensor, hook);
    ORIGINAL(add_hook_unique)(tensor, hook);
}
