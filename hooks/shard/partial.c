/*
 * Partial sums: a value that is the sum of what the ranks hold. Linear operators keep it so; a replicated operand of an addition is divided among the ranks;
 * everything else sums first.
 */
#include "shard.h"

static void mark_partial(struct shard_call *call, struct value *result, int place, int index, const void *unused) {
    record_set(result->tensor, (struct record){.kind = RECORD_PARTIAL, .origin = origin_of_result(call->record.origin, index)});
}

static void run_partial(struct shard_call *call) {
    dispatch_run_opaque(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
    OPAQUE_SCOPE;
    call_visit_results(call, mark_partial, NULL);
}

static bool all_floating(const struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++)
        if (!dtype_is_floating(tensor_dtype(argument_tensor(&call->arguments[i]))))
            return false;
    return true;
}

/* A replicated tensor's share: 1/N of a floating one (infinities stay what they are), all of an integer one on rank 0. */
static void share_tensor(struct argument *argument, bool floating) {
    struct value share;
    if (floating)
        share = TORCH_CALL("aten::mul", "Scalar", *argument->slot, value_real(1.0 / shim_world_size()));
    else if (shim_rank() == 0)
        return;
    else
        share = TORCH_CALL("aten::zeros_like", "", *argument->slot, value_none(), value_none(), value_none(), value_none(), value_none());
    record_clear(share.tensor);
    slot_replace(argument->slot, share);
}

/* A number of the program's comes as a tensor that does not count for the type of the result; its share is one that does. So shares have the result's type. */
static void convert_share(struct argument *argument, int64_t type) {
    if ((int64_t)tensor_dtype(argument_tensor(argument)) != type)
        slot_replace(argument->slot,
                     TORCH_CALL("aten::to", "dtype", *argument->slot, value_int(type), value_bool(false), value_bool(false), value_none()));
}

static int64_t result_type(const struct shard_call *call) {
    return TORCH_CALL("aten::result_type", "Tensor", *call->arguments[0].slot, *call->arguments[1].slot).integer;
}

static bool share_scalar(struct value *scalar, bool floating) {
    if (scalar->tag == TAG_DOUBLE)
        scalar->real /= shim_world_size();
    else if (scalar->tag != TAG_INT)
        return false;
    else if (floating)
        *scalar = value_real((double)scalar->integer / shim_world_size());
    else if (shim_rank() != 0)
        scalar->integer = 0;
    return true;
}

/* add and sub (self, other, alpha): both partial, or one partial and the other shared out. */
static bool execute_add(struct shard_call *call) {
    if (call->op->is_in_place && call->arguments[0].record.kind != RECORD_PARTIAL)
        return false; /* a replicated accumulator stays replicated: the other operand is summed first */
    if (call->op->is_in_place && packed_is_seen(argument_tensor(&call->arguments[0])))
        return false; /* is refused */
    bool floating = all_floating(call);
    OPAQUE_SCOPE;
    int64_t type = call->argument_count > call->partials ? result_type(call) : 0;
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].record.kind != RECORD_PARTIAL) {
            share_tensor(&call->arguments[i], floating);
            convert_share(&call->arguments[i], type);
        }
    if (call->argument_count == 1 && !share_scalar(&call->values[1], floating))
        return false;
    opaque_leave(&opaque_scope_);
    opaque_scope_.excluded = NULL;
    run_partial(call);
    return true;
}

static bool all_true(struct value flags) {
    struct value all = TORCH_CALL("aten::all", "", flags), flag = TORCH_CALL("aten::item", "", all);
    value_drop(all);
    value_drop(flags);
    return value_flag(&flag);
}

static bool number_keeps_parts(double number, bool divides) {
    return number - number == 0 && !(divides && number == 0);
}

/* A part may be zero, or of another sign than the sum: 0/0 and inf - inf are no numbers where the sum's quotient by zero, or product with infinity, is one. */
static bool keeps_parts(const struct value *factor, bool divides) {
    if (factor->tag == TAG_DOUBLE || factor->tag == TAG_INT)
        return number_keeps_parts(factor->tag == TAG_INT ? (double)factor->integer : factor->real, divides);
    if (!value_is_tensor(factor))
        return true;
    struct tensor *tensor = factor->tensor;
    enum torch_dtype dtype = tensor_dtype(tensor);
    if (tensor_is_plain(tensor) && tensor_is_on_host(tensor) && tensor_elements(tensor) == 1 &&
        (dtype == DTYPE_FLOAT32 || dtype == DTYPE_FLOAT64))
        return number_keeps_parts(dtype == DTYPE_FLOAT32 ? (double)*(float *)tensor_data(tensor) : *(double *)tensor_data(tensor), divides);
    OPAQUE_SCOPE;
    struct value plain = TORCH_CALL("aten::detach", "", *factor);
    bool keeps =
        all_true(TORCH_CALL("aten::isfinite", "", plain)) && (!divides || all_true(TORCH_CALL("aten::ne", "Scalar", plain, value_int(0))));
    value_drop(plain);
    return keeps;
}

static bool execute_product(struct shard_call *call) {
    if (call->partials != 1 || (call->op->is_in_place && call->arguments[0].record.kind != RECORD_PARTIAL))
        return false;
    int factor = call->arguments[0].record.kind == RECORD_PARTIAL && call->arguments[0].position == 0;
    if (!keeps_parts(&call->values[factor], false))
        return false;
    run_partial(call);
    return true;
}

static bool execute_quotient(struct shard_call *call) {
    if (call->partials != 1 || call->arguments[0].record.kind != RECORD_PARTIAL || !keeps_parts(&call->values[1], true))
        return false;
    run_partial(call);
    return true;
}

/* A sum in one type is not the sum in another: narrower ones round, and a float that is printed as a double must still be a float. */
static bool conversion_is_linear(const struct shard_call *call) {
    const char *name = call->op->short_name;
    bool sums = !strcmp(name, "sum") || !strcmp(name, "mean");
    int type = sums ? call->value_count - 1 : 1; /* the type is the last argument of all their overloads */
    if ((!sums && strcmp(name, "_to_copy")) || call_is_none(call, type))
        return true;
    return call_int(call, type, -1) == (int64_t)tensor_dtype(argument_tensor(&call->arguments[0]));
}

bool partial_execute(struct shard_call *call, const struct rule *rule) {
    if (call->op->is_out && rule->partial != PARTIAL_SHAPE)
        return false; /* the memory written to has other views, which know of no parts */
    switch (rule->partial) {
    case PARTIAL_LINEAR:
        if (call->argument_count != call->partials || !conversion_is_linear(call))
            return false;
        run_partial(call);
        return true;
    case PARTIAL_ADD:
        return execute_add(call);
    case PARTIAL_MUL:
        return execute_product(call);
    case PARTIAL_DIV:
        return execute_quotient(call);
    case PARTIAL_SHAPE:
        dispatch_run_opaque(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
        return true;
    case PARTIAL_MATERIALISE:
    case PARTIAL_PACKED:
        return false;
    }
    return false;
}
