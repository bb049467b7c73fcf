/*
 * Random draws from the whole batch's stream: every rank draws for all rows, in the order in which one process would, and keeps its own. So
 * the values and the position of the stream afterwards are those of the one-process run.
 */
#include <stdlib.h>

#include "held.h"
#include "random.h"

/* ---- a tensor for the draw */

/* The strides of the whole batch's tensor, holes included: dimensions outside the divided one step over all rows instead of the own. Unlike
   a gathered tensor (which is dense) it must have the program's own order and holes, for the kernels draw in that order, and differently
   when there are holes. */
static void whole_strides(struct tensor *tensor, const struct record *record, int64_t *strides) {
    struct sizes local = tensor_strides(tensor);
    int64_t span = local.data[record->dim] * record_local(record);
    for (size_t i = 0; i < local.count; i++) {
        strides[i] = local.data[i];
        if ((int)i == record->dim || span == 0 || local.data[i] < span || tensor_size(tensor, (int)i) == 1)
            continue;
        if (local.data[i] % span)
            shim_problem("AR-LAYOUT", "Call .contiguous() on the tensor before the draw.",
                         "random values are drawn into a divided tensor of an unusual memory layout");
        strides[i] = local.data[i] / span * (local.data[record->dim] * record_total(record));
    }
}

struct tensor *random_whole(struct tensor *tensor, const struct record *record) {
    int64_t sizes[TORCH_DIMS_MAX], strides[TORCH_DIMS_MAX], elements = 1;
    int dims = tensor_dims(tensor);
    whole_strides(tensor, record, strides);
    for (int i = 0; i < dims; i++) {
        sizes[i] = i == record->dim ? record_total(record) : tensor_size(tensor, i);
        elements = sizes[i] ? elements + (sizes[i] - 1) * strides[i] : elements;
    }
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(tensor));
    struct value memory =
        TORCH_CALL("aten::new_empty", "", plain, value_int_list(&elements, 1), value_none(), value_none(), value_none(), value_none());
    record_clear(memory.tensor);
    struct value whole = TORCH_CALL("aten::as_strided", "", memory, value_int_list(sizes, (size_t)dims),
                                    value_int_list(strides, (size_t)dims), value_int(0));
    value_drop(plain);
    value_drop(memory);
    SHIM_NOTE_SCOPE;
    note_layout(whole.tensor);
    return whole.tensor;
}

/* The own rows of a draw, in memory of their own, so that the rest is given back. Takes whole. */
static struct tensor *keep_rows(struct tensor *whole, const struct record *record) {
    struct value rows = value_tensor(rows_take(whole, record, record->dim));
    tensor_release(whole);
    value_replace(&rows, TORCH_CALL("aten::clone", "", rows, value_none()));
    return rows.tensor;
}

struct tensor *random_keep_mask(struct tensor *tensor, const struct record *record, double keep, enum torch_dtype dtype) {
    struct value whole = value_tensor(random_whole(tensor, record));
    value_replace(&whole,
                  TORCH_CALL("aten::empty_like", "", whole, value_int(dtype), value_none(), value_none(), value_none(), value_none()));
    value_drop(TORCH_CALL("aten::bernoulli_", "float", whole, value_real(keep), value_none()));
    return keep_rows(whole.tensor, record);
}

/* The same of an accelerator, whose kernel draws in an order of its own: it depends on the sizes and the layout, not on the values. */
static struct tensor *device_mask(struct tensor *tensor, const struct record *record, double drop) {
    struct value whole = value_tensor(random_whole(tensor, record)), mask;
    struct value arguments[] = {whole, value_real(drop), value_bool(true)};
    static struct operator_reference native_dropout = {"aten::native_dropout", "", {NULL, NULL}};
    value_drop(operator_call(&native_dropout, 3, arguments, &mask, 1));
    value_drop(whole);
    return keep_rows(mask.tensor, record);
}

/* ---- executing */

/* Runs the operator itself, arguments as they are but for `whole` (taken) in place of the first; the stack keeps what it owned. Returns the
   result, owned. */
static struct tensor *draw(struct shard_call *call, struct tensor *whole) {
    value_replace(&call->values[0], value_tensor(whole));
    dispatch_run_opaque(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
    return call->dispatch->stack->begin[0].tensor;
}

static void return_shard(struct shard_call *call, struct tensor *result) {
    struct record record = call->record;
    record_set(result, record);
    struct stack *stack = call->dispatch->stack;
    stack->begin[0] = value_tensor(result);
    stack->end = stack->begin + 1;
}

/* Draws have derivatives of zero: libtorch gives the result of bernoulli(p) a history when p has one. Takes drawn. */
static struct tensor *with_zero_derivative(struct tensor *drawn, struct tensor *source) {
    struct value link = TORCH_CALL("aten::clone", "", value_tensor(source), value_none());
    record_clear(link.tensor);
    value_drop(TORCH_CALL("aten::copy_", "", link, value_tensor(drawn), value_bool(false)));
    tensor_release(drawn);
    return link.tensor;
}

static bool lead_is_first(const struct shard_call *call) {
    return call->lead == &call->arguments[0] && call->lead->position == 0;
}

/* ---- the rules */

/* Gathered without its history. Owned. */
static struct tensor *whole_values(const struct shard_call *call, struct tensor *rows, const struct record *record) {
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(rows));
    record_clear(plain.tensor);
    struct tensor *whole = gather_shard(call->op->name, plain.tensor, record);
    value_drop(plain);
    return whole;
}

/* Probabilities may be broadcast: in the shape of self, of which they have so many rows. Owned. */
static struct value expanded_like(struct value probability, const struct shard_call *call, int64_t rows) {
    int64_t shape[TORCH_DIMS_MAX];
    struct sizes sizes = tensor_sizes(argument_tensor(call->lead));
    if (sizes.count > TORCH_DIMS_MAX)
        refuse_write(call, "the probabilities have a history, and it has very many dimensions");
    memcpy(shape, sizes.data, sizes.count * sizeof *shape);
    shape[call->record.dim] = rows;
    return TORCH_CALL("aten::expand", "", probability, value_int_list(shape, sizes.count), value_bool(false));
}

/* Of whole ones, a learned one for all, say. Owned. */
static struct tensor *rows_of_whole(const struct shard_call *call, struct value probability) {
    struct value expanded = expanded_like(probability, call, record_total(&call->record));
    struct tensor *rows = rows_take(expanded.tensor, &call->record, call->record.dim);
    value_drop(expanded);
    return rows;
}

/* Are they the same rows, in the dimension that is broadcast to that of self? */
static bool has_rows_of_lead(const struct shard_call *call, const struct argument *probability) {
    int skipped = argument_dims(call->lead) - argument_dims(probability);
    return probability->record.dim + skipped == call->record.dim && record_same_rows(&probability->record, &call->record);
}

/* Of probabilities with a history: theirs, in this rank's rows, owned; else NULL. */
static struct tensor *history_of(struct shard_call *call, const struct argument *probability) {
    if (!probability || !tensor_is_recorded(argument_tensor(probability)))
        return NULL;
    if (probability->record.kind != RECORD_SHARD)
        return rows_of_whole(call, *probability->slot);
    if (has_rows_of_lead(call, probability))
        return expanded_like(*probability->slot, call, record_local(&call->record)).tensor;
    struct value whole = value_tensor(execute_gather_argument(call, probability));
    struct tensor *rows = rows_of_whole(call, whole);
    value_drop(whole);
    return rows;
}

/* A leaf that wants a gradient is refused, as any write to it is, and so are its views, and views of several results: before numbers are drawn, which later
   draws would miss. Which views are nothing says but a write: others have a node more, and a version. */
static void refuse_early(struct tensor *self) {
    if (tensor_is_recorded(self) && (!tensor_node(self) || tensor_is_view(self)))
        value_drop(TORCH_CALL("aten::copy_", "", value_tensor(self), value_tensor(self), value_bool(false)));
}

/* bernoulli_, normal_, uniform_... (self, numbers..., generator). Probabilities in a tensor: whole ones meet the whole draw. */
RULE_FUNCTION(random_in_place) {
    if (!lead_is_first(call))
        return RULE_GATHER;
    OPAQUE_SCOPE;
    HELD_TENSOR self = argument_tensor(call->lead);
    tensor_retain(self);
    struct argument *probability = call_argument(call, 1);
    HELD_TENSOR history = history_of(call, probability);
    if (probability && probability->record.kind == RECORD_SHARD)
        value_replace(probability->slot, value_tensor(whole_values(call, argument_tensor(probability), &probability->record)));
    refuse_early(self);
    struct tensor *whole = draw(call, random_whole(self, &call->record));
    struct value rows = value_tensor(rows_take(whole, &call->record, call->record.dim));
    if (history)
        rows.tensor = with_zero_derivative(rows.tensor, history);
    value_drop(TORCH_CALL("aten::copy_", "", value_tensor(self), rows, value_bool(false)));
    value_drop(rows);
    tensor_release(whole);
    tensor_retain(self);
    return_shard(call, self);
    return RULE_DONE;
}

/* randn_like, rand_like, randint_like (self, ...): only the shape and the layout of self matter. */
RULE_FUNCTION(random_like) {
    if (!lead_is_first(call) || call->shards != 1)
        return RULE_GATHER;
    OPAQUE_SCOPE;
    return_shard(call, keep_rows(draw(call, random_whole(argument_tensor(call->lead), &call->record)), &call->record));
    return RULE_DONE;
}

/* bernoulli(self): whole probabilities; bernoulli.p(self, p): shape and layout of self. */
RULE_FUNCTION(bernoulli) {
    if (!lead_is_first(call) || call->shards != 1 || !strcmp(call->op->overload, "Tensor"))
        return RULE_GATHER;
    bool has_number = !strcmp(call->op->overload, "p");
    OPAQUE_SCOPE;
    HELD_TENSOR self = argument_tensor(call->lead);
    tensor_retain(self);
    struct tensor *whole = has_number ? random_whole(self, &call->record) : whole_values(call, self, &call->record);
    struct tensor *drawn = keep_rows(draw(call, whole), &call->record);
    bool has_derivative = tensor_is_recorded(self) && !(has_number && call->op->is_composite);
    return_shard(call, has_derivative ? with_zero_derivative(drawn, self) : drawn);
    return RULE_DONE;
}

/* multinomial(self, num_samples, replacement, generator): from whole probabilities. */
RULE_FUNCTION(multinomial) {
    if (!lead_is_first(call) || call->shards != 1 || call->record.dim != 0 || argument_dims(call->lead) != 2)
        return RULE_GATHER;
    OPAQUE_SCOPE;
    struct tensor *whole = whole_values(call, argument_tensor(call->lead), &call->record);
    return_shard(call, keep_rows(draw(call, whole), &call->record));
    return RULE_DONE;
}

/* native_dropout(input, p, train): what the kernel of the CPU does (aten/src/ATen/native/Dropout.cpp), with a mask drawn for all rows. */
RULE_FUNCTION(native_dropout) {
    if (!lead_is_first(call) || call->shards != 1 || call_is_none(call, 2))
        return RULE_GATHER; /* without train libtorch's derivative is not that of its forward */
    OPAQUE_SCOPE;
    struct value input = call->values[0], results[2];
    double keep = 1 - call_real(call, 1, 0.5);
    if (call_flag(call, 2)) {
        results[1] = value_tensor(tensor_is_on_host(input.tensor) ? random_keep_mask(input.tensor, &call->record, keep, DTYPE_BOOL)
                                                                  : device_mask(input.tensor, &call->record, 1 - keep));
        struct value kept = TORCH_CALL("aten::mul", "Tensor", input, results[1]);
        results[0] = TORCH_CALL("aten::mul_", "Scalar", kept, value_real(keep == 0 ? 0 : 1 / keep));
        value_drop(kept);
    } else {
        results[0] = TORCH_CALL("aten::clone", "", input, value_none());
        results[1] =
            TORCH_CALL("aten::ones_like", "", input, value_int(DTYPE_BOOL), value_none(), value_none(), value_none(), value_none());
    }
    for (int i = 0; i < 2; i++) {
        record_clear(results[i].tensor);
        record_set(results[i].tensor, call->record);
    }
    execute_return(call, results, 2);
    return RULE_DONE;
}

/* rrelu_with_noise(self, noise, lower, upper, training, generator): in training a slope is drawn for each negative element, in order, and
   written to noise. */
RULE_FUNCTION(rrelu) {
    if (!lead_is_first(call))
        return RULE_GATHER;
    struct argument *noise = call_argument(call, 1);
    if (!call_flag(call, 4))
        return rule_pointwise(call, rule);
    if (noise && call->shards > 2) /* out= */
        return RULE_GATHER;
    if (!noise || noise->record.kind != RECORD_SHARD || noise->record.dim != call->record.dim ||
        !record_same_rows(&noise->record, &call->record))
        refuse_write(call, "its noise is not divided like its input");
    OPAQUE_SCOPE;
    HELD_TENSOR self = argument_tensor(call->lead);
    HELD_TENSOR slopes = argument_tensor(noise);
    tensor_retain(self);
    tensor_retain(slopes);
    if (call->op->is_in_place)
        refuse_early(self);
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(self));
    record_clear(plain.tensor);
    HELD_TENSOR whole_noise = random_whole(slopes, &call->record);
    tensor_retain(whole_noise);
    value_replace(&call->values[1], value_tensor(whole_noise));
    tensor_release(draw(call, gather_shard(call->op->name, plain.tensor, &call->record)));
    value_drop(plain);
    struct value rows = value_tensor(rows_take(whole_noise, &call->record, call->record.dim));
    value_drop(TORCH_CALL("aten::copy_", "", value_tensor(slopes), rows, value_bool(false)));
    value_replace(&rows, TORCH_CALL("aten::clone", "", rows, value_none())); /* kept for the derivative: the program may write to noise */
    struct value result = call->op->is_in_place ? TORCH_CALL("aten::mul_", "Tensor", value_tensor(self), rows)
                                                : TORCH_CALL("aten::mul", "Tensor", value_tensor(self), rows);
    value_drop(rows);
    return_shard(call, result.tensor);
    return RULE_DONE;
}
