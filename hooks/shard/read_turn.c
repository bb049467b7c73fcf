/*
 * Turns around what read.c does. Who waits for a collective must not have the list of copies, which the thread whose turn it is may need on its way there. So
 * the turn is taken first, where a collective is certain: a copy is made, or made anew. A turn that is taken must be used (write.c): each function here that
 * asks whether it will be sees what its counterpart in read.c is going to do.
 *
 * Of several threads that look at one tensor another one comes first on each rank: whoever waits gives up its turn when the copy is there.
 */
#include "copies.h"
#include "window.h"

/* ---- will taking back what the program has written through pointers exchange anything? */

/* A written copy that is watched, to what it is a view of. */
bool read_is_due_through(const struct copy *copy) {
    const void *source = copy->family->source;
    const struct place *place = copies_place(source);
    LIST_EACH (const struct copy, other, place ? place->copies : NULL, of_place)
        if (!copy_is_watched(other) && !copies_is_unowned(other))
            return true;
    return window_others_are_due(source, copy->place->storage);
}

static bool family_is_due(const struct family *family) {
    LIST_EACH (const struct copy, copy, family && family->watched ? family->copies : NULL, of_family)
        if (copy_is_watched(copy) && copies_is_written(copy) && read_is_due_through(copy))
            return true;
    return false;
}

/* Those that are watched have been taken back by then. */
static bool place_is_due(const struct place *place) {
    bool is_changed = false, are_others = false;
    LIST_EACH (const struct copy, copy, place ? place->copies : NULL, of_place)
        if (!copy_is_watched(copy) && !copies_is_unowned(copy)) {
            bool is_written = copies_is_written(copy);
            is_changed |= is_written;
            are_others |= !is_written;
        }
    return is_changed && (are_others || window_others_are_due(place->storage, NULL));
}

/* A storage, and what it is a view of. */
static bool families_are_due(const void *storage) {
    const void *source = window_memory_of(storage);
    return (source && family_is_due(copies_family(source))) || family_is_due(copies_family(storage));
}

static bool places_are_due(const void *storage) {
    const void *source = window_memory_of(storage);
    return (source && place_is_due(copies_place(source))) || place_is_due(copies_place(storage));
}

static bool hasty_are_due(void) {
    copies_follow_windows();
    LIST_EACH (const struct family, family, copies_hasty(), hasty)
        if (family_is_due(family))
            return true;
    return false;
}

static bool all_are_due(void) {
    if (hasty_are_due())
        return true;
    if (!copies_any_written())
        return false;
    LIST_EACH (const struct copy, copy, copies.first, all)
        if ((copy_is_watched(copy) && copies_is_written(copy) && read_is_due_through(copy)) ||
            (copy->place->copies == &copy->of_place && place_is_due(copy->place)))
            return true;
    return false;
}

/* ---- threads */

static _Atomic uint64_t first_thread; /* 0: none yet */
static _Atomic bool are_several;

void read_meet_thread(void) {
    enum { MAIN = 2 }; /* words are odd */
    uint64_t word = threads_own(), own = word ? word : MAIN, first = atomic_load_explicit(&first_thread, memory_order_relaxed);
    if (first == own || (!first && atomic_compare_exchange_strong(&first_thread, &first, own)) || first == own)
        return;
    atomic_store_explicit(&are_several, true, memory_order_relaxed);
}

bool read_is_beside_others(void) {
    return atomic_load_explicit(&are_several, memory_order_relaxed);
}

/* ---- turns */

static bool none_was_made(const void *seen) {
    return atomic_load(&copies_made) == *(const unsigned *)seen;
}

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

static bool is_due_for_call(const struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++) {
        if (call->arguments[i].record.kind == RECORD_NONE)
            continue;
        const void *storage = tensor_own_storage(argument_tensor(&call->arguments[i]));
        if (families_are_due(storage) || places_are_due(storage))
            return true;
    }
    return false;
}

static bool is_due_for_look(struct tensor *tensor, const struct record *record, copy_fits *fits) {
    const void *storage = tensor_own_storage(tensor);
    bool others;
    copies_find(tensor, record, fits, &others);
    return families_are_due(storage) || (copies_are_settled(others, record) && places_are_due(storage));
}

static bool turn_if(bool is_due) {
    if (is_due)
        shim_comm_lock();
    return is_due;
}

static bool settling_is_due(const struct shard_call *call) {
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    return call ? hasty_are_due() || is_due_for_call(call) : all_are_due();
}

static bool looking_is_due(struct tensor *tensor, const struct record *record, copy_fits *fits) {
    COPIES_SCOPE;
    OPAQUE_SCOPE;
    return hasty_are_due() || is_due_for_look(tensor, record, fits);
}

bool read_turn_to_settle(const struct shard_call *call) {
    return turn_if(shim_has_threads() && settling_is_due(call));
}

bool read_turn_to_look(struct tensor *tensor, const struct record *record, copy_fits *fits) {
    return turn_if(shim_has_threads() && looking_is_due(tensor, record, fits));
}

static bool has_copies(struct tensor *unused, const void *written) {
    const struct place *place = copies_place(((const struct written *)written)->storage);
    LIST_EACH (const struct copy, copy, place ? place->copies : NULL, of_place)
        if (!copy_is_watched(copy) && copies_is_met(copy, written))
            return true;
    return false;
}

static bool is_to_be_made(struct tensor *tensor, const void *record) {
    bool others;
    return ((const struct record *)record)->kind != RECORD_GATHERED && !copies_find(tensor, record, copies_is_same, &others);
}

static bool is_to_be_made_of_storage(struct tensor *tensor, const void *record) {
    bool others;
    return !copies_find(tensor, record, copies_is_of_storage, &others);
}

static bool is_to_be_made_of_either(struct tensor *tensor, const void *record) {
    bool others;
    return !copies_find(tensor, record, copies_is_of_memory, &others) && is_to_be_made(tensor, record);
}

bool read_turn(struct tensor *tensor, const struct record *record, bool of_storage) {
    return turn_take(of_storage ? is_to_be_made_of_storage : is_to_be_made_of_either, tensor, record);
}

bool read_turn_to_make(struct tensor *tensor, const struct record *record) {
    return turn_take(is_to_be_made, tensor, record);
}

bool read_turn_to_renew(const struct written *written) {
    return turn_take(has_copies, NULL, written);
}
