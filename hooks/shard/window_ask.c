/* What the rest asks of the window that a storage is the copy of (window.c): each question within the lock, what it gives is what was so then. */
#include "window.h"

bool window_find(const void *storage, struct tensor **source, struct record *record, struct tensor **whole) {
    WINDOWS_SCOPE;
    const struct window *window = window_onto(storage);
    if (!window || window->is_left)
        return false;
    *source = window->source;
    *record = window->record;
    *whole = window->whole;
    return true;
}

const void *window_memory_of(const void *storage) {
    WINDOWS_SCOPE;
    const struct window *window = window_onto(storage);
    return window && !window->is_left ? window->memory : NULL;
}

void window_thread_ends(uint64_t thread) {
    WINDOWS_SCOPE;
    window_histories_of_ended(thread);
}

struct value window_copy(const void *storage) {
    WINDOWS_SCOPE;
    const struct window *window = window_onto(storage);
    if (!window || window->is_left)
        return value_none();
    tensor_retain(window->whole);
    return value_tensor(window->whole);
}

bool window_take_known(const void *storage) {
    WINDOWS_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE; /* a transform would bring our calls back to user level */
    OPAQUE_SCOPE;
    const struct window *window = window_onto(storage);
    if (!window || !window->stale)
        return false;
    struct written all = window_region(window->whole);
    all.counter = &all; /* nobody's: no version moves */
    return window_write_back(window, &all);
}

static bool is_to_be_refreshed(struct tensor *tensor, const struct written *written) {
    WINDOWS_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    OPAQUE_SCOPE;
    const struct window *window = window_onto(tensor_own_storage(tensor));
    return window && !window->is_left && window_is_behind(window, tensor, written);
}

void window_refresh(struct tensor *tensor, const struct written *written) {
    if (!window_any_behind() || !is_to_be_refreshed(tensor, written))
        return;
    SHIM_COMM_SCOPE;
    WINDOWS_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    OPAQUE_SCOPE;
    struct window *window = window_onto(tensor_own_storage(tensor));
    if (window)
        window_renew_missed(window, tensor, written);
}

void window_follow_source(struct tensor *tensor) {
    if (!window_any_behind() || !grad_mode_is_enabled() || !tensor_requires_grad(tensor))
        return;
    WINDOWS_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    OPAQUE_SCOPE;
    struct window *window = window_onto(tensor_own_storage(tensor));
    if (window && !window->is_left && window->passes_source)
        window_lead_through_source(window);
}
