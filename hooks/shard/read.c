/*
 * Where a program looks at memory. It asked for the whole batch, so it gets the whole batch: a copy, put together from all ranks, that
 * stands in for the divided tensor's memory.
 *
 * Rules
 *  - The copy lives as long as the divided memory (whose last owner it otherwise is), at one address: pointers, accessors and numpy
 *    arrays stay good.
 *  - A program may write through them. Before an operator touches the memory, the copy's checksum is compared; where it has changed,
 *    each rank takes its rows back. After an operator has written, the copy is made anew in place. So both ways round the two are one
 *    memory, as in one process.
 *  - All ranks run the same program on equal copies, so they find the same changes: only making and renewing a copy are collectives.
 *  - A view of gathered rows is memory of its own: it is watched, and a write to it goes back to the rows as one by an operator does
 *    (window.c); into another gathered value it stops the program instead of being lost.
 *  - Writes are raw, as the program's were: no version counter moves.
 */
#include <stdlib.h>

#include "copies.h"
#include "window.h"

static _Atomic int copy_count;

/* ---- copies */

/* Of what lies there: whoever looks conjugates or negates by himself. */
static struct tensor *alias_of(struct tensor *tensor) {
    OPAQUE_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(tensor)), alias = layout_read_as(plain.tensor, 0);
    value_drop(plain);
    record_clear(alias.tensor);
    return alias.tensor;
}

static struct copy *copy_make(struct tensor *tensor, struct record record, enum copy_extent extent) {
    struct copy *copy = malloc(sizeof *copy);
    *copy = (struct copy){.alias = alias_of(tensor), .record = record, .extent = extent};
    copy->whole = record.kind == RECORD_GATHERED ? copy->alias : gather_as_seen(copy->alias, &copy->record);
    copies_add(copy);
    atomic_fetch_add(&copy_count, 1);
    return copy;
}

static void copy_end(struct copy *copy) {
    copies_remove(copy);
    if (!copy_is_watched(copy))
        tensor_release(copy->whole);
    tensor_release(copy->alias);
    free(copy);
    atomic_fetch_sub(&copy_count, 1);
}

/* Copies of divided memory that nobody but us has go before anything is made anew: who takes the turn for that (read_turn.c) does not count them. */
static void end_if_unowned(struct copy *copy) {
    if (!copy_is_watched(copy) && copies_is_unowned(copy))
        copy_end(copy);
}

static void end_unowned(const struct family *family) {
    LIST_EACH_LEAVING (struct copy, copy, family ? family->copies : NULL, of_family)
        end_if_unowned(copy);
}

/* Makes the copy anew at its address. A collective. */
static void copy_renew(struct copy *copy) {
    if (!copy_is_watched(copy)) { /* else an operator has written it */
        struct tensor *fresh = gather_as_seen(copy->alias, &copy->record);
        char *memory = copies_memory(copy);
        if (memory)
            memcpy(memory, tensor_data(fresh), copies_bytes(copy));
        tensor_release(fresh);
    }
    copies_note_equal(copy);
}

static void renew_all_of(const struct place *place) {
    LIST_EACH (struct copy, copy, place ? place->copies : NULL, of_place)
        copy_renew(copy);
}

static void refuse_two_written(void) {
    shim_problem("AR-WRITE-MEMORY", "Write through one of them only between two operators, or run with -n 1.",
                 "the program wrote to one divided tensor through pointers of two views of it");
}

/* Copies of what is a view of the storage have been made anew, but for the one that is up to date: what the program sees of them is what the ranks have. */
static void note_renewed(const void *source, const void *up_to_date) {
    const struct family *family = copies_family(source);
    LIST_EACH (struct copy, copy, family && family->watched ? family->copies : NULL, of_family)
        if (copy_is_watched(copy) && !copy->is_lost && copy->place->storage != up_to_date)
            copies_note_equal(copy);
}

static void renew_windows(const void *source, const void *up_to_date) {
    window_renew_others(source, up_to_date);
    note_renewed(source, up_to_date);
}

/* The program has written through a pointer into a view of rows (h[1].data_ptr()): what the view is of gets it (window.c). */
static void take_through_window(const struct copy *copy) {
    struct copy through = {.whole = NULL};
    const void *storage = tensor_storage(copy->alias);
    if (!window_find(storage, &through.alias, &through.record, &through.whole))
        shim_problem("AR-WRITE-MEMORY",
                     "Write with an operator (out.index_put_, out[i].copy_ and the like on the tensor itself), or run with -n 1.",
                     "the program wrote through a pointer into a part of a divided tensor that was put together only to be read");
    LIST_EACH (struct copy, other, copy->family->copies, of_family)
        if (other->place != copy->place && copies_is_written(other))
            refuse_two_written();
    if (!window_take_known(storage))
        extent_write_back(through.alias, through.whole, &through.record);
    const void *source = copy->family->source;
    renew_all_of(copies_place(source));
    renew_windows(source, storage);
}

/* Looks whether the program has written, and takes it back. */
static void copy_take(struct copy *copy) {
    copy->is_changed = copies_is_written(copy);
    if (!copy->is_changed)
        return;
    copies_note_equal(copy);
    if (copy_is_watched(copy))
        take_through_window(copy);
    else
        extent_write_back(copy->alias, copy->whole, &copy->record);
}

/* Takes back what was written to copies of one storage and brings its other copies up to date. */
static void place_settle(const struct place *place) {
    int changed = 0;
    LIST_EACH (struct copy, copy, place->copies, of_place) {
        copy_take(copy);
        changed += copy->is_changed;
    }
    if (changed > 1)
        refuse_two_written();
    if (!changed)
        return;
    LIST_EACH (struct copy, copy, place->copies, of_place)
        if (!copy->is_changed)
            copy_renew(copy);
    renew_windows(place->storage, NULL);
}

static void take_watched_of(const struct family *family) {
    LIST_EACH (struct copy, copy, family && family->watched ? family->copies : NULL, of_family)
        if (copy_is_watched(copy))
            copy_take(copy);
}

static void take_hasty(void) {
    copies_follow_windows();
    LIST_EACH (struct family, family, copies_hasty(), hasty) {
        end_unowned(family);
        take_watched_of(family);
    }
}

/* What was written to watched copies: those that are hasty, and those of the memory that a tensor is of. */
static void take_for(struct tensor *tensor) {
    const void *storage = tensor_own_storage(tensor), *source = window_memory_of(storage);
    take_hasty();
    end_unowned(source ? copies_family(source) : NULL);
    end_unowned(copies_family(storage));
    take_watched_of(source ? copies_family(source) : NULL);
    take_watched_of(copies_family(storage));
}

/* For a tensor's memory, and for that of which it is a view. False: there are no copies of either. */
static bool tensor_settle(struct tensor *tensor) {
    const void *storage = tensor_own_storage(tensor), *source = window_memory_of(storage);
    const struct family *families[] = {source ? copies_family(source) : NULL, copies_family(storage)};
    const struct place *places[] = {source ? copies_place(source) : NULL, copies_place(storage)};
    for (int i = 0; i < 2; i++)
        take_watched_of(families[i]);
    for (int i = 0; i < 2; i++)
        if (places[i])
            place_settle(places[i]);
    return families[0] || families[1] || places[1];
}

/* Beside other threads what was written through a pointer into a view, if others are to be made anew with it, waits until what it is a view of is met, which
   takes the thread's turn for it. */
static void copy_sweep(struct list_node *node, bool unused) {
    struct copy *copy = LIST_OWNER(node, struct copy, all);
    if (!copies_is_unowned(copy))
        return;
    bool is_written = copy_is_watched(copy) && copies_is_written(copy);
    if (is_written && shim_has_threads() && read_is_due_through(copy))
        return;
    if (is_written)
        copy_take(copy);
    copy_end(copy);
}

static void sweep_family(const struct family *family) {
    LIST_EACH_LEAVING (struct copy, copy, family ? family->copies : NULL, of_family)
        copy_sweep(&copy->all, true);
}

/* Of what an operator is about to read or write: whether a window is still open decides about collectives, so it must not hang on whose turn it was to be
   looked at, which beside other threads differs between the ranks. */
static void sweep_for(const struct shard_call *call) {
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    list_kept_visit(&copies, copy_sweep);
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].record.kind != RECORD_NONE) {
            const void *storage = tensor_own_storage(argument_tensor(&call->arguments[i])), *source = window_memory_of(storage);
            sweep_family(source ? copies_family(source) : NULL);
            sweep_family(copies_family(storage));
        }
}

/* Before anything is decided. */
static void sweep_some(void) {
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    list_kept_visit(&copies, copy_sweep);
}

/* ---- what the rest of hooks/shard calls */

bool read_before_call(const struct shard_call *call) {
    if (!atomic_load_explicit(&copy_count, memory_order_relaxed))
        return false;
    sweep_for(call);
    TURN_SCOPE(turn, read_turn_to_settle(call));
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    take_hasty();
    bool is_met = false;
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].record.kind != RECORD_NONE)
            is_met |= tensor_settle(argument_tensor(&call->arguments[i]));
    return is_met;
}

void read_after_write(const struct written *written) {
    if (!atomic_load_explicit(&copy_count, memory_order_relaxed))
        return;
    TURN_SCOPE(turn, read_turn_to_renew(written));
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    const struct place *place = copies_place(written->storage);
    LIST_EACH (struct copy, copy, place ? place->copies : NULL, of_place)
        if (copies_is_met(copy, written))
            copy_renew(copy);
}

void read_after_renewal(const void *source) {
    if (!atomic_load_explicit(&copy_count, memory_order_relaxed))
        return;
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    copies_follow_windows();
    note_renewed(source, NULL);
}

void read_settle(void) {
    if (!atomic_load_explicit(&copy_count, memory_order_relaxed))
        return;
    sweep_some();
    TURN_SCOPE(turn, read_turn_to_settle(NULL));
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    take_hasty();
    if (!copies_any_written())
        return;
    LIST_EACH_LEAVING (struct copy, copy, copies.first, all)
        end_if_unowned(copy);
    LIST_EACH (struct copy, copy, copies.first, all)
        if (copy_is_watched(copy))
            copy_take(copy);
    LIST_EACH (struct copy, copy, copies.first, all)
        if (copy->place->copies == &copy->of_place) /* once for each */
            place_settle(copy->place);
}

/* ---- hooks */

struct tensor *read_stand_in_at_hand(struct tensor *tensor, const struct record *record, copy_fits *fits) {
    if (!atomic_load_explicit(&copy_count, memory_order_relaxed))
        return NULL;
    TURN_SCOPE(turn, read_turn_to_look(tensor, record, fits));
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    bool others;
    take_for(tensor);
    struct copy *found = copies_find(tensor, record, fits, &others);
    if (copies_are_settled(others, record))
        tensor_settle(tensor);
    return found ? found->whole : NULL;
}

struct tensor *read_copy_at_hand(struct tensor *tensor, const struct record *record) {
    bool others;
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    struct copy *copy = copies_find(tensor, record, copies_is_same, &others);
    if (copy && shim_is_worker())
        children_unite(copy->place);
    return copy ? copy->whole : NULL;
}

struct value read_part_at_hand(struct tensor *tensor, const struct record *record) {
    bool others;
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    struct copy *copy = copies_find(tensor, record, copies_is_of_storage, &others);
    if (!copy)
        return value_none();
    children_unite(copy->place);
    return storage_part(copy->whole, tensor_storage_offset(copy->whole) + layout_told_offset(tensor, record), tensor, record);
}

bool read_is_by_program(struct tensor *tensor) {
    return (shim_active() || shim_is_worker()) && tensor_is_marked(tensor) && !dispatch_is_opaque() && !regions_is_helper();
}

struct tensor *read_stand_in_as(struct tensor *tensor, enum copy_extent extent) {
    if (!read_is_by_program(tensor))
        return NULL;
    struct record record = record_get(tensor);
    if (record.kind == RECORD_NONE || (record.kind == RECORD_GATHERED && !record.is_view_of_gathered) || !tensor_has_memory(tensor))
        return NULL;
    if (shim_is_worker()) {
        children_become(tensor, &record);
        return NULL;
    }
    if (!tensor_is_on_host(tensor))
        shim_problem(
            "AR-DEVICE", "Take it to the CPU first (x.cpu()), or run with -n 1.",
            "the program takes a pointer to, or the storage of, a tensor on an accelerator whose rows are divided among the ranks");
    if (record.kind == RECORD_GATHERED)
        window_refresh(tensor, NULL);
    TURN_SCOPE(turn_to_make, read_turn_to_make(tensor, &record));
    TURN_SCOPE(turn_to_look, read_turn_to_look(tensor, &record, copies_is_same));
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    bool others;
    take_for(tensor);
    struct copy *copy = copies_find(tensor, &record, copies_is_same, &others);
    if (copies_are_settled(others, &record))
        tensor_settle(tensor);
    if (record.kind == RECORD_GATHERED) /* Python's arrays keep the view; and what it has seen may stay its own for good (2.13) */
        window_keep(tensor_own_storage(tensor), !shim_has_python());
    if (!copy) {
        explain_note("read", "memory of a divided tensor", "put together from all ranks");
        copy = copy_make(tensor, record, extent);
    }
    if (copy->extent < extent) { /* who waits for its turn to make it does not see one of less */
        copy->extent = extent;
        atomic_fetch_add(&copies_made, 1);
    }
    return copy->whole;
}

struct tensor *read_stand_in(struct tensor *tensor) {
    return read_stand_in_as(tensor, COPY_OF_TENSOR);
}
