/* Generators that a program draws from while it reads examples. */
#include "load.h"

static _Atomic uint64_t asked;

/* randperm of nothing asks for the default generator, and draws nothing. */
bool draws_are_seen(void) {
    static bool seen;
    if (seen)
        return true;
    uint64_t before = atomic_load(&asked);
    value_drop(TORCH_CALL("aten::randperm", "", value_int(0), value_int(DTYPE_INT64), value_none(), value_none(), value_none()));
    return seen = atomic_load(&asked) != before;
}

void *hook_default_generator(void) {
    if (shim_active()) {
        atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed);
        shim_note_draw();
    } else {
        bound_begin_seeds(); /* torch::manual_seed, which is inline, may be the first that the program calls */
    }
    return ORIGINAL(default_generator)();
}

int hook_rand(void) {
    if (shim_active())
        shim_note_draw();
    return ORIGINAL(rand)();
}

long hook_random(void) {
    if (shim_active())
        shim_note_draw();
    return ORIGINAL(random)();
}

double hook_drand48(void) {
    if (shim_active())
        shim_note_draw();
    return ORIGINAL(drand48)();
}

long hook_lrand48(void) {
    if (shim_active())
        shim_note_draw();
    return ORIGINAL(lrand48)();
}

long hook_mrand48(void) {
    if (shim_active())
        shim_note_draw();
    return ORIGINAL(mrand48)();
}
