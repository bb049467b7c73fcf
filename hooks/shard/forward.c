/*
 * Forward-mode derivatives (torch.autograd.forward_ad). A tangent is a second tensor inside the first, which no record speaks of: while a level is open nothing
 * is divided, and what has been is gathered where it is used.
 */
#include "shard.h"

static _Atomic int levels;

bool forward_mode_is_open(void) {
    return atomic_load_explicit(&levels, memory_order_relaxed) > 0;
}

/* Counted before the first tensor of the program, too: a level may be the first thing that it opens. */
uint64_t hook_enter_dual_level(void) {
    uint64_t level = ORIGINAL(enter_dual_level)();
    atomic_fetch_add(&levels, 1);
    return level;
}

void hook_exit_dual_level(uint64_t level) {
    ORIGINAL(exit_dual_level)(level);
    atomic_fetch_sub(&levels, 1);
}
