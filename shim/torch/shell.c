/*
 * Tensors that are used again and again for the rows that are lent to one call (rows.c). Making a tensor and destroying it costs more than all else that a
 * whole operand adds to an operator. A shell copies what is plain in the whole tensor (sizes, strides, offset, type, keys) and borrows what that owns, its
 * storage and its version; after the call it has its own again, of a tensor that nobody uses.
 *
 * A shell that the call has kept (autograd saves arguments for the backward) must own what it refers to: it takes over the references of a fresh copy,
 * which gets the shell's own ones and is the shell from then on.
 *
 * Only a matter of speed: where a tensor is not laid out as expected there are none.
 */
#include <stdatomic.h>

#include "../shim.h"
#include "functions.h"

enum {
    SHELLS = 4,      /* calls at a time, in all threads; more than one operand of a call */
    INLINE_DIMS = 5, /* as many sizes stand in the tensor itself (c10::impl::SizesAndStrides of 1.13 to 2.15) */
    HEAD_MAX = 128,
};

static struct shell {
    atomic_flag is_taken;
    struct tensor *_Atomic tensor;
    struct tensor *whole; /* borrowed: the caller's argument */
} shells[SHELLS];

static long sizes_at; /* TensorImpl::sizes_and_strides_: their number; from there on all is plain. 0: no shells */
static unsigned char
    own_head[HEAD_MAX]; /* before it: what a shell looks like that nobody has kept, with the storage and the version that all of them own */

static void **slot(struct tensor *tensor, long at) {
    return (void **)((char *)tensor + at);
}

static struct shell *take_any(void) {
    for (int i = 0; i < SHELLS; i++)
        if (!atomic_flag_test_and_set_explicit(&shells[i].is_taken, memory_order_acquire))
            return &shells[i];
    return NULL;
}

struct tensor *shell_lend(struct tensor *whole) {
    struct shell *shell = sizes_at && tensor_dims(whole) <= INLINE_DIMS ? take_any() : NULL;
    if (!shell)
        return NULL;
    struct tensor *tensor = atomic_load_explicit(&shell->tensor, memory_order_relaxed);
    memcpy((char *)tensor + sizes_at, (char *)whole + sizes_at, (size_t)(torch_facts.key_set + 8 - sizes_at));
    *tensor_key_set(tensor) = torch_facts.plain_keys;
    *slot(tensor, torch_facts.storage) = *slot(whole, torch_facts.storage);
    *slot(tensor, torch_facts.version) = *slot(whole, torch_facts.version);
    shell->whole = whole;
    return tensor;
}

static void own_again(struct tensor *tensor) {
    memcpy(slot(tensor, torch_facts.storage), own_head + torch_facts.storage, sizeof(void *));
    memcpy(slot(tensor, torch_facts.version), own_head + torch_facts.version, sizeof(void *));
}

/* The fresh copy's references become the kept shell's: they are to the same storage and version. */
static void replace_kept(struct shell *shell, struct tensor *kept) {
    struct tensor *fresh = rows_copy_whole(shell->whole);
    own_again(fresh);
    atomic_store_explicit(&shell->tensor, fresh, memory_order_relaxed);
    tensor_release(kept);
}

/* Nobody else has it or knows it: counts, gradient, Python's object are as they were. */
static bool is_as_before(struct tensor *tensor) {
    void *storage = *slot(tensor, torch_facts.storage), *version = *slot(tensor, torch_facts.version);
    own_again(tensor);
    bool same = !memcmp(tensor, own_head, (size_t)sizes_at);
    if (!same) {
        *slot(tensor, torch_facts.storage) = storage;
        *slot(tensor, torch_facts.version) = version;
    }
    return same;
}

bool shell_give_back(struct tensor *tensor) {
    int i = 0;
    while (i < SHELLS && atomic_load_explicit(&shells[i].tensor, memory_order_relaxed) != tensor)
        i++;
    if (i == SHELLS)
        return false;
    if (!is_as_before(tensor))
        replace_kept(&shells[i], tensor);
    atomic_flag_clear_explicit(&shells[i].is_taken, memory_order_release);
    return true;
}

/* ---- the layout, and a trial */

/* All that owns something lies before the sizes, all else from there to the keys. */
static bool is_laid_out_as_expected(struct tensor *tensor, long sizes) {
    const size_t *count = (const size_t *)((char *)tensor + sizes);
    return sizes > torch_facts.version && sizes > torch_facts.storage && sizes <= HEAD_MAX && sizes < torch_facts.elements &&
           sizes < torch_facts.storage_offset && sizes < torch_facts.dtype && torch_facts.elements < torch_facts.key_set && *count == 1;
}

/* Lent, kept as autograd would, given back: it goes on to be the rows, and is the only one more that has the storage. */
static bool are_right(struct tensor *whole, const struct record *record) {
    uint32_t owners = tensor_owners(tensor_storage(whole));
    struct value lent = value_tensor(rows_lend_for_call(whole, record)), sliced = value_tensor(rows_take(whole, record, 0));
    struct tensor *shell = lent.tensor;
    tensor_retain(shell);
    rows_give_back(shell);
    struct value equal = TORCH_CALL("aten::equal", "", lent, sliced);
    value_drop(sliced);
    bool is_kept = value_flag(&equal) && tensor_owners(tensor_storage(whole)) == owners + 1 && shells[0].tensor != shell;
    tensor_release(shell);
    shell = rows_lend_for_call(whole, record);
    rows_give_back(shell);
    return is_kept && shells[0].tensor == shell && tensor_owners(tensor_storage(whole)) == owners;
}

void shell_begin(struct tensor *tensor, const struct record *record) {
    struct value nobodys = TORCH_CALL("aten::clone", "", value_tensor(tensor), value_none());
    sizes_at = (char *)tensor_sizes(tensor).data - (char *)tensor - (long)sizeof(size_t);
    if (is_laid_out_as_expected(tensor, sizes_at)) {
        for (int i = 0; i < SHELLS; i++)
            shells[i].tensor = rows_copy_whole(nobodys.tensor);
        memcpy(own_head, shells[0].tensor, (size_t)sizes_at);
        if (!are_right(tensor, record))
            sizes_at = 0;
    } else
        sizes_at = 0;
    value_drop(nobodys);
    shim_log('d', "a tensor's sizes stand at %ld: tensors for lent rows are %s", sizes_at, sizes_at ? "used again" : "made anew");
}
