/*
 * Views of rows. h[3], h[2:5] and the like of a divided tensor are views of a gathered copy. In one process they share memory with h, so they do here: what an
 * operator writes through such a view goes back to the rows that each rank has, and after a write to h the copies that are still looked at are made anew. A
 * window is the pair of both; it closes when nobody has a view of the copy any more. Every rank does the same, so all collectives match. Views of a sum are
 * parts of it but for those as another type, whose bits no sum of parts has: for them the copy is the sum.
 *
 * Threads of the program may each write other rows at one time: each has windows of its own (whose there are others of is another on each rank), and what one
 * writes is carried to the others' copies element by element: the rest of these may just be written (window_beside.c). A copy may have been gathered before
 * such a write reached this rank's rows: so it takes them anew when it becomes a window.
 *
 * Nobody waits for a collective with the list in hand, which the thread whose turn it is may need on its way there: where one is due the turn is taken first.
 */
#include <pthread.h>
#include <stdlib.h>

#include "copies.h"
#include "window.h"

/* Reading element by element (z[i][j].item()) drops each view before the next: a small copy stays for the next few calls, unless something is written. Not
   beside other threads, where whose call comes next is another on each rank. */
enum { IDLE_CALLS = 32, IDLE_CALLS_OF_HISTORY = 8 /* which keeps a step's activations */, IDLE_BYTES = 1 << 18 };

static struct list_kept windows;
static struct pairs of_wholes, of_sources, of_memories; /* to the windows of a copy's storage, of a source, and of a source's storage */
static _Atomic unsigned window_count, changes;
static pthread_mutex_t windows_mutex = PTHREAD_MUTEX_INITIALIZER;

static void windows_unlock(int *unused) {
    pthread_mutex_unlock(&windows_mutex);
}
#define WINDOWS_SCOPE __attribute__((cleanup(windows_unlock), unused)) int windows_scope_ = (python_lock(&windows_mutex), 0)

/* Owned; taken. */
static void take_source(struct window *window, struct tensor *source) {
    list_take_out(&of_sources, window->source, &window->of_source);
    window_let_go(window->source);
    window->source = source;
    list_put(&of_sources, source, &window->of_source);
}

void window_detach_source(struct window *window) {
    OPAQUE_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    struct record record = record_get(window->source);
    take_source(window, TORCH_CALL("aten::detach", "", value_tensor(window->source)).tensor);
    record_set(window->source, record);
}

void window_open(struct tensor *source, const struct record *record, struct tensor *whole) {
    WINDOWS_SCOPE;
    LIST_EACH (const struct window, window, list_of(&of_wholes, tensor_storage(whole)), of_whole)
        if (window->whole == whole)
            return;
    if (shim_has_threads() && record->kind == RECORD_SHARD && !tensor_requires_grad(whole))
        window_take_rows(source, record, whole);
    struct window *window = malloc(sizeof *window);
    *window = (struct window){.source = source, .record = *record, .whole = whole, .is_of_many = window_is_of_many(source)};
    window->thread = threads_own();
    window->backwards = report_backwards();
    tensor_retain(source);
    tensor_retain(whole);
    list_kept_add(&windows, &window->all);
    list_put(&of_wholes, window->own = tensor_storage(whole), &window->of_whole);
    list_put(&of_sources, source, &window->of_source);
    list_put(&of_memories, window->memory = tensor_own_storage(source), &window->of_memory);
    atomic_fetch_add(&window_count, 1);
    window_note_history(window);
    window_let_histories_go(window->thread);
}

/* Only we have the copy, and its memory: with a view goes what it is one of. */
static bool is_closed(const struct window *window) {
    return tensor_owners(window->whole) == 1 && storage_owners(tensor_storage(window->whole)) == window_owns(window);
}

/* The program has what we have a view of as long as others than windows own its memory. */
bool window_has_source_alone(const struct window *window) {
    if (window->has_alias && storage_owners(window->memory) > list_length(list_of(&of_memories, window->memory)))
        return false;
    return tensor_is_let_go(window->source, (uint32_t)list_length(list_of(&of_sources, window->source)));
}

/* `const float *row = h[i].data_ptr<float>()`: the view is gone, h is not. */
static bool may_be_pointed_to(const struct window *window) {
    return window->is_kept && !window_has_source_alone(window);
}

static bool is_left_over(const struct window *window) {
    return is_closed(window) && !may_be_pointed_to(window);
}

static bool may_be_asked_for_again(struct window *window) {
    int most = tensor_requires_grad(window->whole) ? IDLE_CALLS_OF_HISTORY : IDLE_CALLS;
    return window->idle++ < most && !shim_has_threads() && tensor_bytes(window->whole) <= IDLE_BYTES;
}

static void close_window(struct window *window) {
    list_kept_remove(&windows, &window->all);
    list_take_out(&of_wholes, window->own, &window->of_whole);
    list_take_out(&of_sources, window->source, &window->of_source);
    list_take_out(&of_memories, window->memory, &window->of_memory);
    window_forget_history(window);
    window_catch_up(window);
    window_let_go(window->whole);
    window_let_go(window->source);
    free(window);
    atomic_fetch_sub(&window_count, 1);
}

static void sweep_idle(struct list_node *node, bool is_young) {
    struct window *window = LIST_OWNER(node, struct window, all);
    if (is_left_over(window) && (!is_young || !may_be_asked_for_again(window)))
        close_window(window);
}

/* Before a write to a source's memory: nobody misses a view that is gone. */
static void sweep_of(const void *memory, const struct window *but) {
    LIST_EACH_LEAVING (struct window, window, list_of(&of_memories, memory), of_memory)
        if (window != but && is_left_over(window))
            close_window(window);
}

/* Beside other threads which of the closed ones have been swept is another on each rank. */
static bool is_there(const struct window *window) {
    return !window->is_left && !(shim_has_threads() && is_left_over(window));
}

/* A twin's, of which nobody has a view, is this tensor's from now on: what is written to its rows with a history is then this one's. */
static bool serves(struct window *window, struct tensor *source) {
    bool is_free = is_left_over(window);
    window->is_shared &= !is_free;
    if (window->source == source)
        return true;
    if (!window_is_twin(window->source, &window->record, source) || (!is_free && !window_may_be_shared(window, source)))
        return false;
    window->is_shared = !is_free;
    if (is_free) {
        tensor_retain(source);
        take_source(window, source);
    }
    return true;
}

bool window_is_shared(const void *storage) {
    const struct window *onto = window_onto(storage);
    if (onto)
        return onto->is_shared;
    LIST_EACH (const struct window, window, list_of(&of_memories, storage), of_memory)
        if (window->is_shared && !is_left_over(window))
            return true;
    return false;
}

static struct tensor *find_whole(struct tensor *source) {
    WINDOWS_SCOPE;
    LIST_EACH (struct window, window, list_of(&of_memories, tensor_own_storage(source)), of_memory)
        if (is_there(window) && tensor_requires_grad(window->whole) == tensor_is_recorded(source) && window->thread == threads_own() &&
            (!tensor_requires_grad(window->whole) || window->backwards == report_backwards()) && serves(window, source)) {
            window->idle = 0;
            tensor_retain(window->whole);
            return window->whole;
        }
    return NULL;
}

struct tensor *window_whole(struct tensor *source, const struct operator *op) {
    if (!atomic_load_explicit(&window_count, memory_order_relaxed))
        return NULL;
    struct tensor *whole = find_whole(source);
    if (whole && !window_makes_views(op))
        window_refresh(whole, NULL);
    return whole;
}

/* Another tensor may have the memory, too (x = h.detach()): what is written to one still reaches the other. */
static void leave(struct window *window, bool is_done) {
    struct tensor *source = window->source;
    window->is_left |= is_done;
    atomic_fetch_add(&changes, is_done);
    if (is_done || tensor_is_recorded(source) || record_get(source).kind != window->record.kind)
        return;
    window_detach_source(window);
}

void window_replaced(struct tensor *source, bool is_done) {
    if (!atomic_load_explicit(&window_count, memory_order_relaxed) ||
        dispatch_is_opaque()) /* a tensor of ours, perhaps with the list in hand */
        return;
    WINDOWS_SCOPE;
    LIST_EACH_LEAVING (struct window, window, list_of(&of_sources, source), of_source)
        leave(window, is_done);
}

struct window *window_onto(const void *storage) {
    LIST_EACH (struct window, window, list_of(&of_wholes, storage), of_whole)
        if (tensor_storage(window->whole) == storage)
            return window;
    return NULL;
}

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

unsigned window_changes(void) {
    return atomic_load(&changes);
}

void window_keep(const void *storage, bool as_its_source) {
    WINDOWS_SCOPE;
    struct window *window = window_onto(storage);
    if (!window)
        return;
    window->is_pointed = true;
    window->is_kept |= as_its_source;
}

bool window_is_last_owner(const void *storage, uint32_t others) {
    WINDOWS_SCOPE;
    const struct window *window = window_onto(storage);
    return !(window && may_be_pointed_to(window)) && storage_owners(storage) == others + (window ? window_owns(window) : 0);
}

/* h.t_(), h.detach_(), h.set_(x): the program's views of it stay as they are, and so does what they are views of. */
static void leave_as_they_are(struct tensor *source) {
    struct record record = record_get(source);
    LIST_EACH_LEAVING (struct window, window, list_of(&of_sources, source), of_source) {
        struct value all = value_tensor(source);
        take_source(window, (grad_mode_is_enabled() ? TORCH_CALL("aten::alias", "", all) : TORCH_CALL("aten::detach", "", all)).tensor);
        record_set(window->source, record);
        window->has_alias = true;
        atomic_fetch_add(&changes, 1);
    }
}

static bool writes_any(const struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++)
        if (call_writes_values(call, &call->arguments[i]))
            return true;
    return false;
}

bool window_before_call(struct shard_call *call) {
    bool through_view = false;
    if (window_any_behind())
        window_refresh_arguments(call);
    for (int i = 0; i < call->argument_count && call->gathered; i++)
        through_view |= window_is_written_through(call, &call->arguments[i]);
    if (!through_view && !atomic_load_explicit(&window_count, memory_order_relaxed))
        return shim_has_threads() && writes_any(call); /* one may be opened meanwhile */
    WINDOWS_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE; /* a transform would bring our calls back to user level */
    OPAQUE_SCOPE;
    list_kept_visit(&windows, sweep_idle);
    window_check_call(call, through_view);
    if (call->op->writes == WRITES_NO_VALUES)
        leave_as_they_are(argument_tensor(&call->arguments[0]));
    return (windows.first || shim_has_threads()) && writes_any(call);
}

/* What a write to a source's memory, through the window that is up to date (NULL: in some other way), means for another window of it. */
enum { STAYS, IS_CARRIED, IS_BROUGHT, IS_RENEWED };

/* A window of another thread is there on one rank and gone, or not there yet, on the next: none of it may be exchanged but by who uses it. Nor where it was
   through a pointer, which another thread's backward may be the first to notice. What has given a pointer away stays, and nobody sees when that is used. */
static int fate_of(const struct window *window, const void *source, const struct window *up_to_date, const struct written *written) {
    if (window == up_to_date || window->is_left || tensor_own_storage(window->source) != source)
        return STAYS;
    if (up_to_date && written && !window_has_history(window) && window_is_at_same_place(window, up_to_date, written))
        return IS_CARRIED;
    bool may_be_late = window->thread != threads_own() || (!written && !window_has_history(window));
    return shim_has_threads() && may_be_late && !window->is_pointed ? IS_BROUGHT : IS_RENEWED;
}

/* written: through the window that is up to date, or by an operator; NULL: all of it, through pointers. */
static void renew_others(const void *source, const struct window *up_to_date, const struct written *written) {
    sweep_of(source, up_to_date);
    LIST_EACH (struct window, window, list_of(&of_memories, source), of_memory) {
        int fate = fate_of(window, source, up_to_date, written);
        if (fate == IS_CARRIED)
            window_carry(window, up_to_date, written);
        else if (fate == IS_BROUGHT)
            window_bring(window, up_to_date, written);
        else if (fate == IS_RENEWED)
            window_renew_written(window, up_to_date, written);
    }
}

static bool renews_others(const void *source, const struct window *up_to_date, const struct written *written) {
    LIST_EACH (const struct window, window, list_of(&of_memories, source), of_memory)
        if (fate_of(window, source, up_to_date, written) == IS_RENEWED && !is_left_over(window))
            return true;
    return false;
}

bool window_others_are_due(const void *source, const void *up_to_date) {
    WINDOWS_SCOPE;
    return renews_others(source, window_onto(up_to_date), NULL);
}

void window_renew_others(const void *source, const void *up_to_date) {
    WINDOWS_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE; /* a transform would bring our calls back to user level */
    OPAQUE_SCOPE;
    renew_others(source, window_onto(up_to_date), NULL);
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

/* The source's storage, where it was written through a view. */
static void *storage_of(const struct written *written, const struct window *through) {
    return through ? tensor_own_storage(through->source) : written->storage;
}

/* Takes the thread's turn where copies of its own will be gathered anew. */
static bool take_turn(const struct written *written) {
    bool is_due;
    {
        WINDOWS_SCOPE;
        OPAQUE_SCOPE;
        const struct window *through = window_onto(written->storage);
        is_due = !(through && through->is_left) && renews_others(storage_of(written, through), through, written);
    }
    if (is_due)
        shim_comm_lock();
    return is_due;
}

/* What was written in the end: of the source, where it was written through a view. */
static struct written carry_over(const struct written *written) {
    TURN_SCOPE(turn, shim_has_threads() && take_turn(written));
    WINDOWS_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE; /* a transform would bring our calls back to user level */
    OPAQUE_SCOPE;
    struct window *through = window_onto(written->storage);
    struct written in_the_end = *written;
    if (through && through->is_left)
        return in_the_end;
    in_the_end.storage = storage_of(written, through);
    if (through) {
        window_take_back(through, written);
        if (!shim_has_threads() || !window_told_of_part(through, &written->extent, &in_the_end.told))
            in_the_end.told.dims = -1;
    }
    renew_others(in_the_end.storage, through, written);
    return in_the_end;
}

void window_written(struct tensor *tensor) {
    struct written written = window_region(tensor);
    read_after_write(&written);
    window_after_write(&written);
}

void window_after_write(const struct written *written) {
    struct written in_the_end = carry_over(written);
    bool is_through = in_the_end.storage != written->storage;
    if (is_through)
        read_after_write(&in_the_end);
    if (!is_through || !shim_has_threads()) /* else a part of a copy may be as it was, where another thread's pointer writes */
        read_after_renewal(in_the_end.storage);
}

__attribute__((constructor)) static void window_start(void) {
    threads_renew_in_child(&windows_mutex);
}
