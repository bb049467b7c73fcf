/*
 * The call of a __torch_dispatch__: of a tensor's class, or of a mode. PyTorch excludes every key above Python's for it, ours with them, and nothing else
 * excludes ours. But it is the program's code, and may hold divided tensors: so our keys stay, also where we had excluded them around the operator. The
 * autograd of what it is called for is above it, as ever.
 */
#include "../shim.h"
#include "functions.h"

bool dispatch_in_python(void) {
    return *dispatch_python_calls();
}

/* What is to be done in the end is kept in the low bits of the guard's pointer to the thread's keys. */
enum { OURS = 1, WAS_OPAQUE = 2 };

static __attribute__((noinline)) void begin(uint64_t *guard, uint64_t keys) {
    ORIGINAL(exclude_keys)(guard, keys & ~keys_ours());
    if (guard[0] != (uintptr_t)dispatch_thread_keys())
        torch_unsupported("key guards", "they do not begin with the thread's keys");
    guard[0] |= OURS | (dispatch_is_opaque() ? WAS_OPAQUE : 0);
    ++*dispatch_python_calls();
    user_enter();
}

static __attribute__((noinline)) void end(uint64_t *guard) {
    bool was_opaque = guard[0] & WAS_OPAQUE;
    guard[0] &= ~(uint64_t)(OURS | WAS_OPAQUE);
    ORIGINAL(exclude_keys_end)(guard);
    --*dispatch_python_calls();
    if (was_opaque)
        user_leave(&(struct opaque_scope){&dispatch_thread_keys()[1]});
}

/* Every operator's autograd has such guards, so these are on everybody's way. */
void hook_exclude_keys(uint64_t *guard, uint64_t keys) {
    if (shim_active() && keys & torch_facts.bit_shard)
        begin(guard, keys);
    else
        ORIGINAL(exclude_keys)(guard, keys);
}

void hook_exclude_keys_end(uint64_t *guard) {
    if (guard[0] & OURS)
        end(guard);
    else
        ORIGINAL(exclude_keys_end)(guard);
}
