/*
 * Partial sums: a value that is the sum of what the ranks hold. Linear operators keep it so; a replicated operand of an addition is divided among the ranks;
 * everything else sums first.
 */
#include <math.h>

#include "shard.h"

enum { WHOLE_MOST = 1 << 20 }; /* its shares have digits left in float32 */

/* Of an operand that is the result, too (positive, contiguous): which packed elements it is still. */
static int64_t packed_before(const struct shard_call *call, struct tensor *result) {
    return tensor_is_marked(result) && !call->op->is_in_place ? record_get(result).packed : 0;
}

static void mark_partial(struct shard_call *call, struct value *result, int place, int index, const void *unused) {
    record_set(result->tensor, (struct record){.kind = RECORD_PARTIAL,
                                               .packed = packed_before(call, result->tensor),
                                               .origin = origin_of_result(call->record.origin, index)});
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

/* Beside a complex sum: all on one rank, its history would be that rank's alone, and with it a collective of the backward. */
static bool has_shared_history(const struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].record.kind != RECORD_PARTIAL && tensor_is_recorded(argument_tensor(&call->arguments[i])))
            return true;
    return false;
}

/* A number of the program's comes as a tensor that does not count for the type of the result, and times another number is of the default type. So it becomes
   one of the result's type, like any other. */
static void convert_share(struct argument *argument, int64_t type) {
    struct tensor *whole = argument_tensor(argument);
    if ((int64_t)tensor_dtype(whole) != type)
        value_replace(argument->slot, TORCH_CALL("aten::to", "dtype", *argument->slot, value_int(type), value_bool(false),
                                                 value_bool(false), value_none()));
    else if (!tensor_dims(whole))
        value_replace(argument->slot, TORCH_CALL("aten::clone", "", *argument->slot, value_none()));
}

/* A replicated tensor's share: of a floating one this rank's part of one (infinities stay what they are), all of an integer one on rank 0. */
static void share_tensor(struct argument *argument, bool floating) {
    struct value share;
    if (floating)
        share = TORCH_CALL("aten::mul", "Scalar", *argument->slot, value_real(record_share(shim_rank(), shim_world_size())));
    else if (shim_rank() == 0)
        return;
    else
        share = TORCH_CALL("aten::zeros_like", "", *argument->slot, value_none(), value_none(), value_none(), value_none(), value_none());
    record_clear(share.tensor);
    value_replace(argument->slot, share);
}

static int64_t result_type(const struct shard_call *call) {
    if (call->argument_count > 1)
        return TORCH_CALL("aten::result_type", "Tensor", *call->arguments[0].slot, *call->arguments[1].slot).integer;
    return TORCH_CALL("aten::result_type", "Scalar", *call->arguments[0].slot, call->values[1]).integer;
}

static bool share_scalar(struct value *scalar, bool floating) {
    double share = record_share(shim_rank(), shim_world_size());
    if (scalar->tag == TAG_DOUBLE)
        scalar->real *= share;
    else if (scalar->tag != TAG_INT)
        return false;
    else if (floating)
        *scalar = value_real((double)scalar->integer * share);
    else if (shim_rank() != 0)
        scalar->integer = 0;
    return true;
}

/* Parts of integers add up to their sum, which may wrap, in their own type only. */
static bool keeps_integers(const struct shard_call *call) {
    bool is_binary = call->argument_count > 1 || call->values[1].tag == TAG_DOUBLE || call->values[1].tag == TAG_INT;
    for (int i = 0; i < call->argument_count; i++) {
        enum torch_dtype dtype = tensor_dtype(argument_tensor(&call->arguments[i]));
        if (call->arguments[i].record.kind != RECORD_PARTIAL || dtype_is_differentiable(dtype))
            continue;
        OPAQUE_SCOPE;
        if (!is_binary || result_type(call) != (int64_t)dtype)
            return false;
    }
    return true;
}

/* The value of a number, or of a tensor of one element; false: it is neither. */
static bool number_of(const struct value *factor, double *number) {
    if (factor->tag == TAG_DOUBLE || factor->tag == TAG_INT) {
        *number = factor->tag == TAG_INT ? (double)factor->integer : factor->real;
        return true;
    }
    if (!value_is_tensor(factor) || !tensor_is_plain(factor->tensor) || !tensor_is_on_host(factor->tensor) ||
        tensor_elements(factor->tensor) != 1)
        return false;
    enum torch_dtype dtype = tensor_dtype(factor->tensor);
    const void *data = tensor_data(factor->tensor);
    if (dtype == DTYPE_FLOAT32)
        *number = (double)*(const float *)data;
    else if (dtype == DTYPE_FLOAT64)
        *number = *(const double *)data;
    else if (dtype == DTYPE_INT64)
        *number = (double)*(const int64_t *)data;
    return dtype == DTYPE_FLOAT32 || dtype == DTYPE_FLOAT64 || dtype == DTYPE_INT64;
}

/* A loss is rounded elsewhere, too; of packed elements all parts but one are zero. */
static bool digits_count(const struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++) {
        struct tensor *tensor = argument_tensor(&call->arguments[i]);
        if (tensor_is_recorded(tensor) || packed_is_seen(tensor))
            return false;
    }
    return true;
}

static bool is_power_of_two(const struct value *factor) {
    double number;
    int exponent;
    return number_of(factor, &number) && fabs(frexp(number, &exponent)) == 0.5;
}

/* Each part would be rounded where one process rounds the sum: an accuracy that is the same as the last one's, or 1, would not be. */
static bool keeps_digits(const struct shard_call *call, int factor) {
    return !digits_count(call) || is_power_of_two(&call->values[factor]);
}

/* The same of what is added: a whole number's shares are fractions by powers of two, which are rounded nowhere. */
static bool adds_whole_numbers(const struct shard_call *call) {
    double number;
    if (!digits_count(call))
        return true;
    for (int i = 0; i < 2 && i < call->value_count; i++) {
        bool is_part = i < call->argument_count && call->arguments[i].record.kind == RECORD_PARTIAL;
        if (!is_part && !(number_of(&call->values[i], &number) && fabs(number) < WHOLE_MOST && number == (double)(int64_t)number))
            return false;
    }
    return call->value_count < 3 || is_power_of_two(&call->values[2]);
}

/* add and sub (self, other, alpha): both partial, or one partial and the other shared out. */
static bool execute_add(struct shard_call *call) {
    if (call->op->is_in_place && call->arguments[0].record.kind != RECORD_PARTIAL)
        return false; /* a replicated accumulator stays replicated: the other operand is summed first */
    if (call->op->is_in_place && packed_is_seen(argument_tensor(&call->arguments[0])))
        return false; /* is refused */
    if (!keeps_integers(call) || !adds_whole_numbers(call))
        return false;
    bool floating = all_floating(call) || has_shared_history(call);
    OPAQUE_SCOPE;
    int64_t type = call->argument_count > call->partials ? result_type(call) : 0;
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].record.kind != RECORD_PARTIAL) {
            convert_share(&call->arguments[i], type);
            share_tensor(&call->arguments[i], floating);
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

/* A part may be zero, or of another sign than the sum: 0/0 and inf - inf are no numbers where the sum's quotient by zero, or product with infinity, is one. */
static bool keeps_parts(const struct value *factor, bool divides) {
    double number;
    if (number_of(factor, &number))
        return number - number == 0 && !(divides && number == 0);
    if (!value_is_tensor(factor))
        return true;
    OPAQUE_SCOPE;
    struct value plain = TORCH_CALL("aten::detach", "", *factor);
    if (!dtype_is_differentiable(tensor_dtype(factor->tensor))) /* of 64 bits without a sign there are few operators */
        value_replace(&plain,
                      TORCH_CALL("aten::to", "dtype", plain, value_int(DTYPE_FLOAT64), value_bool(false), value_bool(false), value_none()));
    bool keeps =
        all_true(TORCH_CALL("aten::isfinite", "", plain)) && (!divides || all_true(TORCH_CALL("aten::ne", "Scalar", plain, value_int(0))));
    value_drop(plain);
    return keeps;
}

static bool execute_product(struct shard_call *call) {
    if (call->partials != 1 || (call->op->is_in_place && call->arguments[0].record.kind != RECORD_PARTIAL))
        return false;
    int factor = call->arguments[0].record.kind == RECORD_PARTIAL && call->arguments[0].position == 0;
    if (!keeps_integers(call) || !keeps_digits(call, factor) || !keeps_parts(&call->values[factor], false))
        return false;
    run_partial(call);
    return true;
}

static bool execute_quotient(struct shard_call *call) {
    if (call->partials != 1 || call->arguments[0].record.kind != RECORD_PARTIAL ||
        !dtype_is_differentiable(tensor_dtype(argument_tensor(&call->arguments[0]))) || !keeps_digits(call, 1) ||
        !keeps_parts(&call->values[1], true))
        return false;
    run_partial(call);
    return true;
}

static bool is_one_of(const char *name, const char *const *names) {
    while (*names && strcmp(name, *names))
        names++;
    return *names;
}

/* A sum in one type is not the sum in another: narrower ones round, and a float that is printed as a double must still be a float. Integers that are summed
   become 64 bits wide. */
static bool conversion_is_linear(const struct shard_call *call) {
    static const char *const sums[] = {"sum", "mean", NULL}, *const widening[] = {"sum", "cumsum", "trace", NULL};
    const char *name = call->op->short_name;
    struct tensor *parts = argument_tensor(&call->arguments[0]);
    enum torch_dtype dtype = tensor_dtype(parts);
    if (is_one_of(name, widening) && !dtype_is_differentiable(dtype) && dtype != DTYPE_INT64)
        return false;
    if (!strcmp(name, "mean") && !tensor_is_recorded(parts)) /* see keeps_digits() */
        return false;
    bool is_sum = is_one_of(name, sums);
    int type = is_sum ? call->value_count - 1 : 1; /* the type is the last argument of all their overloads */
    if ((!is_sum && strcmp(name, "_to_copy")) || call_is_none(call, type))
        return true;
    return call_int(call, type, -1) == (int64_t)dtype;
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
    case PARTIAL_AS_IS:
    case PARTIAL_PACKED:
        return false;
    }
    return false;
}
