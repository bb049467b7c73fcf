/*
 * Writing to a divided tensor, or to a sum of which each rank has its part, by an operator that has no rule for it: all ranks make the write to the whole
 * tensor. Of divided rows each then takes its own back, and a sum becomes rank 0's. Exact, differentiable (the tensor's history is then that of the whole),
 * and only slower.
 */
#include <stdlib.h>

#include "window.h"

/* aten::batch_norm and its like write their running statistics, arguments 3 and 4, though their schemas do not say so. */
static bool is_statistic(const struct shard_call *call, const struct argument *argument) {
    return (argument->position == 3 || argument->position == 4) &&
           (strstr(call->op->short_name, "batch_norm") || !strcmp(call->op->short_name, "instance_norm"));
}

bool schema_writes(const struct shard_call *call, const struct argument *argument) {
    return argument->position < 64 && (call->op->written >> argument->position & 1);
}

bool call_writes(const struct shard_call *call, const struct argument *argument) {
    return schema_writes(call, argument) || is_statistic(call, argument);
}

bool call_writes_values(const struct shard_call *call, const struct argument *argument) {
    return call->op->writes != WRITES_NO_VALUES && call_writes(call, argument);
}

static bool same_shape(struct tensor *whole, struct tensor *own, const struct record *record) {
    int dims = tensor_dims(own);
    bool same = tensor_dims(whole) == dims, is_rows = record->kind == RECORD_SHARD;
    for (int i = 0; same && i < dims; i++)
        same = tensor_size(whole, i) == (is_rows && i == record->dim ? record_total(record) : tensor_size(own, i));
    return same;
}

/* One tensor that is written. Owned. */
struct target {
    struct tensor *own, *whole;
    struct tensor *before; /* what the whole was, where other threads may write other elements of it meanwhile; else NULL */
    struct record record;
};

struct targets {
    struct target *list;
    int count;
};

static void free_targets(struct targets *targets) {
    for (int i = 0; i < targets->count; i++) {
        tensor_release(targets->list[i].own);
        tensor_release(targets->list[i].whole);
        tensor_release(targets->list[i].before);
    }
    free(targets->list);
}

/* The same elements in the same order, perhaps as another tensor (h[:, 0] and h[:, 0]). */
static bool is_same_view(struct tensor *one, struct tensor *other) {
    return one == other ||
           (tensor_data(one) == tensor_data(other) && tensor_dtype(one) == tensor_dtype(other) && tensor_same_layout(one, other));
}

/* Tensors of one memory with elements in common that are not the same in the same order: libtorch refuses to write one while it reads the other, if they are
   dense (its at::get_overlap_status), or what it reads depends on what it has written. The wholes have no memory in common. */
static bool overlaps(struct tensor *one, struct tensor *other) {
    const char *begin = tensor_data(one), *other_begin = tensor_data(other);
    const char *end = begin + extent_bytes(one), *other_end = other_begin + extent_bytes(other);
    if (begin >= other_end || other_begin >= end || is_same_view(one, other))
        return false;
    if (tensor_is_dense(one) && tensor_is_dense(other))
        return true;
    return extent_meets(one, other);
}

/* Operators of libtorch's write what they read element by element, or refuse an overlap; others, and lists, may count on shared memory, which the wholes do
   not have. */
static void refuse_shared(const struct shard_call *call) {
    bool is_free = call->op->short_name != call->op->name && strncmp(call->op->short_name, "_foreach", 8);
    for (int i = 0; i < call->argument_count; i++)
        for (int j = 0; j < call->argument_count; j++) {
            const struct argument *one = &call->arguments[i], *other = &call->arguments[j];
            if (i != j && one->record.kind != RECORD_NONE && other->record.kind != RECORD_NONE && call_writes(call, one) &&
                tensor_storage(argument_tensor(one)) == tensor_storage(argument_tensor(other)) &&
                (!is_free || overlaps(argument_tensor(one), argument_tensor(other))))
                refuse_write(call, "its rows are divided among the ranks, and another argument shares memory with it");
        }
}

/* Another view of the same elements may take its whole, unless each has a history of its own. */
static bool is_as_good_as(const struct argument *argument, struct tensor *own, const struct record *record) {
    struct tensor *tensor = argument_tensor(argument);
    const struct record *its = &argument->record;
    if (tensor == own)
        return true;
    return its->kind == RECORD_SHARD && record->kind == RECORD_SHARD && its->dim == record->dim && record_same_rows(its, record) &&
           tensor_storage(tensor) == tensor_storage(own) && is_same_view(tensor, own) && !tensor_requires_grad(tensor) &&
           !tensor_requires_grad(own) && !tensor_is_lazy(tensor) && !tensor_is_lazy(own);
}

/* The whole wherever the call has the tensor, which libtorch refuses to read and write, and its memory wherever it has another view of the same. */
static void put_whole(const struct shard_call *call, struct tensor *own, struct tensor *whole, const struct record *record) {
    for (int i = 0; i < call->argument_count; i++) {
        if (!is_as_good_as(&call->arguments[i], own, record))
            continue;
        tensor_retain(whole);
        struct value value = value_tensor(whole);
        if (argument_tensor(&call->arguments[i]) != own)
            value_replace(&value, TORCH_CALL("aten::detach", "", value));
        value_replace(call->arguments[i].slot, value);
    }
}

static struct tensor *values_before(struct tensor *whole, struct tensor *own) {
    if (!shim_has_threads() || tensor_requires_grad(whole) || tensor_is_recorded(own) || tensor_is_lazy(own))
        return NULL;
    OUTSIDE_TRANSFORM_SCOPE;
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(whole)), before = TORCH_CALL("aten::clone", "", plain, value_none());
    value_drop(plain);
    return before.tensor;
}

/* Puts wholes into the places of all that is written. */
static struct targets gather_targets(struct shard_call *call) {
    struct targets targets = {.list = malloc((size_t)call->argument_count * sizeof *targets.list)};
    OPAQUE_SCOPE;
    for (int i = 0; i < call->argument_count; i++) {
        struct argument *argument = &call->arguments[i];
        struct record record = argument->record;
        if ((record.kind != RECORD_SHARD && record.kind != RECORD_PARTIAL) || !call_writes(call, argument))
            continue;
        struct tensor *own = argument_tensor(argument);
        if (record.kind == RECORD_PARTIAL && packed_is_seen(own))
            refuse_write(call, "it has the elements of packed sequences, of which each rank has its own");
        struct tensor *whole = execute_gather_argument(call, argument);
        tensor_retain(own);
        targets.list[targets.count++] = (struct target){own, whole, record.kind == RECORD_SHARD ? values_before(whole, own) : NULL, record};
        put_whole(call, own, whole, &record);
    }
    call_collect(call);
    return targets;
}

/* All of it on rank 0, zeros on the others; by an operator, so that all ranks have the same history, and not by a product, which makes no zero of infinity. */
static struct value rank_zeros(struct tensor *whole) {
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(whole));
    struct value none =
        TORCH_CALL("aten::zeros_like", "", plain, value_int(DTYPE_BOOL), value_none(), value_none(), value_none(), value_none());
    if (shim_rank() != 0)
        value_drop(TORCH_CALL("aten::logical_not_", "", none));
    struct value share = TORCH_CALL("aten::masked_fill", "Scalar", value_tensor(whole), none, value_int(0));
    value_drop(none);
    value_drop(plain);
    return share;
}

struct value own_part(struct tensor *whole, const struct record *record) {
    return record->kind == RECORD_SHARD ? value_tensor(rows_take(whole, record, record->dim)) : rank_zeros(whole);
}

static bool has_form(const struct record *have, const struct record *wanted) {
    if (have->kind == RECORD_SHARD && wanted->kind == RECORD_SHARD)
        return have->dim == wanted->dim && record_same_rows(have, wanted);
    return have->kind == wanted->kind || (have->kind == RECORD_GATHERED && wanted->kind == RECORD_NONE);
}

struct tensor *write_in_form(struct tensor *tensor, const struct record *wanted) {
    struct record have = record_get(tensor);
    if (has_form(&have, wanted)) {
        tensor_retain(tensor);
        return tensor;
    }
    OPAQUE_SCOPE;
    struct tensor *whole = dispatch_client.whole(tensor);
    bool is_part =
        (wanted->kind == RECORD_PARTIAL && !wanted->packed) ||
        (wanted->kind == RECORD_SHARD && tensor_dims(whole) > wanted->dim && tensor_size(whole, wanted->dim) == record_total(wanted));
    if (!is_part)
        return whole;
    struct value own = own_part(whole, wanted);
    if (tensor_storage(own.tensor) == tensor_storage(whole)) /* divided tensors have memory of their own; the order of dimensions stays */
        value_replace(&own, TORCH_CALL("aten::clone", "", own, value_none()));
    tensor_release(whole);
    record_set(own.tensor, *wanted);
    return own.tensor;
}

static void take_back(struct shard_call *call, const struct target *target) {
    if (!same_shape(target->whole, target->own, &target->record))
        refuse_write(call, "its rows are divided among the ranks and its shape changes");
    struct value own = own_part(target->whole, &target->record);
    if (target->before && !tensor_requires_grad(target->whole)) {
        struct value before = own_part(target->before, &target->record);
        window_put_changed(target->own, before, own);
        value_drop(before);
    } else
        value_drop(TORCH_CALL("aten::copy_", "", value_tensor(target->own), own, value_bool(false)));
    value_drop(own);
    record_set(target->own, target->record);
}

static void return_own(struct shard_call *call, struct value *result, int place, int index, const void *of_call) {
    const struct targets *targets = of_call;
    for (int i = 0; i < targets->count; i++)
        if (result->tensor == targets->list[i].whole) {
            tensor_retain(targets->list[i].own);
            value_replace(result, value_tensor(targets->list[i].own));
            return;
        }
}

bool window_gathers_anew(const struct shard_call *call, const struct argument *argument) {
    struct tensor *seen = window_at_hand(call, argument);
    tensor_release(seen);
    return argument->record.kind == RECORD_PARTIAL || (argument->record.kind == RECORD_SHARD && !seen);
}

/* Threads that write other rows at one time would each take back what all rows were before the others wrote. A turn that is taken must be used: one that ends
   without a collective is still the thread's on the other ranks. */
static bool lock_for_threads(const struct shard_call *call) {
    bool is_collective = false;
    for (int i = 0; i < call->argument_count && shim_has_threads(); i++)
        is_collective |= window_gathers_anew(call, &call->arguments[i]);
    if (is_collective)
        shim_comm_lock();
    return is_collective;
}

void execute_write_gathered(struct shard_call *call) {
    TURN_SCOPE(turn, lock_for_threads(call));
    refuse_shared(call);
    __attribute__((cleanup(free_targets))) struct targets targets = gather_targets(call);
    execute_gathered(call);
    OUTSIDE_TRANSFORM_SCOPE;
    OPAQUE_SCOPE;
    for (int i = 0; i < targets.count; i++)
        take_back(call, &targets.list[i]);
    call_visit_results(call, return_own, &targets);
}
