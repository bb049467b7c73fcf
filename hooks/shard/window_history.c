/*
 * A row that is kept without its history (kept.append(out[0].detach())) keeps the copy's memory. The copy and its source would keep the graph with it, with a
 * step's activations: they are exchanged for tensors without a history once no view that has one is left, and the program has the source no longer, of which
 * it could take another row. Looked at when a thread opens windows, which it does at the same points of the program on all ranks. Within the scope of
 * window.c's lock.
 */
#include "window.h"

static struct pairs of_threads;                  /* to the windows of a thread that have a history */
static const uint64_t of_main = 2, of_ended = 4; /* words are odd */

static const void *key_of(uint64_t word) {
    return (void *)(word ? word : of_main);
}

/* A task's, or a thread's: the word of what it has opened, as it is listed. */
static uint64_t of_main_thread;
static void thread_ends(void *word) {
    window_thread_ends(*(uint64_t *)word);
}
static const struct threads_kept kept = {&of_main_thread, sizeof of_main_thread, thread_ends};

void window_histories_of_ended(uint64_t thread) {
    LIST_EACH_LEAVING (struct window, window, list_of(&of_threads, key_of(thread)), of_thread) {
        window_forget_history(window);
        window->history_of = of_ended;
        list_put(&of_threads, key_of(of_ended), &window->of_thread);
        window->is_recorded = true;
    }
}

void window_note_history(struct window *window) {
    if (window->is_recorded || !tensor_requires_grad(window->whole))
        return;
    window->history_of = window->thread;
    if (window->thread && window->thread == threads_own())
        *(uint64_t *)threads_own_kept(&kept) = window->thread;
    list_put(&of_threads, key_of(window->history_of), &window->of_thread);
    window->is_recorded = true;
}

void window_forget_history(struct window *window) {
    if (window->is_recorded)
        list_take_out(&of_threads, key_of(window->history_of), &window->of_thread);
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

static void let_go_of(uint64_t word) {
    LIST_EACH_LEAVING (struct window, window, list_of(&of_threads, key_of(word)), of_thread)
        if (is_history_alone(window)) {
            window_forget_history(window);
            if (tensor_requires_grad(window->source))
                window_detach_source(window);
            detach_whole(window);
        }
}

/* Of what has ended everybody looks: a pool's next task goes by another word. */
void window_let_histories_go(uint64_t thread) {
    let_go_of(thread);
    let_go_of(of_ended);
}
