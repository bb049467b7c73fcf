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
#include <pthread.h>
#include <stdlib.h>

#include "shard.h"

struct copy {
    struct copy *next;
    struct tensor *alias; /* owned: the divided memory as this rank has it, unmarked */
    struct tensor *whole; /* owned: what the program sees; the alias itself: watched only */
    struct record record;
    uint64_t checksum; /* of whole, when last equal to what the ranks have */
    bool is_changed;
    bool is_of_storage; /* all blocks of rows that a storage consists of (storage.c) */
};

static struct copy *copies;
static _Atomic int copy_count;
static pthread_mutex_t copies_mutex = PTHREAD_MUTEX_INITIALIZER;

static void copies_unlock(int *unused) {
    pthread_mutex_unlock(&copies_mutex);
}
#define COPIES_SCOPE __attribute__((cleanup(copies_unlock), unused)) int copies_scope_ = (python_lock(&copies_mutex), 0)

/* ---- copies */

static bool same_strides(struct tensor *tensor, const int64_t *strides) {
    struct sizes own = tensor_strides(tensor), sizes = tensor_sizes(tensor);
    for (size_t i = 0; i < own.count; i++)
        if (sizes.data[i] > 1 && own.data[i] != strides[i])
            return false;
    return true;
}

/* The whole value in the very layout that the program is told (an expanded dimension stays expanded). Owned. */
static struct tensor *whole_as_seen(struct tensor *alias, struct record *record) {
    OPAQUE_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    int64_t sizes[TORCH_DIMS_MAX], strides[TORCH_DIMS_MAX], stored[TORCH_DIMS_MAX];
    int dims = layout_told(alias, record, sizes, strides);
    struct value whole = value_tensor(record->kind == RECORD_SHARD ? gather_shard("memory read by the program", alias, record)
                                                                   : gather_partial("memory read by the program", alias));
    if (same_strides(whole.tensor, strides))
        return whole.tensor;
    for (int i = 0; i < dims; i++) {
        stored[i] = strides[i] ? sizes[i] : 1;
        if (stored[i] != sizes[i])
            slot_replace(&whole, TORCH_CALL("aten::narrow", "", whole, value_int(i), value_int(0), value_int(1)));
    }
    struct value base = TORCH_CALL("aten::new_empty_strided", "", whole, value_int_list(stored, (size_t)dims),
                                   value_int_list(strides, (size_t)dims), value_none(), value_none(), value_none(), value_none());
    value_drop(TORCH_CALL("aten::copy_", "", base, whole, value_bool(false)));
    value_drop(whole);
    struct value seen = TORCH_CALL("aten::expand", "", base, value_int_list(sizes, (size_t)dims), value_bool(false));
    value_drop(base);
    return seen.tensor;
}

static struct tensor *alias_of(struct tensor *tensor) {
    OPAQUE_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    struct tensor *alias = TORCH_CALL("aten::detach", "", value_tensor(tensor)).tensor;
    record_clear(alias);
    return alias;
}

static bool is_watched(const struct copy *copy) {
    return copy->whole == copy->alias;
}

static struct copy *copy_make(struct tensor *tensor, struct record record) {
    struct copy *copy = malloc(sizeof *copy);
    *copy = (struct copy){.next = copies, .alias = alias_of(tensor), .record = record};
    copy->whole = record.kind == RECORD_GATHERED ? copy->alias : whole_as_seen(copy->alias, &copy->record);
    copy->checksum = extent_checksum(copy->whole);
    copies = copy;
    atomic_fetch_add(&copy_count, 1);
    return copy;
}

static bool same_shape(struct tensor *one, struct tensor *other) {
    return tensor_data(one) == tensor_data(other) && tensor_same_layout(one, other);
}

typedef bool copy_fits(const struct copy *copy, struct tensor *tensor, const struct record *record);

/* Of this tensor, in this shape. */
static bool is_same(const struct copy *copy, struct tensor *tensor, const struct record *record) {
    return copy->record.kind == record->kind && copy->record.dim == record->dim &&
           (record->kind != RECORD_SHARD || record_same_rows(&copy->record, record)) && same_shape(copy->alias, tensor);
}

/* Of all of the storage that the tensor lies in. */
static bool is_of_its_storage(const struct copy *copy, struct tensor *tensor, const struct record *record) {
    struct layout_block block;
    if (!copy->is_of_storage || copy->record.kind != record->kind || tensor_dtype(copy->alias) != tensor_dtype(tensor))
        return false;
    return record->kind == RECORD_PARTIAL || (layout_block(tensor, record, &block) && record_same_rows(&copy->record, record) &&
                                              tensor_strides(copy->alias).data[1] == block.row);
}

/* The copy of this memory that fits; *others: the same memory has copies that do not. */
static struct copy *copy_find(struct tensor *tensor, const struct record *record, copy_fits *fits, bool *others) {
    struct copy *found = NULL;
    *others = false;
    for (struct copy *copy = copies; copy; copy = copy->next) {
        if (tensor_storage(copy->alias) != tensor_storage(tensor))
            continue;
        if (fits(copy, tensor, record))
            found = copy;
        else
            *others = true;
    }
    return found;
}

/* Makes the copy anew at its address. A collective. */
static void copy_renew(struct copy *copy) {
    if (is_watched(copy)) { /* an operator has written it */
        copy->checksum = extent_checksum(copy->whole);
        return;
    }
    struct tensor *fresh = whole_as_seen(copy->alias, &copy->record);
    memcpy(tensor_data(copy->whole), tensor_data(fresh), extent_bytes(copy->whole));
    tensor_release(fresh);
    copy->checksum = extent_checksum(copy->whole);
}

static bool is_written(const struct copy *copy) {
    return extent_checksum(copy->whole) != copy->checksum;
}

/* What a copy shows in the end: the memory of a divided tensor, of which a watched one is a view. */
static const void *source_of(const struct copy *copy) {
    struct tensor *source, *whole;
    struct record record;
    bool is_view = is_watched(copy) && window_find(tensor_storage(copy->alias), &source, &record, &whole);
    return tensor_storage(is_view ? source : copy->alias);
}

static void refuse_two_written(void) {
    shim_problem("AR-WRITE-MEMORY", "Write through one of them only between two operators, or run with -n 1.",
                 "the program wrote to one divided tensor through pointers of two views of it");
}

/* The program has written through a pointer into a view of rows (h[1].data_ptr()): what the view is of gets it (window.c). */
static void take_through_window(const struct copy *copy) {
    struct copy through = {.whole = NULL};
    const void *storage = tensor_storage(copy->alias);
    if (!window_find(storage, &through.alias, &through.record, &through.whole))
        shim_problem("AR-WRITE-MEMORY",
                     "Write with an operator (out.index_put_, out[i].copy_ and the like on the tensor itself), or run with -n 1.",
                     "the program wrote through a pointer into a part of a divided tensor that was put together only to be read");
    const void *source = tensor_storage(through.alias);
    for (const struct copy *other = copies; other; other = other->next)
        if (source_of(other) == source && tensor_storage(other->alias) != storage && is_written(other))
            refuse_two_written();
    extent_write_back(through.alias, through.whole, &through.record);
    for (struct copy *other = copies; other; other = other->next)
        if (tensor_storage(other->alias) == source)
            copy_renew(other);
    window_renew_others(source, storage);
}

/* Looks whether the program has written, and takes it back. */
static void copy_take(struct copy *copy) {
    copy->is_changed = is_written(copy);
    if (!copy->is_changed)
        return;
    copy->checksum = extent_checksum(copy->whole);
    if (is_watched(copy))
        take_through_window(copy);
    else
        extent_write_back(copy->alias, copy->whole, &copy->record);
}

/* Takes back what was written to copies of one storage and brings its other copies up to date. */
static void storage_settle(const void *storage) {
    int changed = 0;
    for (struct copy *copy = copies; copy; copy = copy->next) {
        if (tensor_storage(copy->alias) != storage)
            continue;
        copy_take(copy);
        changed += copy->is_changed;
    }
    if (changed > 1)
        refuse_two_written();
    for (struct copy *copy = copies; changed && copy; copy = copy->next)
        if (tensor_storage(copy->alias) == storage && !copy->is_changed)
            copy_renew(copy);
    if (changed)
        window_renew_others(storage, NULL);
}

static void take_watched(void) {
    for (struct copy *copy = copies; copy; copy = copy->next)
        if (is_watched(copy))
            copy_take(copy);
}

/* The same for a tensor's memory, and for that of which it is a view (h[3] of h). */
static void tensor_settle(struct tensor *tensor) {
    struct tensor *source, *whole;
    struct record record;
    if (window_find(tensor_storage(tensor), &source, &record, &whole))
        storage_settle(tensor_storage(source));
    storage_settle(tensor_storage(tensor));
}

static bool is_last_owner(const struct copy *copy) {
    struct tensor *source, *whole;
    struct record record;
    uint32_t others = is_watched(copy) && window_find(tensor_storage(copy->alias), &source, &record, &whole);
    return tensor_owners(tensor_storage(copy->alias)) == 1 + others;
}

/* Copies of memory that nobody but us has go. */
static void copies_sweep(void) {
    for (struct copy **link = &copies; *link;) {
        struct copy *copy = *link;
        if (!is_last_owner(copy)) {
            link = &copy->next;
            continue;
        }
        if (is_watched(copy))
            copy_take(copy);
        else
            tensor_release(copy->whole);
        tensor_release(copy->alias);
        *link = copy->next;
        free(copy);
        atomic_fetch_sub(&copy_count, 1);
    }
}

/* ---- turns */

/* Who waits for a collective must not have the list: the thread whose turn it is may need it on its way there. So the turn is taken first, where a collective
   is certain: a copy is made, or made anew. (What the program has written through pointers while other threads compute may still be waited for with it.) */
static bool turn_take(bool (*is_needed)(struct tensor *tensor, const void *context), struct tensor *tensor, const void *context) {
    if (!shim_has_threads())
        return false;
    {
        COPIES_SCOPE;
        OPAQUE_SCOPE;
        if (!is_needed(tensor, context))
            return false;
    }
    shim_comm_lock();
    return true;
}

static void turn_end(const bool *is_taken) {
    if (*is_taken)
        shim_comm_unlock(NULL);
}
#define TURN_SCOPE(...) __attribute__((cleanup(turn_end), unused)) bool turn_scope_ = turn_take(__VA_ARGS__)

static bool has_copies(struct tensor *unused, const void *storage) {
    for (const struct copy *copy = copies; copy; copy = copy->next)
        if (!is_watched(copy) && tensor_storage(copy->alias) == storage)
            return true;
    return false;
}

static bool is_to_be_made(struct tensor *tensor, const void *record) {
    bool others;
    return ((const struct record *)record)->kind != RECORD_GATHERED && !copy_find(tensor, record, is_same, &others);
}

/* ---- what the rest of hooks/shard calls */

bool read_before_call(const struct shard_call *call) {
    if (!atomic_load_explicit(&copy_count, memory_order_relaxed))
        return false;
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    copies_sweep();
    take_watched();
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].record.kind != RECORD_NONE)
            tensor_settle(argument_tensor(&call->arguments[i]));
    return true;
}

void read_after_write(void *storage) {
    TURN_SCOPE(has_copies, NULL, storage);
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    for (struct copy *copy = copies; copy; copy = copy->next)
        if (tensor_storage(copy->alias) == storage)
            copy_renew(copy);
}

void read_settle(void) {
    if (!atomic_load_explicit(&copy_count, memory_order_relaxed))
        return;
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    copies_sweep();
    take_watched();
    for (struct copy *copy = copies; copy; copy = copy->next)
        storage_settle(tensor_storage(copy->alias));
}

/* ---- hooks */

struct tensor *read_stand_in_of_storage(struct tensor *divided) {
    struct tensor *whole = read_stand_in(divided);
    COPIES_SCOPE;
    for (struct copy *copy = copies; copy; copy = copy->next)
        copy->is_of_storage |= copy->whole == whole;
    return whole;
}

struct tensor *read_stand_in_at_hand(struct tensor *tensor, const struct record *record, bool from_its_beginning) {
    if (!atomic_load_explicit(&copy_count, memory_order_relaxed))
        return NULL;
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    if (from_its_beginning && tensor_storage_offset(tensor))
        return NULL;
    bool others;
    take_watched();
    struct copy *found = copy_find(tensor, record, is_of_its_storage, &others);
    if (found && others)
        tensor_settle(tensor);
    return found ? found->whole : NULL;
}

struct tensor *read_copy_at_hand(struct tensor *tensor, const struct record *record) {
    bool others;
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    struct copy *copy = copy_find(tensor, record, is_same, &others);
    return copy ? copy->whole : NULL;
}

/* A lock that was held elsewhere at a fork is nobody's in the child. */
static void after_fork_in_child(void) {
    pthread_mutex_init(&copies_mutex, NULL);
}

__attribute__((constructor)) static void read_start(void) {
    if (shim_job_secret())
        pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* The tensor whose memory the program gets instead; NULL: its own. Borrowed. */
struct tensor *read_stand_in(struct tensor *tensor) {
    bool is_here = shim_active() || shim_is_worker();
    if (!is_here || !tensor_is_marked(tensor) || dispatch_is_opaque() || regions_is_helper())
        return NULL;
    struct record record = record_get(tensor);
    if (record.kind == RECORD_NONE || (record.kind == RECORD_GATHERED && !record.is_view_of_gathered) || !tensor_has_memory(tensor))
        return NULL;
    if (shim_is_worker())
        return record.kind == RECORD_GATHERED ? NULL : children_whole(tensor, &record);
    if (!tensor_is_on_host(tensor))
        shim_problem(
            "AR-DEVICE", "Take it to the CPU first (x.cpu()), or run with -n 1.",
            "the program takes a pointer to, or the storage of, a tensor on an accelerator whose rows are divided among the ranks");
    TURN_SCOPE(is_to_be_made, tensor, &record);
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    bool others;
    take_watched();
    struct copy *copy = copy_find(tensor, &record, is_same, &others);
    if (others || record.kind == RECORD_GATHERED)
        tensor_settle(tensor);
    if (!copy) {
        explain_note("read", "memory of a divided tensor", "put together from all ranks");
        copy = copy_make(tensor, record);
    }
    return copy->whole;
}
