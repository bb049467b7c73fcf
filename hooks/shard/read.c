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
    uint32_t *siblings; /* how many copies there are of its storage, each of which owns it; owned by the last */
};

static struct copy *copies;
static _Atomic int copy_count;
static _Atomic unsigned copies_made; /* ever */
static pthread_mutex_t copies_mutex = PTHREAD_MUTEX_INITIALIZER;

static void copies_unlock(int *unused) {
    pthread_mutex_unlock(&copies_mutex);
}
#define COPIES_SCOPE __attribute__((cleanup(copies_unlock), unused)) int copies_scope_ = (python_lock(&copies_mutex), 0)

/* ---- copies */

/* Of what lies there: whoever looks conjugates or negates by himself. */
static struct tensor *alias_of(struct tensor *tensor) {
    OPAQUE_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    struct value alias = TORCH_CALL("aten::detach", "", value_tensor(tensor));
    if (*tensor_key_set(tensor) & torch_facts.bit_conjugate)
        value_replace(&alias, TORCH_CALL("aten::_conj", "", alias));
    if (*tensor_key_set(tensor) & torch_facts.bit_negative)
        value_replace(&alias, TORCH_CALL("aten::_neg_view", "", alias));
    record_clear(alias.tensor);
    return alias.tensor;
}

static bool is_watched(const struct copy *copy) {
    return copy->whole == copy->alias;
}

static uint32_t *siblings_of(const void *storage) {
    for (const struct copy *copy = copies; copy; copy = copy->next)
        if (tensor_storage(copy->alias) == storage)
            return copy->siblings;
    return calloc(1, sizeof(uint32_t));
}

static struct copy *copy_make(struct tensor *tensor, struct record record) {
    struct copy *copy = malloc(sizeof *copy);
    *copy = (struct copy){.next = copies, .alias = alias_of(tensor), .record = record, .siblings = siblings_of(tensor_storage(tensor))};
    ++*copy->siblings;
    copy->whole = record.kind == RECORD_GATHERED ? copy->alias : gather_as_seen(copy->alias, &copy->record);
    copy->checksum = extent_checksum(copy->whole);
    copies = copy;
    atomic_fetch_add(&copy_count, 1);
    atomic_fetch_add(&copies_made, 1);
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
    const void *storage = tensor_storage(tensor);
    *others = false;
    for (struct copy *copy = copies; copy; copy = copy->next) {
        bool is_lent = storage == tensor_storage(copy->whole) && !is_watched(copy); /* to another thread (shim/torch/loan.c) */
        if (tensor_storage(copy->alias) != storage && !is_lent)
            continue;
        if (is_lent || fits(copy, tensor, record))
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
    struct tensor *fresh = gather_as_seen(copy->alias, &copy->record);
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

/* One row of many that were looked at (for row in h: row.tolist()) does not keep the others. */
static bool is_last_owner(const struct copy *copy) {
    struct tensor *source, *whole;
    struct record record;
    const void *storage = tensor_storage(copy->alias);
    uint32_t others = is_watched(copy) && window_find(storage, &source, &record, &whole);
    return !(others && window_is_kept(storage)) && storage_owners(tensor_storage(copy->alias)) == *copy->siblings + others;
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
        if (!--*copy->siblings)
            free(copy->siblings);
        *link = copy->next;
        free(copy);
        atomic_fetch_sub(&copy_count, 1);
    }
}

/* ---- turns */

static bool none_was_made(const void *seen) {
    return atomic_load(&copies_made) == *(const unsigned *)seen;
}

/* Who waits for a collective must not have the list: the thread whose turn it is may need it on its way there. So the turn is taken first, where a collective
   is certain: a copy is made, or made anew. Of several threads that look at one tensor another one comes first on each rank: whoever waits gives up its
   turn when the copy is there. (What the program has written through pointers while other threads compute may still be waited for with it.) */
static bool turn_take(bool (*is_needed)(struct tensor *tensor, const void *context), struct tensor *tensor, const void *context) {
    while (shim_has_threads()) {
        unsigned seen = atomic_load(&copies_made);
        {
            COPIES_SCOPE;
            OPAQUE_SCOPE;
            if (!is_needed(tensor, context))
                return false;
        }
        if (shim_comm_lock_while(none_was_made, &seen))
            return true;
    }
    return false;
}

void read_turn_end(const bool *is_taken) {
    if (*is_taken)
        shim_comm_unlock(NULL);
}
#define TURN_SCOPE(...) __attribute__((cleanup(read_turn_end), unused)) bool turn_scope_ = turn_take(__VA_ARGS__)

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

static bool is_to_be_made_of_storage(struct tensor *tensor, const void *record) {
    bool others;
    return !copy_find(tensor, record, is_of_its_storage, &others);
}

static bool is_to_be_made_of_either(struct tensor *tensor, const void *record) {
    return is_to_be_made_of_storage(tensor, record) && is_to_be_made(tensor, record);
}

bool read_turn(struct tensor *tensor, const struct record *record, bool of_storage) {
    return turn_take(of_storage ? is_to_be_made_of_storage : is_to_be_made_of_either, tensor, record);
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

__attribute__((constructor)) static void read_start(void) {
    threads_renew_in_child(&copies_mutex);
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
    if (record.kind == RECORD_GATHERED)
        window_keep(tensor_storage(tensor));
    if (!copy) {
        explain_note("read", "memory of a divided tensor", "put together from all ranks");
        copy = copy_make(tensor, record);
    }
    return copy->whole;
}
