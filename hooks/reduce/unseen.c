/* What the engine calls below user level: what would be shown this rank's part is stopped before it is; the Reducer is known of. */
#include "reduce.h"

/* torch::autograd::SavedVariable::register_hooks: grad_fn._raw_saved_self.register_hooks(pack, unpack). saved_tensors_hooks does not come here. */
void hook_register_saved_hooks(void *saved, void *hooks) {
    if (shim_active() && !dispatch_is_opaque() && report_has_batches())
        shim_problem("AR-SAVED-HOOK",
                     "Use torch.autograd.graph.saved_tensors_hooks(pack, unpack) around what is computed; or run with -n 1.",
                     "register_hooks() of what a node of the graph has saved (grad_fn._raw_saved_self and its like), after a batch has "
                     "been divided: "
                     "its functions would see this rank's rows");
    ORIGINAL(register_saved_hooks)(saved, hooks);
}

/* ---- DistributedDataParallel, in a program that is one process */

static _Atomic bool has_reducer;

bool unseen_has_reducer(void) {
    return atomic_load_explicit(&has_reducer, memory_order_relaxed);
}

/* Before each backward that it reduces, called by libtorch_python: so it is seen in a libtorch that is bound to itself, too. */
void hook_reducer_prepares(void *reducer, void *outputs) {
    atomic_store(&has_reducer, true);
    ORIGINAL(reducer_prepares)(reducer, outputs);
}

__attribute__((noreturn)) static void stop_comm_hook(void) {
    shim_problem("AR-COMM-HOOK", "Leave the hook out: the ranks' gradients are summed without DistributedDataParallel; or run with -n 1.",
                 "a communication hook of DistributedDataParallel (register_comm_hook) would be given this rank's part of the gradients");
}

void hook_register_comm_hook(void *reducer, void *hook) {
    if (shim_active())
        stop_comm_hook();
    ORIGINAL(register_comm_hook)(reducer, hook);
}

/* c10d::BuiltinCommHookType */
void hook_register_builtin_comm_hook(void *reducer, unsigned char type) {
    enum { ALL_REDUCE = 1 };
    if (shim_active() && type != ALL_REDUCE)
        stop_comm_hook();
    ORIGINAL(register_builtin_comm_hook)(reducer, type);
}
