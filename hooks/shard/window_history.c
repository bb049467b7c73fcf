/*
 * A row that is kept without its history (kept.append(out[0].detach())) keeps the copy's memory. The copy and its source would keep the graph with it, with a
 * step's activations: they are exchanged for tensors without a history once no view that has one is left, and the program has the source no longer, of which
 * it could take another row. Looked at when a thread opens windows, which it does at the same points of the program on all ranks. Within the scope of
 * window.c's lock.
 */
#include "window.h"

static struct pairs of_threads; /* to the windows of a thread that have a history */

static void *key_of(uint64_t thread) {
    enum { MAIN = 2 }; /* words are odd */
    return (void *)(thread ? thread : MAIN);
}

void window_note_history(struct window *window) {
    if (window->is_recorded || !tensor_requires_grad(window->whole))
        return;
    list_put(&of_threads, key_of(window->thread), &window->of_thread);
    window->is_recorded = true;
}

void window_forget_history(struct window *window) {
    if (window->is_recorded)
        list_take_out(&of_threads, key_of(window->thread), &window->of_thread);
    window->is_recorded = false;
}

static void detach_whole(struct window *window) {
    OPAQUE_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    struct tensor *whole = window->whole;
    struct record mark = record_get(whole);
    window->whole = TORCH_CALL("aten::detach", "", value_tensor(whole)).tensor;
    if (mark.kind == RECORD_NONE)
        record_clear(window->whole);
    else
        record_set(window->whole, mark);
    window_let_go(whole);
}

/* Views that have a history own the copy, but for one that is a view: what they are views of is behind it. A pointer that another thread may be following
   into the copy counts on both. */
static bool is_history_alone(const struct window *window) {
    return tensor_owners(window->whole) == 1 && !window_is_view(window->whole) && !window->is_kept && window_has_source_alone(window) &&
           record_get(window->source).kind != RECORD_NONE;
}

void window_let_histories_go(uint64_t thread) {
    LIST_EACH_LEAVING (struct window, window, list_of(&of_threads, key_of(thread)), of_thread)
        if (is_history_alone(window)) {
            window_forget_history(window);
            if (tensor_requires_grad(window->source))
                window_detach_source(window);
            detach_whole(window);
        }
}
