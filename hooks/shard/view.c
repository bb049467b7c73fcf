/* Shape: views, permutations, pieces. Sizes that come from the program are the whole batch's. */
#include "window.h"

/* The new shape with -1 filled in; false: not possible (libtorch will say why). */
static bool shape_complete(const struct argument *self, int64_t *shape, int dims) {
    int64_t known = 1, all = argument_elements(self);
    int open = -1;
    for (int i = 0; i < dims; i++) {
        if (shape[i] < 0 && (open >= 0 || shape[i] != -1))
            return false;
        if (shape[i] < 0)
            open = i;
        else
            known *= shape[i];
    }
    if (open >= 0 && known)
        shape[open] = all / known;
    return all > 0 && known && (open < 0 ? known : known * shape[open]) == all;
}

/* Do the own rows, where they lie apart from the other ranks', have no gaps between their elements? The whole that is gathered has none. */
static bool has_no_gaps(const struct argument *argument) {
    const struct record *record = &argument->record;
    struct tensor *tensor = argument_tensor(argument);
    int64_t sizes[TORCH_DIMS_MAX], strides[TORCH_DIMS_MAX], whole = record_total(record), own = record_local(record);
    int dims = layout_dense(tensor, record, sizes, strides);
    struct sizes local = tensor_strides(tensor);
    for (int i = 0; i < dims; i++) {
        int64_t dense = strides[i] > strides[record->dim] ? strides[i] / whole * own : strides[i];
        if (sizes[i] > 1 && local.data[i] != dense)
            return false;
    }
    return true;
}

/* The dimension of the whole, which lies as one process's does, that steps of `stride` move along: the outermost that they are whole steps of; -1: none. */
static int dim_of_steps(const int64_t *strides, const int64_t *sizes, int dims, int64_t stride) {
    int found = -1;
    for (int i = 0; i < dims; i++)
        if (sizes[i] > 1 && strides[i] <= stride && stride % strides[i] == 0 && (found < 0 || strides[i] > strides[found]))
            found = i;
    return found;
}

/* Where the memory's element at `place` lies in the whole: that far its dimensions are used up. False: in a gap. */
static bool begin_at(int64_t place, const int64_t *strides, int64_t *sizes, int dims) {
    for (int64_t below = INT64_MAX; place;) {
        int outermost = -1;
        for (int i = 0; i < dims; i++)
            if (sizes[i] > 1 && strides[i] < below && (outermost < 0 || strides[i] > strides[outermost]))
                outermost = i;
        if (outermost < 0 || place / strides[outermost] >= sizes[outermost])
            return false;
        below = strides[outermost];
        sizes[outermost] -= place / below;
        place %= below;
    }
    return true;
}

/* as_strided(self, size, stride, place): does it see elements of self alone, none of what lies in its gaps (frames of one channel: stft)? */
static bool sees_own_elements(struct shard_call *call, const struct argument *self) {
    int64_t sizes[TORCH_DIMS_MAX], strides[TORCH_DIMS_MAX], counts[TORCH_DIMS_MAX], steps[TORCH_DIMS_MAX];
    int dims = layout_told(argument_tensor(self), &self->record, sizes, strides), wanted = call_ints(call, 1, counts);
    bool is_view = !strcmp(call->op->short_name, "as_strided") || !strcmp(call->op->short_name, "as_strided_copy");
    if (!is_view || wanted < 0 || call_ints(call, 2, steps) != wanted)
        return false;
    for (int i = 0; i < dims; i++)
        if (sizes[i] > 1 && strides[i] < 1) /* expanded */
            return false;
    if (call->value_count > 3 && !call_is_none(call, 3) && !begin_at(call_int(call, 3, 0), strides, sizes, dims))
        return false;
    for (int i = 0; i < wanted; i++) {
        int dim = counts[i] > 1 && steps[i] ? dim_of_steps(strides, sizes, dims, steps[i]) : -1;
        if (counts[i] < 1 || (dim < 0 && counts[i] > 1 && steps[i]))
            return false;
        if (dim >= 0)
            sizes[dim] -= (counts[i] - 1) * (steps[i] / strides[dim]);
        if (dim >= 0 && sizes[dim] < 1)
            return false;
    }
    return true;
}

__attribute__((noreturn)) static void refuse_strides(const struct shard_call *call) {
    shim_problem(
        "AR-STRIDES", "Take the strides of a tensor of its own (x.contiguous()), or index it instead.",
        "operator %s on a view of divided rows that are not all there is in their memory: what lies between them is elsewhere here",
        call->op->name);
}

void view_check_gathered(struct shard_call *call) {
    struct argument *self = call_argument(call, 0);
    struct tensor *source, *whole;
    struct record record;
    if (!self || self->record.kind != RECORD_GATHERED || strncmp(call->op->short_name, "as_strided", 10) ||
        !window_find(tensor_storage(argument_tensor(self)), &source, &record, &whole))
        return;
    struct extent asked = {.offset = tensor_storage_offset(argument_tensor(self))}, lies = extent_of(whole);
    bool has_place = call->value_count > 3 && !call_is_none(call, 3); /* which the program may have counted here, or as one process does */
    asked.offset = call_int(call, 3, asked.offset);
    asked.dims = call_ints(call, 1, asked.sizes);
    if ((has_place && lies.offset != extent_told(source, &record).offset) || asked.offset < 0 || asked.dims < 0 ||
        call_ints(call, 2, asked.strides) != asked.dims || !window_has_all(whole, &lies, &asked))
        refuse_strides(call);
}

/* as_strided, view.dtype: what they see is the whole's memory. A part of a sum lies there as the whole does, but has other bits. */
RULE_FUNCTION(memory) {
    const struct argument *self = call_argument(call, 0);
    bool has_place = call->value_count > 3 && !call_is_none(call, 3); /* counted from where the memory begins */
    if (self && self->record.kind == RECORD_SHARD && !strncmp(call->op->short_name, "as_strided", 10) &&
        ((!has_no_gaps(self) && !sees_own_elements(call, self)) || (has_place && tensor_storage_offset(argument_tensor(self)))))
        refuse_strides(call);
    return RULE_GATHER;
}

/* view, reshape: rows stay apart when one dimension of the new shape holds them all. What it has before and behind them is merged with them. */
RULE_FUNCTION(view) {
    int64_t shape[TORCH_DIMS_MAX];
    int dims = call_ints(call, 1, shape);
    if (call->lead != &call->arguments[0] || dims < 1 || !shape_complete(call->lead, shape, dims))
        return RULE_GATHER;
    int64_t before = call->record.outer, passed = 1; /* the elements along all dimensions before the rows, in the old and the new shape */
    for (int i = 0; i < call->record.dim; i++)
        before *= argument_size(call->lead, i);
    int dim = 0;
    while (passed * shape[dim] < before * call->record.total)
        passed *= shape[dim++];
    int64_t outer = before / passed;
    if (before % passed || shape[dim] % (outer * call->record.total))
        return RULE_GATHER;
    int64_t inner = shape[dim] / (outer * call->record.total);
    shape[dim] = outer * call->record.rows * inner;
    call_set_ints(call, 1, shape, dims);
    decide_merged(call, 0, dim, outer, inner);
    return RULE_LOCAL;
}

/* _reshape_alias(self, size, stride): what flatten and reshape of 1.13 become. The strides are those of the whole batch, so the own rows are
   given the new shape by reshape, which is a view wherever the whole one would be. */
RULE_FUNCTION(reshape_alias) {
    if (rule_view(call, rule) != RULE_LOCAL)
        return RULE_GATHER;
    int64_t shape[TORCH_DIMS_MAX];
    int dims = call_ints(call, 1, shape);
    OPAQUE_SCOPE;
    struct value result = TORCH_CALL("aten::reshape", "", call->values[0], value_int_list(shape, (size_t)dims));
    record_set(result.tensor, call->results[0]);
    execute_return(call, &result, 1);
    return RULE_DONE;
}

RULE_FUNCTION(expand) {
    int64_t shape[TORCH_DIMS_MAX];
    int dims = call_ints(call, 1, shape), own = argument_dims(call->lead);
    if (dims < own || call->lead != &call->arguments[0])
        return RULE_GATHER;
    int dim = dims - own + call->record.dim;
    for (int i = 0; i < own; i++) /* does not fit: libtorch says so, of whole sizes */
        if (i != call->record.dim && argument_size(call->lead, i) != 1 && shape[dims - own + i] != -1 &&
            shape[dims - own + i] != argument_size(call->lead, i))
            return RULE_GATHER;
    if (shape[dim] != -1 && shape[dim] != record_total(&call->record))
        return RULE_GATHER;
    shape[dim] = record_local(&call->record);
    call_set_ints(call, 1, shape, dims);
    decide_shard(call, 0, dim);
    return RULE_LOCAL;
}

RULE_FUNCTION(transpose) {
    int dims = argument_dims(call->lead);
    int one = wrap_dim(call_int(call, 1, 0), dims), other = wrap_dim(call_int(call, 2, 0), dims), dim = call->record.dim;
    decide_shard(call, 0, dim == one ? other : dim == other ? one : dim);
    return RULE_LOCAL;
}

RULE_FUNCTION(matrix_transpose) {
    decide_shard(call, 0, argument_dims(call->lead) == 2 ? 1 - call->record.dim : call->record.dim);
    return RULE_LOCAL;
}

RULE_FUNCTION(permute) {
    int64_t order[TORCH_DIMS_MAX];
    int dims = argument_dims(call->lead), dim = -1;
    if (call_ints(call, 1, order) != dims)
        return RULE_GATHER;
    for (int i = 0; i < dims; i++)
        if (wrap_dim(order[i], dims) == call->record.dim)
            dim = i;
    if (dim < 0)
        return RULE_GATHER;
    decide_shard(call, 0, dim);
    return RULE_LOCAL;
}

RULE_FUNCTION(unsqueeze) {
    int at = wrap_dim(call_int(call, 1, 0), argument_dims(call->lead) + 1);
    decide_shard(call, 0, call->record.dim + (at <= call->record.dim));
    return RULE_LOCAL;
}

static bool dims_exist(const int64_t *named, int count, int dims) {
    for (int i = 0; i < count; i++)
        if (named[i] >= (dims ? dims : 1) || named[i] < -(dims ? dims : 1))
            return false;
    return true;
}

/* Dimensions of size one in the whole batch, not in the own rows: a rank may hold a single row. So each is dropped by name. */
RULE_FUNCTION(squeeze) {
    int dims = argument_dims(call->lead);
    bool drop[TORCH_DIMS_MAX];
    int64_t named[TORCH_DIMS_MAX];
    int count = call_ints(call, 1, named);
    if (call->lead != &call->arguments[0] || !dims_exist(named, count, dims))
        return RULE_GATHER;
    if (call->op->is_in_place) { /* of one named dimension: another than the rows is what it is on every rank */
        int at = count == 1 ? wrap_dim(named[0], dims) : call->record.dim;
        if (at == call->record.dim)
            return RULE_GATHER;
        decide_shard(call, 0, call->record.dim - (at < call->record.dim && argument_size(call->lead, at) == 1));
        return RULE_LOCAL;
    }
    for (int i = 0; i < dims; i++)
        drop[i] = call->value_count < 2 && argument_size(call->lead, i) == 1;
    for (int i = 0; i < count; i++)
        drop[wrap_dim(named[i], dims)] = argument_size(call->lead, wrap_dim(named[i], dims)) == 1;
    struct record record = call->record;
    tensor_retain(argument_tensor(call->lead));
    struct value result = value_tensor(argument_tensor(call->lead));
    bool dropped = false;
    for (int i = dims - 1; i >= 0; i--) {
        if (!drop[i])
            continue;
        value_replace(&result, TORCH_CALL("aten::squeeze", "dim", result, value_int(i)));
        record.dim -= i < record.dim;
        dropped = true;
    }
    if (!dropped)
        value_replace(&result, TORCH_CALL("aten::alias", "", result));
    record_set(result.tensor, record);
    execute_return(call, &result, 1);
    return RULE_DONE;
}

RULE_FUNCTION(select) {
    int at = wrap_dim(call_int(call, 1, 0), argument_dims(call->lead));
    int64_t index = call_int(call, 2, 0), size = at >= 0 && at < argument_dims(call->lead) ? argument_size(call->lead, at) : 0;
    if (at == call->record.dim || index >= size || index < -size)
        return RULE_GATHER;
    decide_shard(call, 0, call->record.dim - (at < call->record.dim));
    return RULE_LOCAL;
}

/* ---- pieces along the divided dimension: all rows, once or several times, where other dimensions are merged before them */

/* How often `count` elements along the divided dimension hold all rows; 0: some rows only. */
static int64_t times_all_rows(const struct record *record, int64_t count) {
    return count % (record->total * record->inner) ? 0 : count / (record->total * record->inner);
}

static int64_t clamp(int64_t position, int64_t size) {
    position += position < 0 ? size : 0;
    return position < 0 ? 0 : position > size ? size : position;
}

/* slice(self, dim, start, end, step) */
RULE_FUNCTION(slice) {
    const struct record *record = &call->record;
    int at = wrap_dim(call_int(call, 1, 0), argument_dims(call->lead));
    if (at != record->dim) {
        decide_shard(call, 0, record->dim);
        return RULE_LOCAL;
    }
    int64_t start = clamp(call_int(call, 2, 0), record_total(record)), end = clamp(call_int(call, 3, INT64_MAX), record_total(record));
    int64_t outer = times_all_rows(record, end - start), skipped = times_all_rows(record, start);
    if (outer <= 0 || (start && !skipped) || call_int(call, 4, 1) != 1)
        return RULE_GATHER;
    value_replace(&call->values[2], value_int(skipped * record->rows * record->inner));
    value_replace(&call->values[3], value_int((skipped + outer) * record->rows * record->inner));
    decide_merged(call, 0, record->dim, outer, record->inner);
    return RULE_LOCAL;
}

/* split(self, size), split(self, sizes), chunk(self, chunks): how often all rows are in each of the parts, which must be alike; 0: not so. */
static int64_t split_evenly(struct shard_call *call) {
    const struct record *record = &call->record;
    int64_t sizes[TORCH_DIMS_MAX];
    int count = call_ints(call, 1, sizes);
    if (count < 1 || sizes[0] < 1)
        return 0;
    if (!strcmp(call->op->short_name, "chunk"))
        return record->outer % sizes[0] ? 0 : record->outer / sizes[0];
    for (int i = 1; i < count; i++)
        if (sizes[i] != sizes[0])
            return 0;
    int64_t outer = times_all_rows(record, sizes[0]), own = outer * record->rows * record->inner;
    if (!outer || record->outer % outer)
        return 0;
    for (int i = 0; i < count; i++)
        sizes[i] = own;
    value_replace(&call->values[1], value_is_list(&call->values[1]) ? value_int_list(sizes, (size_t)count) : value_int(own));
    return outer;
}

/* a: position of the dimension; b: the dimension disappears (unbind) */
RULE_FUNCTION(split) {
    int at = wrap_dim(call_int(call, rule->a, 0), argument_dims(call->lead));
    if (at != call->record.dim) {
        decide_shard(call, 0, call->record.dim - (rule->b && at < call->record.dim));
        return RULE_LOCAL;
    }
    int64_t outer = rule->b ? 0 : split_evenly(call);
    if (!outer)
        return RULE_GATHER;
    decide_merged(call, 0, at, outer, call->record.inner);
    return RULE_LOCAL;
}

/* Along the rows: each tensor brings all of them. *outer: how often they are in the result. Replicated tensors are narrowed like the lead. */
static bool cat_rows(struct shard_call *call, int dim, int64_t *outer) {
    *outer = 0;
    for (int i = 0; i < call->argument_count; i++) {
        struct argument *argument = &call->arguments[i];
        bool divided = argument->record.kind == RECORD_SHARD;
        if (divided ? argument->record.dim != dim || argument->record.total != call->record.total ||
                          argument->record.inner != call->record.inner
                    : argument_dims(argument) <= dim || argument_size(argument, dim) != record_total(&call->record))
            return false;
        if (!divided)
            decide_narrow(argument, dim);
        *outer += divided ? argument->record.outer : call->record.outer;
    }
    return true;
}

/* torch.cat leaves out what has one dimension and no elements, whatever the others have (a loop begins with torch.tensor([])): nothing is asked of it. */
static void leave_out_empty(struct shard_call *call) {
    int kept = 0;
    for (int i = 0; i < call->argument_count; i++) {
        struct argument *argument = &call->arguments[i];
        if (argument->record.kind != RECORD_SHARD && argument_dims(argument) == 1 && !argument_size(argument, 0))
            continue;
        if (call->lead == argument)
            call->lead = &call->arguments[kept];
        call->arguments[kept++] = *argument;
    }
    call->argument_count = kept;
}

RULE_FUNCTION(cat) {
    leave_out_empty(call);
    int at = wrap_dim(call_int(call, rule->a, 0), argument_dims(call->lead));
    int64_t outer = call->record.outer;
    if (at == call->record.dim ? !cat_rows(call, at, &outer) : !decide_rows_at(call, call->record.dim))
        return RULE_GATHER;
    decide_merged(call, 0, call->record.dim, outer, call->record.inner);
    return RULE_LOCAL;
}

RULE_FUNCTION(stack) {
    int at = wrap_dim(call_int(call, rule->a, 0), argument_dims(call->lead) + 1);
    if (!decide_rows_at(call, call->record.dim))
        return RULE_GATHER;
    decide_shard(call, 0, call->record.dim + (at <= call->record.dim));
    return RULE_LOCAL;
}

/* constant_pad_nd(self, pad, value): pairs for the last dimensions */
RULE_FUNCTION(pad) {
    int64_t pads[2 * TORCH_DIMS_MAX];
    int count = call_ints(call, rule->a, pads), dims = argument_dims(call->lead);
    if (count < 0 || call->record.dim >= dims - count / 2)
        return RULE_GATHER;
    decide_shard(call, 0, call->record.dim);
    return RULE_LOCAL;
}

/* is_same_size(self, other): of the whole batch's sizes */
RULE_FUNCTION(same_size) {
    struct argument *self = call_argument(call, 0), *other = call_argument(call, 1);
    bool same = self && other && argument_dims(self) == argument_dims(other);
    for (int i = 0; same && i < argument_dims(self); i++)
        same = argument_size(self, i) == argument_size(other, i);
    execute_return(call, (struct value[]){value_bool(same)}, 1);
    return RULE_DONE;
}
