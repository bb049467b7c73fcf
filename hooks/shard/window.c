/*
 * Views of rows. h[3], h[2:5] and the like of a divided tensor are views of a gathered copy. In one process they share memory with h, so they do here: what an
 * operator writes through such a view goes back to the rows that each rank has, and after a write to h the copies that are still looked at are made anew. A
 * window is the pair of both; it closes when nobody has a view of the copy any more. Every rank does the same, so all collectives match. Views of a sum are
 * parts of it but for those as another type, whose bits no sum of parts has: for them the copy is the sum.
 *
 * Threads of the program may each write other rows at one time: each has windows of its own (whose there are others of is another on each rank), and what one
 * writes is carried to the others' copies element by element: the rest of these may just be written. A copy may have been gathered before such a write reached
 * this rank's rows: so it takes them anew when it becomes a window.
 */
#include <pthread.h>
#include <stdlib.h>

#include "window.h"

struct window {
    struct list_node all, of_whole, of_source, of_memory;
    const void *memory, *own; /* storages of the source and of the copy, as they are listed */
    struct tensor *source;    /* owned: the divided tensor, or the sum, that was gathered */
    struct record record;
    struct tensor *whole; /* owned: the copy */
    uint64_t thread;      /* whose it is */
    uint64_t backwards;   /* that the thread had run when it was opened: they free what its history needs */
    int idle;             /* calls since a view of the copy was last asked for */
    bool is_kept;         /* a pointer into the copy was given away */
    bool is_left;         /* the source has other memory now (x.data = y): what is written to one does not reach the other */
    bool is_of_many;      /* the source is one of several views of one operator: once their base is written autograd refuses to use them */
    bool is_spent;        /* and it has been written: the copy has its values, without their history */
};

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

void window_open(struct tensor *source, const struct record *record, struct tensor *whole) {
    WINDOWS_SCOPE;
    LIST_EACH (const struct window, window, list_of(&of_wholes, tensor_storage(whole)), of_whole)
        if (window->whole == whole)
            return;
    if (shim_has_threads() && record->kind == RECORD_SHARD && !tensor_requires_grad(whole))
        window_take_rows(source, record, whole);
    struct window *window = malloc(sizeof *window);
    *window = (struct window){.source = source, .record = *record, .whole = whole, .is_of_many = window_is_of_many(source)};
    window->memory = tensor_storage(source);
    window->own = tensor_storage(whole);
    window->thread = threads_own();
    window->backwards = report_backwards();
    tensor_retain(source);
    tensor_retain(whole);
    list_kept_add(&windows, &window->all);
    list_put(&of_wholes, window->own, &window->of_whole);
    list_put(&of_sources, source, &window->of_source);
    list_put(&of_memories, window->memory, &window->of_memory);
    atomic_fetch_add(&window_count, 1);
}

struct tensor *window_stand_in(struct tensor *source) {
    struct record record = record_get(source);
    struct tensor *whole = dispatch_client.whole(source);
    window_open(source, &record, whole);
    mark_gathered(whole, true);
    return whole;
}

/* The window has a tensor of its own of that memory: one that Python has seen and we hold stays Python's for good (2.13), and the window open. */
void window_stand_for(struct tensor *source, struct tensor *whole) {
    struct record record = record_get(source);
    {
        OPAQUE_SCOPE;
        struct value own = TORCH_CALL("aten::detach", "", value_tensor(whole));
        record_clear(own.tensor);
        window_open(source, &record, own.tensor);
        value_drop(own);
    }
    mark_gathered(whole, true);
}

/* Only we have the copy, and its memory: with a view goes what it is one of. */
static bool is_closed(const struct window *window) {
    uint32_t own = window_is_expanded(window->whole) ? 2 : 1;
    return tensor_owners(window->whole) == 1 && storage_owners(tensor_storage(window->whole)) == own;
}

/* `const float *row = h[i].data_ptr<float>()`: the view is gone, h is not. */
static bool may_be_pointed_to(const struct window *window) {
    return window->is_kept && tensor_owners(window->source) > list_length(list_of(&of_sources, window->source));
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
    tensor_release(window->whole);
    tensor_release(window->source);
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

struct tensor *window_whole(struct tensor *source) {
    if (!atomic_load_explicit(&window_count, memory_order_relaxed))
        return NULL;
    WINDOWS_SCOPE;
    LIST_EACH (struct window, window, list_of(&of_memories, tensor_storage(source)), of_memory)
        if ((window->source == source || window_is_twin(window->source, &window->record, source)) && is_there(window) &&
            tensor_requires_grad(window->whole) == tensor_is_recorded(source) && window->thread == threads_own() &&
            (!tensor_requires_grad(window->whole) || window->backwards == report_backwards())) {
            window->idle = 0;
            tensor_retain(window->whole);
            return window->whole;
        }
    return NULL;
}

/* Another tensor may have the memory, too (x = h.detach()): what is written to one still reaches the other. */
static void leave(struct window *window, bool is_done) {
    struct tensor *source = window->source;
    window->is_left |= is_done;
    atomic_fetch_add(&changes, is_done);
    if (is_done || tensor_is_recorded(source) || record_get(source).kind != window->record.kind)
        return;
    OPAQUE_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    list_take_out(&of_sources, source, &window->of_source);
    window->source = TORCH_CALL("aten::detach", "", value_tensor(source)).tensor;
    list_put(&of_sources, window->source, &window->of_source);
    record_set(window->source, window->record);
    tensor_release(source);
}

void window_replaced(struct tensor *source, bool is_done) {
    if (!atomic_load_explicit(&window_count, memory_order_relaxed) ||
        dispatch_is_opaque()) /* a tensor of ours, perhaps with the list in hand */
        return;
    WINDOWS_SCOPE;
    LIST_EACH_LEAVING (struct window, window, list_of(&of_sources, source), of_source)
        leave(window, is_done);
}

static struct window *window_onto(const void *storage) {
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

unsigned window_changes(void) {
    return atomic_load(&changes);
}

void window_keep(const void *storage) {
    WINDOWS_SCOPE;
    struct window *window = window_onto(storage);
    if (window)
        window->is_kept = true;
}

bool window_is_kept(const void *storage) {
    WINDOWS_SCOPE;
    const struct window *window = window_onto(storage);
    return window && may_be_pointed_to(window);
}

static bool has_history_of(const struct window *window) {
    return grad_mode_is_enabled() && (tensor_requires_grad(window->whole) || tensor_is_recorded(window->source));
}

/* Does each element of one copy stand for what the one at the same place in the other stands for? Their sources may be different columns. */
static bool have_same_place(const struct window *one, const struct window *other) {
    return window_are_one(one->whole, other->whole) && window_are_one(one->source, other->source) && !tensor_is_lazy(one->source) &&
           !tensor_is_lazy(other->source) && one->record.kind == other->record.kind;
}

/* As libtorch refuses the source, and views of it: all but their values. */
static void check_unspent(const struct shard_call *call, const struct argument *argument) {
    struct tensor *tensor = argument_tensor(argument);
    bool is_of_values = !strcmp(call->op->short_name, "detach") || !strcmp(call->op->short_name, "_local_scalar_dense");
    bool has_history = argument->record.kind == RECORD_GATHERED && !is_of_values && grad_mode_is_enabled() && tensor_requires_grad(tensor);
    const struct window *window = has_history ? window_onto(tensor_storage(tensor)) : NULL;
    if (window && window->is_spent)
        shim_throw("autograd",
                   "This is a view and its base or another view of its base has been modified inplace. It is a view of the output of a "
                   "function that returns multiple views (split, chunk, unbind). Such functions do not allow the output views to be "
                   "modified inplace. You should replace the inplace operation by an out-of-place one.");
}

static bool writes_through_view(const struct shard_call *call, const struct argument *argument) {
    return argument->record.kind == RECORD_GATHERED && argument->record.is_view_of_gathered && call_writes(call, argument);
}

static struct value part_of(struct tensor *whole, const struct written *written) {
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(whole));
    struct value part = TORCH_CALL("aten::as_strided", "", plain, value_int_list(written->sizes, (size_t)written->dims),
                                   value_int_list(written->strides, (size_t)written->dims), value_int(written->offset));
    value_drop(plain);
    return part;
}

/* What is read through a view of another copy of what is written is read from that one: they may have elements in common, in whose order libtorch writes
   (h[:, 0][1:] += h[:, 0][:-1]), or which it refuses. */
static void read_from_written(const struct shard_call *call, struct argument *argument) {
    struct tensor *read = argument_tensor(argument);
    for (int i = 0; i < call->argument_count; i++) {
        if (&call->arguments[i] == argument || !writes_through_view(call, &call->arguments[i]))
            continue;
        const struct window *from = window_onto(tensor_storage(read)),
                            *to = window_onto(tensor_storage(argument_tensor(&call->arguments[i])));
        if (tensor_dims(read) <= TORCH_DIMS_MAX && from && to && from != to && !from->is_left && !to->is_left && !has_history_of(from) &&
            !has_history_of(to) && tensor_storage(from->source) == tensor_storage(to->source) &&
            tensor_dtype(from->whole) == tensor_dtype(to->whole) && have_same_place(from, to)) {
            struct written region = window_region(read);
            struct value part = part_of(to->whole, &region);
            mark_gathered(part.tensor, true);
            value_replace(argument->slot, part);
            return;
        }
    }
}

bool window_before_call(struct shard_call *call) {
    bool through_view = false, is_written = false;
    for (int i = 0; i < call->argument_count && call->gathered; i++)
        through_view |= writes_through_view(call, &call->arguments[i]);
    if (!through_view && !atomic_load_explicit(&window_count, memory_order_relaxed))
        return false;
    WINDOWS_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE; /* a transform would bring our calls back to user level */
    OPAQUE_SCOPE;
    list_kept_visit(&windows, sweep_idle);
    for (int i = 0; i < call->argument_count && call->gathered; i++)
        check_unspent(call, &call->arguments[i]);
    for (int i = 0; i < call->argument_count && through_view; i++)
        if (writes_through_view(call, &call->arguments[i]) && !window_onto(tensor_storage(argument_tensor(&call->arguments[i]))))
            refuse_write(call, "it is a view of a divided tensor whose rows have been gathered");
    for (int i = 0; i < call->argument_count && through_view; i++)
        if (call->arguments[i].record.kind == RECORD_GATHERED && !call_writes(call, &call->arguments[i]))
            read_from_written(call, &call->arguments[i]);
    for (int i = 0; i < call->argument_count; i++)
        is_written |= call_writes(call, &call->arguments[i]);
    return windows.first && is_written;
}

/* h.t_() and the like turn the rows of a tensor around while its views stay as they are. */
static void check_unturned(const struct window *window) {
    struct record now = record_get(window->source);
    bool is_rows = window->record.kind == RECORD_SHARD;
    if (now.kind != window->record.kind || (is_rows && (now.dim != window->record.dim || !record_same_rows(&now, &window->record))) ||
        tensor_dims(window->source) != tensor_dims(window->whole))
        shim_problem("AR-WRITE", "Make a new tensor (h = h.t() instead of h.t_()), or take the view anew (h[3] again).",
                     "a divided tensor has changed its shape in place while a view of some of its rows is still in use");
}

/* Each rank takes its part of what was written to the copy; the history of the part is then that of the copy. */
static void write_back(struct window *window) {
    check_unturned(window);
    struct value part = own_part(window->whole, &window->record);
    layout_copy(value_tensor(window->source), part);
    value_drop(part);
    record_set(window->source, window->record);
}

/* With its history, or the values alone. Owned. */
static struct value seen(struct tensor *tensor, bool has_history) {
    if (!has_history)
        return TORCH_CALL("aten::detach", "", value_tensor(tensor));
    tensor_retain(tensor);
    return value_tensor(tensor);
}

/* Does what was written to one copy lie at the same place in the other? */
static bool is_at_same_place(const struct window *window, const struct window *through, const struct written *written) {
    return written->dims >= 0 && tensor_dtype(window->whole) == tensor_dtype(through->whole) &&
           written->dtype == tensor_dtype(window->whole) && have_same_place(window, through);
}

/* From copy to copy: all ranks have the same. */
static void carry(const struct window *window, const struct window *through, const struct written *written) {
    check_unturned(window);
    struct value to = part_of(window->whole, written), from = part_of(through->whole, written);
    value_drop(TORCH_CALL("aten::copy_", "", to, from, value_bool(false)));
    value_drop(to);
    value_drop(from);
}

/* The copy's values anew, and its history, which that of its views follows: autograd knows them as views of the copy. A collective. */
static void renew(struct window *window) {
    check_unturned(window);
    bool has_history = has_history_of(window) && !window->is_of_many;
    window->is_spent |= has_history_of(window) && window->is_of_many;
    struct record mark = record_get(window->whole);
    struct value source = seen(window->source, has_history), whole = seen(window->whole, has_history);
    struct value fresh =
        value_tensor(window->record.kind == RECORD_SHARD ? gather_shard("view of rows after a write", source.tensor, &window->record)
                                                         : gather_partial("view of a sum after a write", source.tensor));
    layout_copy(whole, fresh);
    if (mark.kind == RECORD_NONE)
        record_clear(window->whole);
    else
        record_set(window->whole, mark);
    value_drop(source);
    value_drop(fresh);
    value_drop(whole);
}

/* written: through the window that is up to date; NULL: all of it, in some other way. */
static void renew_others(const void *source, const struct window *up_to_date, const struct written *written) {
    sweep_of(source, up_to_date);
    LIST_EACH (struct window, window, list_of(&of_memories, source), of_memory) {
        if (window == up_to_date || window->is_left || tensor_storage(window->source) != source)
            continue;
        if (up_to_date && written && !has_history_of(window) && is_at_same_place(window, up_to_date, written))
            carry(window, up_to_date, written);
        else
            renew(window);
    }
}

void window_renew_others(const void *source, const void *up_to_date) {
    WINDOWS_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE; /* a transform would bring our calls back to user level */
    OPAQUE_SCOPE;
    renew_others(source, window_onto(up_to_date), NULL);
}

static void list_anew(struct pairs *lists, const void **key, const void *storage, struct list_node *node) {
    if (*key == storage)
        return;
    list_take_out(lists, *key, node);
    list_put(lists, *key = storage, node);
    atomic_fetch_add(&changes, 1);
}

/* The operator has given what it has written another storage (d.set_(x)). */
static void follow(const struct written *written) {
    LIST_EACH (struct window, window, list_of(&of_sources, written->tensor), of_source)
        list_anew(&of_memories, &window->memory, tensor_storage(window->source), &window->of_memory);
    LIST_EACH_LEAVING (struct window, window, list_of(&of_wholes, written->storage), of_whole)
        list_anew(&of_wholes, &window->own, tensor_storage(window->whole), &window->of_whole);
}

/* The storage that was written in the end: the source's, where it was written through a view. */
static void *carry_over(const struct written *written) {
    WINDOWS_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE; /* a transform would bring our calls back to user level */
    OPAQUE_SCOPE;
    follow(written);
    struct window *through = window_onto(written->storage);
    if (through && through->is_left)
        return written->storage;
    if (through)
        write_back(through);
    void *source = through ? tensor_storage(through->source) : written->storage;
    renew_others(source, through, written);
    return source;
}

void window_written(struct tensor *tensor) {
    struct written written = window_region(tensor);
    read_after_write(written.storage);
    window_after_write(&written);
}

void window_after_write(const struct written *written) {
    void *source = carry_over(written);
    if (source != written->storage)
        read_after_write(source);
}
