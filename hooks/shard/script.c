/*
 * TorchScript. From the second run of a function on libtorch executes a graph that it has optimised by what it saw in the first (its profile), or at once in
 * the executor of before 1.7: it differentiates that itself, with the sizes that the forward has seen, in a node whose gradients have the sizes of the whole
 * batch. Without a profile, and with the newer executor, it runs operator by operator: they come to us, and autograd follows them. Both settings belong to the
 * process. What the program sets instead goes to memory that nobody reads.
 */
#include "shard.h"

/* The setting as libtorch and the program see it. */
static _Atomic char *setting(_Atomic char *own, _Atomic char *fixed, char value) {
    if (!shim_active())
        return own;
    atomic_store_explicit(fixed, value, memory_order_relaxed);
    return fixed;
}

_Atomic char *hook_script_profiling(void) {
    static _Atomic char off;
    return setting(ORIGINAL(script_profiling)(), &off, 0);
}

_Atomic char *hook_script_executor(void) {
    static _Atomic char newer;
    return setting(ORIGINAL(script_executor)(), &newer, 1);
}
