/* Indices: looking rows, or parts of each row, up by tensors of positions. */
#include "held.h"
#include "shard.h"

/* As many indices as there are rows, all of them on every rank? Not where the program may look at what is kept for the backward. */
static bool orders_rows(const struct shard_call *call, const struct argument *index) {
    const struct record *record = &call->record;
    return !execute_are_saves_seen() && argument_dims(index) == 1 && argument_size(index, 0) == record->total &&
           record_total(record) == record->total && index->record.kind != RECORD_SHARD && index->record.kind != RECORD_PARTIAL &&
           !call->op->is_out;
}

/* All rows in another order: the rows of the others are needed, but the result is divided like self. */
static void reorder_rows(struct shard_call *call, const struct argument *index) {
    report_gather();
    explain_gather(call, "gathered its rows");
    execute_compare(call, index);
    OPAQUE_SCOPE;
    struct record record = call->record;
    value_replace(call->lead->slot, value_tensor(gather_shard(call->op->name, argument_tensor(call->lead), &record)));
    value_replace(index->slot, value_tensor(rows_take(argument_tensor(index), &record, 0)));
    dispatch_run_opaque(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
    struct tensor *result = call->dispatch->stack->begin->tensor;
    record_clear(result);
    record_set(result, record);
}

/* index_select(self, dim, index): parts of every own row, or a replicated table looked up by own indices. */
RULE_FUNCTION(index_select) {
    struct argument *self = call_argument(call, 0), *index = call_argument(call, 2);
    if (!self || !index || call->shards != 1)
        return RULE_GATHER;
    int dim = wrap_dim(call_int(call, 1, 0), argument_dims(self));
    if (call->lead == index && argument_dims(index) == 1) {
        decide_shard(call, 0, dim);
        return RULE_LOCAL;
    }
    if (call->lead != self)
        return RULE_GATHER;
    if (dim != call->record.dim) {
        decide_shard(call, 0, call->record.dim);
        return RULE_LOCAL;
    }
    if (!orders_rows(call, index) || !bounds_hold(call, 2, argument_size(self, dim)))
        return RULE_GATHER;
    reorder_rows(call, index);
    return RULE_DONE;
}

/* ---- self[indices]: a list with a tensor of positions, or nothing, for each dimension */

struct indices {
    int count;       /* positions in the list */
    int first, last; /* first and last position that has a tensor */
    int tensors;     /* how many have */
    int dims;        /* dimensions of all tensors broadcast together */
    bool adjacent;   /* they stand together: their dimensions take the place of the indexed ones, else they come first */
    bool with_rows;  /* the one at the lead's divided dimension (when the lead is self) is a tensor */
};

static struct argument *index_argument(struct shard_call *call, const struct value *element) {
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].slot == element)
            return &call->arguments[i];
    return NULL;
}

static bool is_mask(const struct argument *index) {
    enum torch_dtype dtype = tensor_dtype(argument_tensor(index));
    return dtype == DTYPE_BOOL || dtype == DTYPE_UINT8;
}

/* A mask over one dimension that no rank has a part of, all of it there. */
static bool is_mask_of_columns(const struct shard_call *call, const struct argument *mask, int dim) {
    struct tensor *tensor = argument_tensor(mask);
    return tensor_dtype(tensor) == DTYPE_BOOL && mask->record.kind != RECORD_SHARD && mask->record.kind != RECORD_PARTIAL &&
           tensor_is_plain(tensor) && tensor_is_on_host(tensor) && argument_dims(mask) == 1 && dim != call->record.dim &&
           dim < argument_dims(call->lead) && argument_size(mask, 0) == argument_size(call->lead, dim);
}

/* self[:, mask] with a mask that all ranks have: becomes the numbers of its columns, as libtorch itself takes it. Not where the program may look at what is
   kept for the backward. */
static void number_columns(struct shard_call *call) {
    struct argument *self = call_argument(call, 0);
    if (call->value_count < 2 || !value_is_list(&call->values[1]) || !self || call->lead != self || execute_are_saves_seen())
        return;
    struct stack *list = value_list(&call->values[1]);
    for (struct value *element = list->begin; element < list->end; element++) {
        const struct argument *index = index_argument(call, element);
        if (index && is_mask(index) && !is_mask_of_columns(call, index, (int)(element - list->begin)))
            return;
    }
    for (struct value *element = list->begin; element < list->end; element++) {
        const struct argument *index = index_argument(call, element);
        if (!index || !is_mask(index))
            continue;
        execute_compare(call, index);
        OPAQUE_SCOPE;
        HELD places = TORCH_CALL("aten::nonzero", "", *element);
        value_replace(element, TORCH_CALL("aten::squeeze", "dim", places, value_int(1)));
    }
}

/* False when a mask is among them: how many it selects is known to nobody before. */
static bool indices_read(struct shard_call *call, struct indices *indices) {
    *indices = (struct indices){.first = -1};
    if (call->value_count < 2 || !value_is_list(&call->values[1]))
        return false;
    struct stack *list = value_list(&call->values[1]);
    indices->count = (int)(list->end - list->begin);
    for (int i = 0; i < indices->count; i++) {
        struct argument *index = index_argument(call, &list->begin[i]);
        if (!index)
            continue;
        if (is_mask(index))
            return false;
        indices->first = indices->first < 0 ? i : indices->first;
        indices->last = i;
        indices->tensors++;
        if (argument_dims(index) > indices->dims)
            indices->dims = argument_dims(index);
        indices->with_rows |= i == call->record.dim;
    }
    indices->adjacent = indices->last - indices->first + 1 == indices->tensors;
    return indices->tensors > 0;
}

/* Where the lead's divided dimension, which is not indexed, stands in self[indices]. Tensors that do not stand together come first, the
   rest follows in order. */
static int rows_after(struct shard_call *call, const struct indices *indices) {
    int dim = call->record.dim, before = 0;
    if (indices->adjacent && dim < indices->first)
        return dim;
    struct stack *list = value_list(&call->values[1]);
    for (int i = 0; i < dim && i < indices->count; i++)
        before += index_argument(call, &list->begin[i]) != NULL;
    return dim - before + indices->dims;
}

/* A replicated table looked up by own indices: all index tensors are cut along the dimension in which they are broadcast together. */
static bool decide_lookup(struct shard_call *call, const struct indices *indices) {
    struct stack *list = value_list(&call->values[1]);
    int from_end = argument_dims(call->lead) - call->record.dim;
    int8_t narrow[TORCH_DIMS_MAX];
    for (int i = 0; i < indices->count; i++) {
        struct argument *index = index_argument(call, &list->begin[i]);
        narrow[i] = -1;
        if (!index)
            continue;
        int dim = argument_dims(index) - from_end;
        if (index->record.kind == RECORD_SHARD) {
            if (index->record.dim != dim || !record_same_rows(&index->record, &call->record))
                return false;
        } else if (dim >= 0 && argument_size(index, dim) != 1) {
            if (argument_size(index, dim) != record_total(&call->record))
                return false;
            narrow[i] = (int8_t)dim;
        }
    }
    for (int i = 0; i < indices->count; i++)
        if (narrow[i] >= 0)
            decide_narrow(index_argument(call, &list->begin[i]), narrow[i]);
    decide_shard(call, 0, (indices->adjacent ? indices->first : 0) + indices->dims - from_end);
    return true;
}

/* One of the others beside the rows' own: a number for all, or one for each row. */
static bool fits_rows(struct shard_call *call, const struct argument *index, int64_t size) {
    if (!tensor_is_plain(argument_tensor(index)))
        return false;
    if (argument_dims(index) == 0 || argument_size(index, 0) == 1)
        return index->record.kind != RECORD_SHARD && index->record.kind != RECORD_PARTIAL;
    if (index->record.kind == RECORD_SHARD)
        return index->record.dim == 0 && record_same_rows(&index->record, &call->record);
    return index->record.kind != RECORD_PARTIAL && argument_size(index, 0) == record_total(&call->record) &&
           !bounds_count_outside(argument_tensor(index), size, 0);
}

/* self[arange(rows), positions]: of each row the element, or part, at its position (a likelihood of the label, the value of an action). Every rank looks its
   own rows up. Narrows the indices; false: nothing is changed. */
static bool decide_of_each_row(struct shard_call *call, const struct argument *self, const struct indices *indices) {
    struct stack *list = value_list(&call->values[1]);
    struct argument *rows = indices->with_rows ? index_argument(call, &list->begin[call->record.dim]) : NULL;
    int64_t total = record_total(&call->record);
    if (!rows || call->lead != self || call_rows_are_one(call) || call->op->is_out || !tensor_is_plain(argument_tensor(rows)) ||
        indices->dims != 1 || rows->record.kind == RECORD_SHARD || rows->record.kind == RECORD_PARTIAL || argument_dims(rows) != 1 ||
        argument_size(rows, 0) != total || dtype_bytes(tensor_dtype(argument_tensor(rows))) < 4)
        return false;
    for (int i = 0; i < indices->count; i++) {
        struct argument *index = index_argument(call, &list->begin[i]);
        if (index && index != rows && !fits_rows(call, index, argument_size(self, i)))
            return false;
    }
    OPAQUE_SCOPE;
    if (!bounds_count_evenly(argument_tensor(rows), total, 1))
        return false;
    for (int i = 0; i < indices->count; i++) {
        struct argument *index = index_argument(call, &list->begin[i]);
        if (index && index != rows && index->record.kind != RECORD_SHARD && argument_dims(index) && argument_size(index, 0) != 1)
            decide_narrow(index, 0);
    }
    execute_compare(call, rows);
    struct value own = /* as many, from 0 on */
        TORCH_CALL("aten::narrow", "", *rows->slot, value_int(0), value_int(0), value_int(record_local(&call->record)));
    value_replace(rows->slot, own);
    return true;
}

/* Where the rows stand in the result of that. */
static int rows_of_each(const struct indices *indices) {
    return indices->adjacent ? indices->first : 0;
}

/* Each index is a row counted from the first on, or from the last back. */
static bool are_rows(const struct argument *order, int64_t rows) {
    struct tensor *tensor = argument_tensor(order);
    int64_t outside = bounds_count_outside(tensor, rows, 0);
    if (!outside)
        return true;
    OPAQUE_SCOPE;
    HELD from_last = TORCH_CALL("aten::add", "Scalar", value_tensor(tensor), value_int(rows), value_int(1));
    return outside + bounds_count_outside(from_last.tensor, rows, 0) == rows;
}

/* self[order], or self[:, order] where columns are divided (mixup, negatives of a contrastive loss); NULL: something else. */
static const struct argument *order_of_rows(struct shard_call *call, const struct indices *indices) {
    const struct argument *order = index_argument(call, &value_list(&call->values[1])->begin[call->record.dim]);
    bool is_order = indices->tensors == 1 && call->shards == 1 && orders_rows(call, order) && are_rows(order, call->record.total);
    return is_order ? order : NULL;
}

/* index.Tensor(self, indices) */
RULE_FUNCTION(index) {
    struct argument *self = call_argument(call, 0);
    struct indices indices;
    number_columns(call);
    if (!self || !indices_read(call, &indices) || indices.count > TORCH_DIMS_MAX)
        return RULE_GATHER;
    if (self->record.kind != RECORD_SHARD)
        return decide_lookup(call, &indices) ? RULE_LOCAL : RULE_GATHER;
    if (indices.with_rows && !decide_of_each_row(call, self, &indices)) {
        const struct argument *order = order_of_rows(call, &indices);
        if (!order)
            return RULE_GATHER;
        reorder_rows(call, order);
        return RULE_DONE;
    }
    if (!indices.with_rows && call->shards != 1)
        return RULE_GATHER;
    decide_shard(call, 0, indices.with_rows ? rows_of_each(&indices) : rows_after(call, &indices));
    return RULE_LOCAL;
}

/* The one mask of self[mask], when it selects among every row's own elements: NULL otherwise. */
static struct argument *only_mask(struct shard_call *call) {
    if (call->value_count < 3 || !value_is_list(&call->values[1]))
        return NULL;
    struct stack *list = value_list(&call->values[1]);
    struct argument *mask = list->end - list->begin == 1 ? index_argument(call, list->begin) : NULL;
    return mask && tensor_dtype(argument_tensor(mask)) == DTYPE_BOOL && argument_dims(mask) > call->record.dim ? mask : NULL;
}

/* self[mask] = one value */
static bool decide_masked_put(struct shard_call *call) {
    struct argument *self = call_argument(call, 0), *values = call_argument(call, 2), *mask = only_mask(call);
    if (!mask || values->record.kind == RECORD_SHARD || argument_elements(values) != 1)
        return false;
    for (int i = 0; i < argument_dims(mask); i++)
        if (i >= argument_dims(self) || argument_size(mask, i) != argument_size(self, i))
            return false;
    if (mask->record.kind == RECORD_SHARD)
        return mask->record.dim == self->record.dim && record_same_rows(&mask->record, &self->record);
    decide_narrow(mask, self->record.dim);
    return true;
}

/* The sizes of all index tensors broadcast together. */
static void sizes_together(struct shard_call *call, const struct indices *indices, int64_t *sizes) {
    struct stack *list = value_list(&call->values[1]);
    for (int dim = 0; dim < indices->dims; dim++)
        sizes[dim] = 1;
    for (int i = 0; i < indices->count; i++) {
        const struct argument *index = index_argument(call, &list->begin[i]);
        int missing = index ? indices->dims - argument_dims(index) : 0;
        for (int dim = 0; index && dim < argument_dims(index); dim++)
            if (argument_size(index, dim) != 1)
                sizes[missing + dim] = argument_size(index, dim);
    }
}

/* Do they broadcast to self[indices]? If not libtorch says so, of whole sizes. */
static bool values_fit(struct shard_call *call, const struct argument *self, const struct argument *values, const struct indices *indices) {
    int64_t sizes[2 * TORCH_DIMS_MAX];
    int together = indices->adjacent ? indices->first : 0, count = 0, dims = argument_dims(self);
    struct stack *list = value_list(&call->values[1]);
    if (indices->dims > TORCH_DIMS_MAX || indices->count > dims)
        return false;
    for (int dim = 0; dim < dims; dim++) {
        if (dim == together) {
            sizes_together(call, indices, sizes + count);
            count += indices->dims;
        }
        if (dim >= indices->count || !index_argument(call, &list->begin[dim]))
            sizes[count++] = argument_size(self, dim);
    }
    int missing = count - argument_dims(values);
    for (int dim = 0; dim < argument_dims(values); dim++)
        if (missing < 0 || (argument_size(values, dim) != 1 && argument_size(values, dim) != sizes[missing + dim]))
            return false;
    return true;
}

/* self[:, positions] = values, which broadcast to the shape of self[:, positions]; likewise self[arange(rows), positions] */
static bool decide_put(struct shard_call *call) {
    struct argument *self = call_argument(call, 0), *values = call_argument(call, 2);
    struct indices indices;
    if (!indices_read(call, &indices) || (!indices.with_rows && call->shards > 1 + (values->record.kind == RECORD_SHARD)))
        return false;
    int rows = indices.with_rows ? rows_of_each(&indices) : rows_after(call, &indices);
    int dim = argument_dims(values) - (argument_dims(self) - indices.tensors + indices.dims - rows);
    bool is_cut = values->record.kind != RECORD_SHARD && dim >= 0 && argument_size(values, dim) != 1;
    if (values->record.kind == RECORD_SHARD && (values->record.dim != dim || !record_same_rows(&values->record, &self->record)))
        return false;
    if (!values_fit(call, self, values, &indices))
        return false;
    if (indices.with_rows && !decide_of_each_row(call, self, &indices))
        return false;
    if (is_cut)
        decide_narrow(values, dim);
    return true;
}

/* index_put, index_put_(self, indices, values, accumulate), _index_put_impl_. Other forms are gathered, or refused when they write. */
RULE_FUNCTION(index_put) {
    struct argument *self = call_argument(call, 0), *values = call_argument(call, 2);
    if (!self || self->record.kind != RECORD_SHARD || !values)
        return RULE_GATHER;
    number_columns(call);
    if ((!decide_masked_put(call) && !decide_put(call)) || call_writes_to_one_row(call))
        return RULE_GATHER;
    decide_shard(call, 0, self->record.dim);
    return RULE_LOCAL;
}

/* index_add, index_fill, index_copy (self, dim, index, ...): a: position of what is written, 0: a scalar. Along another dimension each
   row is on its own. */
RULE_FUNCTION(index_write) {
    struct argument *self = call_argument(call, 0), *source = rule->a ? call_argument(call, rule->a) : NULL,
                    *index = call_argument(call, 2);
    if (!self || self->record.kind != RECORD_SHARD || !index || index->record.kind == RECORD_SHARD)
        return RULE_GATHER;
    int dims = argument_dims(self), dim = self->record.dim;
    if (wrap_dim(call_int(call, 1, 0), dims) == dim || (rule->a && (!source || argument_dims(source) != dims)))
        return RULE_GATHER;
    if (source && source->record.kind == RECORD_SHARD && (source->record.dim != dim || !record_same_rows(&source->record, &self->record)))
        return RULE_GATHER;
    if (source && source->record.kind != RECORD_SHARD) {
        if (argument_size(source, dim) != record_total(&self->record))
            return RULE_GATHER;
        decide_narrow(source, dim);
    }
    decide_shard(call, 0, dim);
    return RULE_LOCAL;
}

/* one_hot(self, classes): a row of classes for each index. Without a number of classes it is the largest index of all ranks, and one. */
RULE_FUNCTION(one_hot) {
    if (call->shards != 1 || tensor_dtype(argument_tensor(call->lead)) != DTYPE_INT64 || argument_elements(call->lead) == 0)
        return RULE_GATHER;
    if (call_int(call, 1, -1) < 0) {
        OPAQUE_SCOPE;
        struct value largest = TORCH_CALL("aten::max", "", call->values[0]);
        struct value number = TORCH_CALL("aten::item", "", largest);
        value_drop(largest);
        struct comm_span span = {&number.integer, 1};
        {
            SHIM_COMM_SCOPE;
            origin_note(call->record.origin);
            comm_all_reduce("largest class", &span, 1, COMM_INT64, COMM_MAX);
        }
        value_replace(&call->values[1], value_int(number.integer + 1));
    }
    decide_shard(call, 0, call->record.dim);
    return RULE_LOCAL;
}

/* searchsorted(boundaries, values), bucketize(values, boundaries): a: position of the values, b: of boundaries that are one list for all. */
RULE_FUNCTION(buckets) {
    struct argument *values = call_argument(call, rule->a), *boundaries = call_argument(call, rule->b);
    if (!values || !boundaries || call->shards != 1 || call->lead != values || argument_dims(boundaries) != 1 || call->argument_count != 2)
        return RULE_GATHER;
    decide_shard(call, 0, call->record.dim);
    return RULE_LOCAL;
}
