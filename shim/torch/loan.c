/*
 * Memory lent to divided tensors. data_ptr() without a type, storage() and what is built on them are code of libtorch that is inline in programs and
 * libraries: it takes the address out of the tensor, where nobody can answer something else. But it asks the tensor first whether it has storage, or for its
 * storage, by virtual functions (all releases from 1.13 to 2.15). At user level the tensor is then lent the storage of the copy that stands in for its
 * memory, which the code goes on to read. It gets its own back before anything of libtorch works on it: when a thread goes below user level, which every
 * kernel and every function of ours does first, and when the tensor ends.
 *
 * A thread that looks at memory while another computes with the same tensor comes in between (docs/limits.md).
 */
#include <pthread.h>
#include <stdlib.h>

#include "../shim.h"
#include "functions.h"

struct loan {
    struct loan *next;
    struct tensor *tensor;
    void *storage;  /* its own, whose reference it still has */
    int64_t offset; /* elements */
};

static struct loan *loans;
static _Atomic int loan_count;
static pthread_mutex_t loans_mutex = PTHREAD_MUTEX_INITIALIZER;

static void **storage_slot(struct tensor *tensor) {
    return (void **)((char *)tensor + torch_facts.storage);
}

static int64_t *offset_slot(struct tensor *tensor) {
    return (int64_t *)((char *)tensor + torch_facts.storage_offset);
}

static void lend(struct tensor *tensor, struct tensor *whole, int64_t offset) {
    if (*storage_slot(tensor) == *storage_slot(whole))
        return;
    struct loan *loan = malloc(sizeof *loan);
    pthread_mutex_lock(&loans_mutex);
    *loan = (struct loan){loans, tensor, *storage_slot(tensor), *offset_slot(tensor)};
    *storage_slot(tensor) = *storage_slot(whole);
    *offset_slot(tensor) = offset;
    loans = loan;
    atomic_fetch_add(&loan_count, 1);
    pthread_mutex_unlock(&loans_mutex);
}

int64_t tensor_own_offset(struct tensor *tensor) {
    int64_t offset = *offset_slot(tensor);
    if (!atomic_load_explicit(&loan_count, memory_order_relaxed))
        return offset;
    pthread_mutex_lock(&loans_mutex);
    for (const struct loan *loan = loans; loan; loan = loan->next) /* the oldest has its own */
        if (loan->tensor == tensor)
            offset = loan->offset;
    pthread_mutex_unlock(&loans_mutex);
    return offset;
}

void loans_return(void) {
    if (!atomic_load_explicit(&loan_count, memory_order_relaxed))
        return;
    pthread_mutex_lock(&loans_mutex);
    for (struct loan *loan = loans, *next; loan; loan = next) { /* the youngest first: an older one of the same tensor has its own */
        next = loan->next;
        *storage_slot(loan->tensor) = loan->storage;
        *offset_slot(loan->tensor) = loan->offset;
        free(loan);
    }
    loans = NULL;
    atomic_store(&loan_count, 0);
    pthread_mutex_unlock(&loans_mutex);
}

/* ---- hooks */

/* Kernels ask a hundred times a step, nearly always of tensors without a mark: that is all that is looked at here. */
static inline bool may_be_read_by_program(struct tensor *tensor) {
    return (shim_active() || shim_is_worker()) && tensor_is_marked(tensor);
}

static bool is_at_user_level(void) {
    return !dispatch_is_opaque() && !regions_is_helper();
}

/* Where the tensor begins in memory. */
__attribute__((noinline)) static void lend_memory(struct tensor *tensor) {
    struct tensor *whole = is_at_user_level() ? dispatch_client.memory(tensor) : NULL;
    if (whole)
        lend(tensor, whole, *offset_slot(whole));
}

/* What it is a part of: the offset stays the one that it tells. */
__attribute__((noinline)) static void lend_storage(struct tensor *tensor) {
    struct tensor *whole = is_at_user_level() ? dispatch_client.storage(tensor) : NULL;
    struct record record = record_get(tensor);
    if (whole)
        lend(tensor, whole, layout_told_offset(tensor, &record));
}

char hook_has_storage(struct tensor *tensor) {
    if (may_be_read_by_program(tensor))
        lend_memory(tensor);
    return ORIGINAL(has_storage)(tensor);
}

/* The last references are gone, though weak ones may be left: the storage is given up now, and the graph. */
void hook_release_resources(struct tensor *tensor) {
    loans_return();
    if (shim_active())
        record_clear(tensor);
    ORIGINAL(release_resources)(tensor);
}

typedef void **storage_of(struct tensor *tensor); /* const Storage &TensorImpl::storage() const */

static storage_of *original_storage;

static void **own_storage(struct tensor *tensor) {
    if (may_be_read_by_program(tensor))
        lend_storage(tensor);
    return original_storage(tensor);
}

/* Inline, so without a symbol: declared right after has_storage in every release, and proven by what it returns. */
void loan_begin(struct tensor *tensor, void **slot_of_has_storage) {
    original_storage = (storage_of *)slot_of_has_storage[1];
    if (original_storage(tensor) != storage_slot(tensor))
        torch_unsupported("virtual functions", "storage() does not follow has_storage() in the table of tensors");
    virtual_write(slot_of_has_storage + 1, (void *)own_storage);
}
