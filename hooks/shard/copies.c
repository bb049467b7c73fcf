/*
 * Which copies there are of a storage, and of all that shares its values. A program may keep any number of them (losses.append(loss.detach().numpy())), so an
 * operator finds those of its arguments without looking at the others.
 */
#include "copies.h"

#include <stdlib.h>

#include "window.h"

struct list_kept copies;
_Atomic unsigned copies_made;
pthread_mutex_t copies_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct pairs places, families, wholes; /* by storage */
static struct list_node *hasty;
static unsigned windows_seen;
static struct look *looks;
static size_t look_count, look_room;

struct place *copies_place(const void *storage) {
    return pairs_get(&places, storage);
}

struct family *copies_family(const void *source) {
    return pairs_get(&families, source);
}

struct copy *copies_with_whole(const void *whole) {
    return pairs_get(&wholes, whole);
}

struct list_node *copies_hasty(void) {
    return hasty;
}

static bool same_shape(struct tensor *alias, struct tensor *tensor) {
    return tensor_data(alias) == tensor_own_data(tensor) && tensor_same_layout(alias, tensor);
}

bool copies_is_same(const struct copy *copy, struct tensor *tensor, const struct record *record) {
    return copy->record.kind == record->kind && copy->record.dim == record->dim &&
           (record->kind != RECORD_SHARD || record_same_rows(&copy->record, record)) && same_shape(copy->alias, tensor);
}

/* However its elements are looked at: as complex numbers, as real ones. */
bool copies_is_of_storage(const struct copy *copy, struct tensor *tensor, const struct record *record) {
    struct layout_block block;
    if (copy->extent < COPY_OF_STORAGE || copy->record.kind != record->kind)
        return false;
    if (record->kind == RECORD_PARTIAL)
        return true;
    return layout_block(tensor, record, &block) && record_same_rows(&copy->record, record) &&
           tensor_strides(copy->alias).data[1] * (int64_t)dtype_bytes(tensor_dtype(copy->alias)) ==
               block.row * (int64_t)dtype_bytes(tensor_dtype(tensor));
}

bool copies_is_of_memory(const struct copy *copy, struct tensor *tensor, const struct record *record) {
    return (copy->extent == COPY_OF_MEMORY || !tensor_own_offset(tensor)) && copies_is_of_storage(copy, tensor, record);
}

struct copy *copies_find(struct tensor *tensor, const struct record *record, copy_fits *fits, bool *others) {
    const void *lent = tensor_lent_storage(tensor); /* to this thread; whether to others, too, differs between the ranks */
    struct copy *found = lent ? copies_with_whole(lent) : NULL;
    if (found && fits != copies_is_same && found->extent < COPY_OF_STORAGE)
        found = NULL;
    const struct place *place = copies_place(tensor_own_storage(tensor));
    *others = false;
    LIST_EACH (struct copy, copy, place ? place->copies : NULL, of_place) {
        if (fits(copy, tensor, record))
            found = copy;
        else if (copy != found)
            *others = true;
    }
    return found;
}

/* One row of many that were looked at (for row in h: row.tolist()) does not keep the others. */
bool copies_is_unowned(const struct copy *copy) {
    const struct place *place = copy->place;
    bool has_window = copy_is_watched(copy) && !copy->is_lost;
    return has_window ? window_is_last_owner(place->storage, place->count) : storage_owners(place->storage) == place->count;
}

bool copies_is_met(const struct copy *copy, const struct written *written) {
    return written->told.dims < 0 || written->dtype != tensor_dtype(copy->alias) ||
           window_extent_meets(copy->alias, &copy->record, &written->told);
}

/* ---- what the program has written */

static void look_add(struct copy *copy) {
    if (look_count == look_room)
        looks = realloc(looks, (look_room = look_room ? 2 * look_room : 64) * sizeof *looks);
    size_t offset = (size_t)tensor_storage_offset(copy->whole) * dtype_bytes(tensor_dtype(copy->whole));
    copy->look = look_count++;
    looks[copy->look] = (struct look){copy, tensor_storage(copy->whole), offset, extent_bytes(copy->whole), 0};
    copies_note_equal(copy);
}

static void look_remove(const struct copy *copy) {
    struct look *look = &looks[copy->look];
    *look = looks[--look_count];
    look->copy->look = copy->look;
}

static char *memory_of(const struct look *look) {
    char *memory = storage_memory(look->storage, look->offset + look->bytes);
    return memory ? memory + look->offset : NULL;
}

static bool is_written(const struct look *look) {
    const char *memory = memory_of(look);
    return memory && checksum_bytes(0, memory, look->bytes) != look->checksum;
}

char *copies_memory(const struct copy *copy) {
    return memory_of(&looks[copy->look]);
}

size_t copies_bytes(const struct copy *copy) {
    return looks[copy->look].bytes;
}

bool copies_is_written(const struct copy *copy) {
    return is_written(&looks[copy->look]);
}

void copies_note_equal(const struct copy *copy) {
    struct look *look = &looks[copy->look];
    const char *memory = memory_of(look);
    look->checksum = memory ? checksum_bytes(0, memory, look->bytes) : 0;
}

/* Each is somewhere else in memory, which takes longer than all the rest: some are on their way meanwhile. */
bool copies_any_written(void) {
    enum { AHEAD = 8 };
    for (size_t i = 0; i < look_count; i++) {
        if (i + 2 * AHEAD < look_count)
            __builtin_prefetch(looks[i + 2 * AHEAD].storage);
        if (i + AHEAD < look_count)
            __builtin_prefetch(memory_of(&looks[i + AHEAD]));
        if (is_written(&looks[i]))
            return true;
    }
    return false;
}

/* ---- families */

/* Where several have been written to nobody knows what came last, so each is taken back before the program goes on to the next. */
static void family_set_haste(struct family *family) {
    bool is_hasty = family->lost || (family->watched && family->memories > 1);
    if (is_hasty == family->is_hasty)
        return;
    family->is_hasty = is_hasty;
    if (is_hasty)
        list_add(&hasty, &family->hasty);
    else
        list_remove(&family->hasty);
}

static bool is_first_of_place(const struct copy *copy) {
    LIST_EACH (struct copy, other, copy->place->copies, of_place)
        if (other != copy && other->family == copy->family)
            return false;
    return true;
}

static void family_join(struct copy *copy) {
    const void *storage = copy->place->storage, *source = copy_is_watched(copy) ? window_memory_of(storage) : NULL;
    const void *key = source ? source : storage;
    struct family *family = copies_family(key);
    if (!family) {
        family = calloc(1, sizeof *family);
        family->source = key;
        pairs_put(&families, (void *)key, family);
    }
    copy->family = family;
    copy->is_lost = copy_is_watched(copy) && !source;
    list_add(&family->copies, &copy->of_family);
    family->memories += is_first_of_place(copy);
    family->watched += copy_is_watched(copy);
    family->lost += copy->is_lost;
    family_set_haste(family);
}

static void family_leave(struct copy *copy) {
    struct family *family = copy->family;
    list_remove(&copy->of_family);
    family->memories -= is_first_of_place(copy);
    family->watched -= copy_is_watched(copy);
    family->lost -= copy->is_lost;
    family_set_haste(family);
    if (family->copies)
        return;
    pairs_put(&families, (void *)family->source, NULL);
    free(family);
}

/* ---- all of them */

void copies_add(struct copy *copy) {
    const void *storage = tensor_storage(copy->alias);
    struct place *place = copies_place(storage);
    if (!place) {
        place = calloc(1, sizeof *place);
        place->storage = storage;
        pairs_put(&places, (void *)storage, place);
    }
    copy->place = place;
    place->count++;
    list_add(&place->copies, &copy->of_place);
    list_kept_add(&copies, &copy->all);
    if (!copy_is_watched(copy))
        pairs_put(&wholes, tensor_storage(copy->whole), copy);
    family_join(copy);
    look_add(copy);
    atomic_fetch_add(&copies_made, 1);
}

void copies_remove(struct copy *copy) {
    struct place *place = copy->place;
    look_remove(copy);
    family_leave(copy);
    if (!copy_is_watched(copy))
        pairs_put(&wholes, tensor_storage(copy->whole), NULL);
    list_kept_remove(&copies, &copy->all);
    list_remove(&copy->of_place);
    if (--place->count)
        return;
    pairs_put(&places, (void *)place->storage, NULL);
    free(place);
}

void copies_follow_windows(void) {
    unsigned now = window_changes();
    if (now == windows_seen)
        return;
    windows_seen = now;
    LIST_EACH (struct copy, copy, copies.first, all)
        if (copy_is_watched(copy)) {
            family_leave(copy);
            family_join(copy);
        }
}

void copies_unlock(int *unused) {
    pthread_mutex_unlock(&copies_mutex);
}

__attribute__((constructor)) static void copies_start(void) {
    threads_renew_in_child(&copies_mutex);
}
