/*
 * Memory lent to divided tensors. data_ptr() without a type, storage() and what is built on them are code of libtorch that is inline in programs and
 * libraries: it takes the address out of the tensor, where nobody can answer something else. But it asks the tensor first whether it has storage, or for its
 * storage, by virtual functions (all releases from 1.13 to 2.15). At user level the tensor is then lent the storage of the copy that stands in for its
 * memory, which the code goes on to read. It gets its own back before anything of libtorch works on it: when the thread goes below user level, which every
 * kernel and every function of ours does first, when another one computes with this tensor, and when the tensor ends. What another thread computes with
 * other tensors does not take it away from under the code, but for what that has forgotten: a thread that reads and then does no more of libtorch.
 *
 * A thread that looks at memory while another computes with the same tensor comes in between (docs/limits.md).
 */
#include <pthread.h>
#include <stdlib.h>

#include "../comm/clock.h"
#include "../shim.h"
#include "functions.h"

enum { FORGOTTEN_MS = 1000 }; /* far longer than a thread is kept off its core in the midst of a look */

struct loan {
    struct loan *next; /* older */
    struct tensor *tensor;
    void *storage;  /* what it had before: its own, whose reference it still has, or an older loan's to another thread */
    int64_t offset; /* elements */
    pthread_t thread;
    uint64_t since_ms;
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

/* Has the tensor been lent its memory: to this thread; to another one? */
static bool is_lent(const struct tensor *tensor, bool to_this) {
    for (const struct loan *loan = loans; loan; loan = loan->next)
        if (loan->tensor == tensor && pthread_equal(loan->thread, pthread_self()) == to_this)
            return true;
    return false;
}

static void lend(struct tensor *tensor, struct tensor *whole, int64_t offset) {
    pthread_mutex_lock(&loans_mutex);
    bool has_it = *storage_slot(tensor) == *storage_slot(whole);
    if (!has_it || (is_lent(tensor, false) && !is_lent(tensor, true))) {
        struct loan *loan = malloc(sizeof *loan);
        *loan = (struct loan){loans, tensor, *storage_slot(tensor), *offset_slot(tensor), pthread_self(), clock_ms()};
        *storage_slot(tensor) = *storage_slot(whole);
        *offset_slot(tensor) = offset;
        loans = loan;
        atomic_fetch_add(&loan_count, 1);
    }
    pthread_mutex_unlock(&loans_mutex);
}

/* Where a tensor's own memory is, and what of another's this thread has been lent for it. One look at all of it: another thread may be lent the same tensor's
   meanwhile, and what is found by half of each is found on one rank only. */
struct own {
    void *storage;
    int64_t offset; /* elements */
    void *lent;     /* a storage; NULL: nothing */
};

static struct own own_of(struct tensor *tensor) {
    if (!shim_has_threads() && !atomic_load_explicit(&loan_count, memory_order_relaxed))
        return (struct own){*storage_slot(tensor), *offset_slot(tensor), NULL};
    pthread_mutex_lock(&loans_mutex);
    struct own own = {*storage_slot(tensor), *offset_slot(tensor), NULL};
    for (const struct loan *loan = loans; loan; loan = loan->next) { /* the oldest has its own */
        if (loan->tensor != tensor)
            continue;
        if (!own.lent && pthread_equal(loan->thread, pthread_self()))
            own.lent = own.storage;
        own.storage = loan->storage;
        own.offset = loan->offset;
    }
    pthread_mutex_unlock(&loans_mutex);
    return own;
}

int64_t tensor_own_offset(struct tensor *tensor) {
    return own_of(tensor).offset;
}

void *tensor_own_storage(struct tensor *tensor) {
    return own_of(tensor).storage;
}

void *tensor_own_data(struct tensor *tensor) {
    struct own own = own_of(tensor);
    char *base = *(char **)((char *)own.storage + torch_facts.storage_data);
    return base + own.offset * (int64_t)dtype_bytes(tensor_dtype(tensor));
}

void *tensor_lent_storage(struct tensor *tensor) {
    return own_of(tensor).lent;
}

/* A younger loan of the same tensor goes on, and gives back what this one would have. */
static void give_back(const struct loan *loan) {
    void **storage = storage_slot(loan->tensor);
    int64_t *offset = offset_slot(loan->tensor);
    for (struct loan *younger = loans; younger != loan; younger = younger->next)
        if (younger->tensor == loan->tensor) {
            storage = &younger->storage;
            offset = &younger->offset;
        }
    *storage = loan->storage;
    *offset = loan->offset;
}

/* Those for which is_due holds. */
static void return_due(bool (*is_due)(const struct loan *loan, const void *context), const void *context) {
    pthread_mutex_lock(&loans_mutex);
    for (struct loan **at = &loans, *loan; (loan = *at);) {
        if (!is_due(loan, context)) {
            at = &loan->next;
            continue;
        }
        give_back(loan);
        *at = loan->next;
        free(loan);
        atomic_fetch_sub(&loan_count, 1);
    }
    pthread_mutex_unlock(&loans_mutex);
}

static bool some_are_lent(void) {
    return atomic_load_explicit(&loan_count, memory_order_relaxed);
}

/* What an operator has to work on. */
struct operands {
    const struct value *begin, *end;
    uint64_t now_ms;
};

static bool is_among(const struct tensor *tensor, const struct value *value, const struct value *end) {
    for (; value < end; value++)
        if ((value_is_tensor(value) && value->tensor == tensor) ||
            (value_is_list(value) && is_among(tensor, value_list(value)->begin, value_list(value)->end)))
            return true;
    return false;
}

static bool is_done(const struct loan *loan, const void *context) {
    const struct operands *operands = context;
    return pthread_equal(loan->thread, pthread_self()) || loan->since_ms + FORGOTTEN_MS < operands->now_ms ||
           is_among(loan->tensor, operands->begin, operands->end);
}

/* It has been lent something, or is what has been lent. */
static bool is_of_tensor(const struct loan *loan, const void *tensor) {
    return loan->tensor == tensor || *storage_slot(loan->tensor) == *storage_slot((struct tensor *)tensor);
}

static bool is_any(const struct loan *loan, const void *unused) {
    return loan || unused;
}

void loans_return_operands(const struct value *begin, const struct value *end) {
    if (some_are_lent())
        return_due(is_done, &(struct operands){begin, end, clock_ms()});
}

void loans_return(void) {
    loans_return_operands(NULL, NULL);
}

void loans_return_of(struct tensor *tensor) {
    if (some_are_lent())
        return_due(is_of_tensor, tensor);
}

void loans_return_all(void) {
    if (some_are_lent())
        return_due(is_any, NULL);
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
    int64_t offset;
    struct tensor *whole = is_at_user_level() ? dispatch_client.memory(tensor, &offset) : NULL;
    if (whole)
        lend(tensor, whole, offset);
}

static _Thread_local uint8_t memory_will_do;

void loans_memory_will_do(bool begins) {
    memory_will_do = begins ? memory_will_do + 1 : memory_will_do - 1;
}

/* What it is a part of: the offset stays the one that it tells. */
__attribute__((noinline)) static void lend_storage(struct tensor *tensor) {
    if (memory_will_do && tensor_lent_storage(tensor))
        return;
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
    loans_return_of(tensor);
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
    threads_renew_in_child(&loans_mutex);
}
