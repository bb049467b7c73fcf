/*
 * A row that is kept without its history (kept.append(out[0].detach())) keeps the copy's memory. The copy and its source would keep the graph with it, with a
 * step's activations: they are exchanged for tensors without a history once no view that has one is left. That is decided when a thread opens windows, which
 * it does at the same points of the program on all ranks; not at once, for the program may be about to take the next row. Within the scope of window.c's lock.
 */
#include "window.h"

enum { OPENED = 4 };

static struct pairs of_threads; /* to the windows of a thread that have a history */

void window_note_history(struct window *window) {
    if (window->is_recorded || !tensor_requires_grad(window->whole))
        return;
    list_put(&of_threads, (void *)window->thread, &window->of_thread);
    window->is_recorded = true;
}

void window_forget_history(struct window *window) {
    if (window->is_recorded)
        list_take_out(&of_threads, (void *)window->thread, &window->of_thread);
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
    tensor_release(whole);
}

/* Views that have a history own the copy. */
void window_let_histories_go(uint64_t thread) {
    LIST_EACH_LEAVING (struct window, window, list_of(&of_threads, (void *)thread), of_thread)
        if (window->opened++ >= OPENED && tensor_owners(window->whole) == 1) {
            window_forget_history(window);
            if (tensor_is_recorded(window->source) && record_get(window->source).kind != RECORD_NONE)
                window_detach_source(window);
            detach_whole(window);
        }
}
