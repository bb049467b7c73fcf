/*
 * What the copy of a window has not, or not yet, of what other threads have written to its source: elements whose values are old, all of them where nobody
 * knows which, or the history of what it has the values of. Who uses these has the copy gathered anew (window_refresh), a collective: so what is asked, and
 * what is had afterwards, are the elements that the program uses, whose writes it has ordered, and no others, which may come before or after on each rank.
 */
#include "window.h"

static _Atomic int behind;

bool window_any_behind(void) {
    return atomic_load_explicit(&behind, memory_order_relaxed);
}

static bool is_behind(const struct window *window) {
    return window->is_stale || window->stale || window->is_history_due;
}

static void count_again(bool was_behind, const struct window *window) {
    atomic_fetch_add(&behind, is_behind(window) - was_behind);
}

static void have_values(struct window *window) {
    if (window->stale)
        tensor_release(window->stale);
    window->stale = NULL;
    window->is_stale = window->has_missed_versions = false;
}

void window_catch_up(struct window *window) {
    bool was_behind = is_behind(window);
    have_values(window);
    window->is_history_due = false;
    count_again(was_behind, window);
}

void window_miss(struct window *window, struct value flags, bool is_version) {
    bool was_behind = is_behind(window), has_missed_versions = window->has_missed_versions;
    if (!value_is_tensor(&flags)) {
        have_values(window);
        window->is_stale = true;
    } else if (window->stale)
        value_drop(TORCH_CALL("aten::logical_or_", "", value_tensor(window->stale), flags));
    else if (!window->is_stale)
        tensor_retain(window->stale = flags.tensor);
    window->has_missed_versions = has_missed_versions || is_version;
    count_again(was_behind, window);
}

void window_have(struct window *window, struct value flags, bool has_history) {
    bool was_behind = is_behind(window);
    if (value_is_tensor(&flags) && window->stale) {
        struct value left = window_without(value_tensor(window->stale), flags);
        tensor_release(window->stale);
        window->stale = left.tensor;
    }
    if (!value_is_tensor(&flags) || (window->stale && !window_any_flag(value_tensor(window->stale))))
        have_values(window);
    window->is_history_due &= !has_history;
    count_again(was_behind, window);
}

void window_owe_history(struct window *window) {
    bool was_behind = is_behind(window);
    window->is_history_due = true;
    count_again(was_behind, window);
}

struct value window_no_flags(const struct window *window) {
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(window->whole));
    struct value none =
        TORCH_CALL("aten::zeros_like", "", plain, value_int(DTYPE_BOOL), value_none(), value_none(), value_none(), value_none());
    value_drop(plain);
    return none;
}

struct value window_missed_of(const struct window *window, struct tensor *tensor, const struct written *written) {
    struct extent asked = extent_of(tensor), lies = extent_of(window->whole);
    if (window->is_stale || (!window->stale && window_is_view(window->whole))) /* nobody brings single elements there */
        return value_none();
    if (!window->stale) /* the history alone is due */
        return window_no_flags(window);
    if (asked.dims < 0 || tensor_dtype(tensor) != tensor_dtype(window->whole)) {
        tensor_retain(window->stale);
        return value_tensor(window->stale);
    }
    struct value flags = window_flags(window->whole, &asked, written, &lies);
    value_drop(TORCH_CALL("aten::logical_and_", "", flags, value_tensor(window->stale)));
    return flags;
}

/* Not of a view that was detached from the copy, which may be used before the write on another rank. */
static bool takes_history(const struct window *window, struct tensor *tensor) {
    bool may_get_one = !tensor_requires_grad(window->whole) && tensor_is_recorded(window->source);
    return grad_mode_is_enabled() && (tensor_requires_grad(tensor) || may_get_one);
}

bool window_is_behind(const struct window *window, struct tensor *tensor, const struct written *written) {
    if (window->is_stale || (window->is_history_due && takes_history(window, tensor)))
        return true;
    if (!window->stale)
        return false;
    struct value flags = window_missed_of(window, tensor, written);
    bool is_any = window_any_flag(flags);
    value_drop(flags);
    return is_any;
}
