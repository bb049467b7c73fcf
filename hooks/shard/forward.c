/*
 * Forward-mode derivatives (torch.autograd.forward_ad), transforms (torch.func's vmap, grad, jvp) and modes that see every operator (TorchDispatchMode: fake
 * tensors, counted operations, traces). A tangent is a second tensor inside the first, of which no record speaks. A transform unpacks what it has wrapped,
 * asks for sizes on the way, wraps what it has computed, and takes its level away while it calls what is below it. So while a level, a transform or a mode
 * is open nothing is divided, and what has been is gathered where it is used or wrapped. So it is where a tensor's class has a __torch_dispatch__ of its own,
 * and within that.
 */
#include "learned.h"
#include "shard.h"

static _Atomic int levels;
static __thread int transforms;

static bool has_function(enum hook_id id) {
    return resolve_function(hook_table[id].library, hook_table[id].symbol);
}

/* A libtorch that spells the functions below otherwise would have wrapped divided rows unseen. */
static void check_wrapping_is_seen(void) {
    static _Atomic bool is_checked;
    if (atomic_load_explicit(&is_checked, memory_order_relaxed))
        return;
    bool opens = has_function(HOOK_open_transform_1_13) || has_function(HOOK_open_transform_2_1) || has_function(HOOK_open_transform_2_5) ||
                 has_function(HOOK_open_transform_2_13);
    bool wraps =
        has_function(HOOK_make_tensor_wrapper) && (has_function(HOOK_add_batch_dim) || has_function(HOOK_add_batch_dim_by_reference));
    if (!opens || !wraps || !has_function(HOOK_close_transform))
        torch_unsupported("torch.func", "it wraps tensors by functions that accel-run does not know");
    atomic_store(&is_checked, true);
}

bool transform_is_open_here(void) {
    return transforms > 0 || atomic_load_explicit(&levels, memory_order_relaxed) > 0 || dispatch_in_mode() || dispatch_in_python() ||
           learned_is_whole();
}

bool transform_is_open(const struct shard_call *call) {
    bool is_within = call->dispatch->key_set & torch_facts.bits_transform; /* not where a transform calls below itself */
    if (is_within)
        check_wrapping_is_seen();
    return is_within || transform_is_open_here() || dispatch_is_of_subclass(call->dispatch->key_set);
}

/* Counted before the first tensor of the program, too: a level may be the first thing that it opens. */
uint64_t hook_enter_dual_level(void) {
    uint64_t level = ORIGINAL(enter_dual_level)();
    atomic_fetch_add(&levels, 1);
    return level;
}

void hook_exit_dual_level(uint64_t level) {
    ORIGINAL(exit_dual_level)(level);
    atomic_fetch_sub(&levels, 1);
}

typedef const void *word;

int64_t hook_open_transform_1_13(word a, word b, word c, word d, word e, word f, word g) {
    transforms++;
    return ORIGINAL(open_transform_1_13)(a, b, c, d, e, f, g);
}

int64_t hook_open_transform_2_1(word a, word b, word c, word d, word e, word f, word g) {
    transforms++;
    return ORIGINAL(open_transform_2_1)(a, b, c, d, e, f, g);
}

int64_t hook_open_transform_2_5(word a, word b, word c, word d, word e, word f, word g) {
    transforms++;
    return ORIGINAL(open_transform_2_5)(a, b, c, d, e, f, g);
}

int64_t hook_open_transform_2_13(word a, word b, word c, word d, word e, word f, word g) {
    transforms++;
    return ORIGINAL(open_transform_2_13)(a, b, c, d, e, f, g);
}

void *hook_close_transform(void *result) {
    transforms--;
    return ORIGINAL(close_transform)(result);
}

/* ---- what a transform wraps */

/* The whole of a divided tensor or a sum, owned; NULL: it is whole. */
static struct tensor *whole_of(struct tensor *tensor) {
    if (!shim_active() || shim_is_worker() || dispatch_is_opaque())
        return NULL;
    struct record record = record_get(tensor);
    if (record.kind != RECORD_SHARD && record.kind != RECORD_PARTIAL)
        return NULL;
    report_gather();
    return window_stand_in(tensor); /* the function may write to what it is given */
}

static void release_whole(struct tensor **whole) {
    if (*whole && *whole != torch_facts.undefined) /* libtorch may have taken it */
        tensor_release(*whole);
}

void *hook_add_batch_dim(struct tensor **result, struct tensor **tensor, int64_t dim, int64_t level) {
    __attribute__((cleanup(release_whole))) struct tensor *whole = whole_of(*tensor);
    return ORIGINAL(add_batch_dim)(result, whole ? &whole : tensor, dim, level);
}

void *hook_add_batch_dim_by_reference(struct tensor **result, struct tensor **tensor, int64_t dim, int64_t level) {
    __attribute__((cleanup(release_whole))) struct tensor *whole = whole_of(*tensor);
    return ORIGINAL(add_batch_dim_by_reference)(result, whole ? &whole : tensor, dim, level);
}

void *hook_make_tensor_wrapper(struct tensor **result, struct tensor **tensor, int64_t level, char is_immutable) {
    __attribute__((cleanup(release_whole))) struct tensor *whole = whole_of(*tensor);
    return ORIGINAL(make_tensor_wrapper)(result, whole ? &whole : tensor, level, is_immutable);
}
