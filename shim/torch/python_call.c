/*
 * The call of a __torch_dispatch__: of a tensor's class, or of a mode. PyTorch excludes every key above Python's for it, ours with them, and nothing else
 * excludes ours. But it is the program's code, and may hold divided tensors: so our keys stay, also where we had excluded them around the operator. The
 * autograd of what it is called for is above it, as ever.
 */
#include "../shim.h"
#include "functions.h"

static __thread int calls;

bool dispatch_in_python(void) {
    return calls > 0;
}

/* What is to be done in the end is kept in the low bits of the guard's pointer to the thread's keys. */
enum { OURS = 1, WAS_OPAQUE = 2 };

void hook_exclude_keys(uint64_t *guard, uint64_t keys) {
    bool is_python = shim_active() && keys & torch_facts.bit_shard;
    ORIGINAL(exclude_keys)(guard, is_python ? keys & ~keys_ours() : keys);
    if (!is_python)
        return;
    if (guard[0] != (uintptr_t)dispatch_thread_keys())
        torch_unsupported("key guards", "they do not begin with the thread's keys");
    guard[0] |= OURS | (dispatch_is_opaque() ? WAS_OPAQUE : 0);
    calls++;
    user_enter();
}

void hook_exclude_keys_end(uint64_t *guard) {
    uint64_t marks = guard[0] & (OURS | WAS_OPAQUE);
    guard[0] &= ~marks;
    ORIGINAL(exclude_keys_end)(guard);
    if (!marks)
        return;
    calls--;
    if (marks & WAS_OPAQUE)
        user_leave(&(struct opaque_scope){&dispatch_thread_keys()[1]});
}
