/* Reductions: over the rows they become partial sums, along other dimensions they stay with the rows. */
#include "shard.h"

/* Which dimensions are reduced (bit set); all when the list is absent, none or empty. -1: not understood. */
static int64_t reduced_dims(const struct shard_call *call, int position, int dims) {
    int64_t named[TORCH_DIMS_MAX];
    if (position >= call->value_count || call_is_none(call, position))
        return (1ll << dims) - 1;
    int count = call_ints(call, position, named);
    if (count < 0)
        return -1;
    int64_t reduced = count ? 0 : (1ll << dims) - 1;
    for (int i = 0; i < count; i++) {
        int dim = wrap_dim(named[i], dims);
        if (dim < 0 || dim >= dims)
            return -1;
        reduced |= 1ll << dim;
    }
    return reduced;
}

static int dim_after(int dim, int64_t reduced, bool keep) {
    return keep ? dim : dim - __builtin_popcountll((uint64_t)reduced & ((1ull << dim) - 1));
}

/* A sum of half precision, whose parts may overflow where it does not, or a mean: what one process
   rounds once is not to be rounded on each rank, as long as nothing flows back through it (an accuracy of 0.58 is not better than one of 0.58). */
static bool is_summed_first(const struct shard_call *call, bool is_mean, enum torch_dtype type) {
    return (is_mean || dtype_is_narrow(type)) && dtype_is_floating(type) && !tensor_is_recorded(argument_tensor(call->lead));
}

/* libtorch 1.13 rounds the sum of a mean to half precision, where it may overflow, before it divides it. */
static bool rounds_sums(void) {
    static _Atomic int known; /* 1: no, 2: yes */
    if (!known) {
        int64_t two = 2;
        struct value large = TORCH_CALL("aten::full", "", value_int_list(&two, 1), value_real(60000), value_int(DTYPE_FLOAT16),
                                        value_none(), value_none(), value_none());
        struct value mean = TORCH_CALL("aten::mean", "", large, value_none()), number = TORCH_CALL("aten::item", "", mean);
        known = 1 + (number.real > 60000);
        value_drop(mean);
        value_drop(large);
    }
    return known == 2;
}

static void convert(struct value *tensor, enum torch_dtype type) {
    if (tensor_dtype(tensor->tensor) != type)
        value_replace(tensor,
                      TORCH_CALL("aten::to", "dtype", *tensor, value_int(type), value_bool(false), value_bool(false), value_none()));
}

/* Does libtorch round each element to the type that is asked for, where one beyond 65504 is no number any more, before it sums them in float32? */
static bool rounds_elements(const struct shard_call *call, bool is_mean, enum torch_dtype type) {
    struct tensor *given = argument_tensor(call->lead);
    return dtype_is_narrow(type) && tensor_dtype(given) != type && (!is_mean || !tensor_is_on_host(given) || rounds_sums());
}

/* Sums in float32 what has half precision, as libtorch does. */
static enum rule_outcome sum_first(struct shard_call *call, bool has_dims, bool is_mean, enum torch_dtype type) {
    if (!call->dispatch->stack)
        return RULE_GATHER; /* it was called without boxing, and comes again */
    OPAQUE_SCOPE;
    const struct value *given = call->values, summed = value_int(type == DTYPE_FLOAT64 ? DTYPE_FLOAT64 : DTYPE_FLOAT32);
    int64_t dims[TORCH_DIMS_MAX];
    int count = has_dims ? call_ints(call, 1, dims) : -1; /* a list of our own: a call keeps those that it is given */
    struct value named = count < 0 ? value_none() : value_int_list(dims, (size_t)count);
    tensor_retain(given[0].tensor);
    struct value rows = value_tensor(given[0].tensor);
    if (rounds_elements(call, is_mean, type))
        convert(&rows, type);
    struct value parts =
        has_dims ? TORCH_CALL("aten::sum", "dim_IntList", rows, named, given[2], summed) : TORCH_CALL("aten::sum", "", rows, summed);
    value_drop(rows);
    record_clear(parts.tensor);
    record_set(parts.tensor, (struct record){.kind = RECORD_PARTIAL, .origin = origin_of_result(call->record.origin, 0)});
    struct value whole = value_tensor(gather_partial(call->op->name, parts.tensor));
    if (is_mean) {
        if (tensor_is_on_host(whole.tensor) && rounds_sums())
            convert(&whole, type);
        int64_t results = tensor_elements(whole.tensor), terms = results ? argument_elements(call->lead) / results : 1;
        value_replace(&whole, TORCH_CALL("aten::div", "Scalar", whole, value_int(terms)));
    }
    convert(&whole, type);
    value_drop(parts);
    execute_return(call, &whole, 1);
    return RULE_DONE;
}

/* Of a sum for which the program names none. Below us autocast on a device (not on the host) has half precision summed to float32: a sum of nothing tells. */
static enum torch_dtype type_of_result(const struct shard_call *call) {
    struct tensor *given = argument_tensor(call->lead);
    enum torch_dtype type = tensor_dtype(given);
    if (strcmp(call->op->short_name, "sum") || tensor_is_on_host(given) || !dtype_is_narrow(type))
        return type;
    OPAQUE_SCOPE;
    struct value none = TORCH_CALL("aten::narrow", "", value_tensor(given), value_int(0), value_int(0), value_int(0)),
                 sum = TORCH_CALL("aten::sum", "", none, value_none());
    type = tensor_dtype(sum.tensor);
    value_drop(none);
    value_drop(sum);
    return type;
}

/* sum, nansum, mean (a = 1): (self, *, dtype) or (self, dims, keepdim, dtype), as every nansum is. The mean of all rows is the sum of the ranks' means, each
   weighed by its rows. */
RULE_FUNCTION(reduce_sum) {
    bool has_dims = call->value_count >= 4;
    if (call->op->overload[0] && strcmp(call->op->overload, "dim_IntList") && strcmp(call->op->overload, "dim"))
        return RULE_GATHER;
    int64_t reduced = has_dims ? reduced_dims(call, 1, argument_dims(call->lead)) : -1;
    bool over_rows = !has_dims || (reduced >> call->record.dim & 1);
    if (has_dims && reduced < 0)
        return RULE_GATHER;
    if (!over_rows) {
        decide_shard(call, 0, dim_after(call->record.dim, reduced, call_flag(call, 2)));
        return RULE_LOCAL;
    }
    int type_at = call->value_count - 1;
    enum torch_dtype type = call_is_none(call, type_at) ? type_of_result(call) : (enum torch_dtype)call_int(call, type_at, DTYPE_FLOAT32);
    if (type == DTYPE_BOOL && !call_is_none(call, type_at))
        return RULE_GATHER;
    if (is_summed_first(call, rule->a, type))
        return strcmp(call->op->short_name, "nansum") ? sum_first(call, has_dims, rule->a, type) : RULE_GATHER;
    if (rule->a)
        call->scale = (double)call->record.rows / (double)call->record.total;
    decide_partial(call, 0);
    return RULE_LOCAL;
}

/* max, argmax, norm...: a: position of the dimension(s), b: of keepdim. Over the rows themselves they need all rows. */
RULE_FUNCTION(reduce_along) {
    if (call->argument_count != 1 || rule->a >= call->value_count || call_is_none(call, rule->a))
        return RULE_GATHER;
    int64_t reduced = reduced_dims(call, rule->a, argument_dims(call->lead));
    if (reduced < 0 || (reduced >> call->record.dim & 1))
        return RULE_GATHER;
    decide_shard(call, 0, dim_after(call->record.dim, reduced, call_flag(call, rule->b)));
    return RULE_LOCAL;
}

enum { INDEX_AT = 2 }; /* gather, scatter: the indices' place, after the dimension's */

/* softmax, cumsum, sort, gather...: a: position of the dimension they work along; the shape stays. */
RULE_FUNCTION(along) {
    if (rule->a >= call->value_count || call->values[rule->a].tag != TAG_INT)
        return RULE_GATHER;
    int dims = argument_dims(call->lead), at = wrap_dim(call_int(call, rule->a, 0), dims);
    if (at == call->record.dim || at < 0 || at >= dims ||
        !decide_rows_at(call, call->record.dim)) /* a dimension that is none: libtorch says so */
        return RULE_GATHER;
    if (rule->a == INDEX_AT - 1 && !bounds_hold(call, INDEX_AT, argument_size(call_argument(call, 0), at)))
        return RULE_GATHER;
    decide_shard(call, 0, call->record.dim);
    return RULE_LOCAL;
}

/* any, all (a = 1) of everything, _is_all_true: of the own rows, then of the ranks' answers. */
RULE_FUNCTION(any) {
    enum torch_dtype dtype = tensor_dtype(argument_tensor(call->lead));
    if (call->value_count != 1 || !tensor_is_on_host(argument_tensor(call->lead)) || dtype == DTYPE_UINT8)
        return RULE_GATHER;
    dispatch_run_opaque(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
    struct tensor *answer = call->dispatch->stack->begin[0].tensor;
    struct comm_span span = {tensor_data(answer), 1};
    record_clear(answer);
    SHIM_COMM_SCOPE;
    origin_note(call->record.origin);
    comm_all_reduce(call->op->name, &span, 1, COMM_BOOL, rule->a ? COMM_MIN : COMM_MAX);
    return RULE_DONE;
}

/* equal(self, other): the own rows, then the ranks' answers. libtorch's attention asks it of its query and key in C++. */
RULE_FUNCTION(equal) {
    if (!decide_rows_at(call, call->record.dim))
        return RULE_GATHER;
    execute_narrow(call);
    dispatch_run_opaque(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
    struct value *answer = call->dispatch->stack->begin;
    uint8_t same = value_flag(answer);
    struct comm_span span = {&same, 1};
    SHIM_COMM_SCOPE;
    origin_note(call->record.origin);
    comm_all_reduce(call->op->name, &span, 1, COMM_BOOL, COMM_MIN);
    *answer = value_bool(same);
    return RULE_DONE;
}

/* cosine_similarity(x1, x2, dim, eps): the composite; over the rows themselves 1.13 would write to a partial sum in it. */
RULE_FUNCTION(cosine) {
    int dims = 0;
    for (int i = 0; i < call->argument_count; i++)
        dims = argument_dims(&call->arguments[i]) > dims ? argument_dims(&call->arguments[i]) : dims;
    int rows = dims - argument_dims(call->lead) + call->record.dim;
    return wrap_dim(call_int(call, 2, 1), dims) == rows ? RULE_GATHER : RULE_COMPOSE;
}
