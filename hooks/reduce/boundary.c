/*
 * Code of the program that autograd calls back. A hook that the program puts on a tensor from C++ runs at user level and sees the gradient it would see in one
 * process; what is called back from Python, and custom autograd functions, are refused by name for now: their code would see this rank's rows only.
 */
#include <stdlib.h>

#include "reduce.h"

enum { FUNCTION_MANAGER = 2, FUNCTION_INVOKER = 3, FUNCTION_DESTROY = 3 }; /* words of libstdc++'s std::function; the manager's operation */

struct user_hook {
    void *function[4];    /* the program's std::function, moved here */
    struct record record; /* of the tensor it was put on; RECORD_NONE: a leaf or another replicated tensor */
};

static void user_hook_release(void *data) {
    struct user_hook *hook = data;
    int (*manage)(void **, void **, int) = hook->function[FUNCTION_MANAGER];
    if (manage)
        manage(hook->function, NULL, FUNCTION_DESTROY);
    free(hook);
}

static struct tensor *user_call(struct user_hook *hook, struct tensor *gradient) {
    struct tensor *result = torch_facts.undefined;
    void *(*invoke)(struct tensor **, void *, struct tensor **) = hook->function[FUNCTION_INVOKER];
    __attribute__((cleanup(user_leave), unused)) struct opaque_scope level = user_enter();
    invoke(&result, hook->function, &gradient);
    return result;
}

/* The gradient of a divided tensor is divided like it; that of anything replicated is a partial sum; that of a partial sum is replicated. */
static struct record record_of_gradient(const struct record *tensor) {
    if (tensor->kind == RECORD_SHARD)
        return *tensor;
    return (struct record){.kind = tensor->kind == RECORD_PARTIAL ? RECORD_NONE : RECORD_PARTIAL};
}

/* Brings what the hook returned (owned) into the form in which the gradient flows on. */
static struct tensor *return_gradient(struct tensor *returned, const struct record *wanted) {
    struct record have = record_get(returned);
    OPAQUE_SCOPE;
    if (have.kind == wanted->kind || (have.kind == RECORD_GATHERED && wanted->kind == RECORD_NONE))
        return returned;
    struct value whole = value_tensor(dispatch_client.whole(returned));
    tensor_release(returned);
    struct value result = whole;
    if (wanted->kind == RECORD_PARTIAL)
        result = TORCH_CALL("aten::mul", "Scalar", whole, value_real(1.0 / shim_world_size()));
    else if (wanted->kind == RECORD_SHARD)
        result = TORCH_CALL("aten::narrow", "", whole, value_int(wanted->dim), value_int(wanted->first * wanted->inner),
                            value_int(wanted->rows * wanted->inner));
    if (result.tensor != whole.tensor)
        value_drop(whole);
    return result.tensor;
}

static struct tensor *user_hook_called(struct tensor *gradient, void *data) {
    struct user_hook *hook = data;
    if (!backward_is_divided() || gradient == torch_facts.undefined) {
        struct tensor *result = torch_facts.undefined;
        void *(*invoke)(struct tensor **, void *, struct tensor **) = hook->function[FUNCTION_INVOKER];
        invoke(&result, hook->function, &gradient);
        return result;
    }
    struct record wanted = record_of_gradient(&hook->record);
    struct value seen = TORCH_CALL("aten::alias", "", value_tensor(gradient)); /* the engine's own tensor stays unmarked */
    record_clear(seen.tensor);
    if (wanted.kind != RECORD_NONE)
        record_set(seen.tensor, wanted);
    struct tensor *returned = user_call(hook, seen.tensor);
    value_drop(seen);
    return returned == torch_facts.undefined ? returned : return_gradient(returned, &wanted);
}

unsigned hook_register_hook(struct tensor *const *tensor, void **function) {
    if (!shim_active() || dispatch_is_opaque() || !tensor_requires_grad(*tensor))
        return ORIGINAL(register_hook)(tensor, function);
    struct user_hook *hook = malloc(sizeof *hook);
    memcpy(hook->function, function, sizeof hook->function);
    function[FUNCTION_MANAGER] = NULL; /* moved from */
    hook->record = record_get(*tensor);
    return tensor_add_hook(*tensor, (struct hook_closure){user_hook_called, user_hook_release, hook});
}

/* What was computed from parameters alone has no record, but its gradient is this rank's share of a sum: with the record of a value computed from shards the
   gradient is found when the backward is over (mark_retained_gradient). */
void hook_retain_grad(struct tensor *const *tensor) {
    ORIGINAL(retain_grad)(tensor);
    if (shim_active() && !dispatch_is_opaque() && !tensor_is_marked(*tensor) && tensor_requires_grad(*tensor) && tensor_node(*tensor) &&
        tensor_is_plain(*tensor))
        record_set(*tensor, (struct record){.kind = RECORD_GATHERED});
}

/* ---- refused by name */

static bool is_ours(struct tensor *tensor) {
    return shim_active() && !dispatch_is_opaque() && (tensor_is_marked(tensor) || tensor_is_parameter(tensor));
}

__attribute__((noreturn)) static void stop_for_python_hook(const char *what) {
    shim_problem("AR-PY-HOOK", "Remove the hook, or run with -n 1 for now.",
                 "%s from Python on a parameter, on a tensor whose rows are divided or on one computed from parameters is not supported "
                 "yet: it would see "
                 "this rank's share",
                 what);
}

void boundary_check(void) {
    if (python_hooks_exist())
        stop_for_python_hook("register_hook");
}

/* The holder, shared_ptr or unique_ptr, begins with the hook's address in every release. */
static void meet_python_hook(struct tensor *tensor, void *const *holder) {
    if (shim_active() && !dispatch_is_opaque() && !python_hooks_watch(*holder) && is_ours(tensor))
        stop_for_python_hook("register_hook");
}

void hook_add_hook_shared(struct tensor *const *tensor, void *hook) {
    meet_python_hook(*tensor, hook);
    ORIGINAL(add_hook_shared)(tensor, hook);
}

void hook_add_hook_unique(struct tensor *const *tensor, void *hook) {
    meet_python_hook(*tensor, hook);
    ORIGINAL(add_hook_unique)(tensor, hook);
}

void hook_post_accumulate_hooks(struct tensor *const *tensor, void *hook) {
    if (is_ours(*tensor))
        stop_for_python_hook("register_post_accumulate_grad_hook");
    ORIGINAL(post_accumulate_hooks)(tensor, hook);
}

static void refuse_saved_hooks(void) {
    if (shim_active() && !dispatch_is_opaque())
        shim_problem("AR-SAVED-HOOKS", "Switch checkpointing off, or run with -n 1 for now.",
                     "torch.utils.checkpoint or saved_tensors_hooks is used: what it recomputes would not be divided");
}

void hook_push_saved_hooks(void *pack, void *unpack) {
    refuse_saved_hooks();
    ORIGINAL(push_saved_hooks)(pack, unpack);
}

void hook_push_saved_hooks_raw(void *pack, void *unpack) {
    refuse_saved_hooks();
    ORIGINAL(push_saved_hooks_raw)(pack, unpack);
}

/* A custom function's forward is the last stretch without grad mode before its outputs are wrapped (Function::apply in C++, THPFunction_apply):
   whether rows were divided in it is known from the count at its beginning. */
static __thread uint64_t count_at_grad_off;

void hook_set_grad_mode(char enabled) {
    if (shim_active() && !enabled && grad_mode_is_enabled())
        count_at_grad_off = dispatch_divided_count();
    ORIGINAL(set_grad_mode)(enabled);
}

/* inputs: std::vector<Tensor>; node: null when nothing requires grad, so no backward of the program's will run. */
static void refuse_custom_function(struct tensor *const *const *inputs, void *const *node) {
    if (!shim_active() || dispatch_is_opaque() || !*node)
        return;
    bool divided = dispatch_divided_count() != count_at_grad_off;
    for (struct tensor *const *input = inputs[0]; input < inputs[1]; input++)
        divided |= tensor_is_marked(*input);
    if (divided)
        shim_problem(
            "AR-CUSTOM-FUNCTION", "Write it with differentiable operators, or run with -n 1 for now.",
            "a custom autograd function (or a reentrant checkpoint) works on rows that are divided among the ranks: its backward would see "
            "this rank's rows only");
}

void *hook_wrap_outputs_shared(void *result, struct tensor *const *const *inputs, void *a, void *b, void *outputs, size_t output_count,
                               void *const *node, void *jvp) {
    refuse_custom_function(inputs, node);
    return ORIGINAL(wrap_outputs_shared)(result, inputs, a, b, outputs, output_count, node, jvp);
}

void *hook_wrap_outputs_intrusive(void *result, struct tensor *const *const *inputs, void *a, void *b, void *outputs, size_t output_count,
                                  void *const *node, void *jvp, void *saved, void *view_function, char pure_view) {
    refuse_custom_function(inputs, node);
    return ORIGINAL(wrap_outputs_intrusive)(result, inputs, a, b, outputs, output_count, node, jvp, saved, view_function, pure_view);
}
