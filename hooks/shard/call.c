/* Looking at the arguments of a call, and writing the decision down. */
#include "shard.h"

int argument_dims(const struct argument *argument) {
    return tensor_dims(argument_tensor(argument));
}

int64_t argument_size(const struct argument *argument, int dim) {
    if (argument->record.kind == RECORD_SHARD && argument->record.dim == dim)
        return record_total(&argument->record);
    return tensor_size(argument_tensor(argument), dim);
}

int64_t argument_elements(const struct argument *argument) {
    int64_t elements = 1;
    for (int dim = 0; dim < argument_dims(argument); dim++)
        elements *= argument_size(argument, dim);
    return elements;
}

/* Every rank has two rows at least, so that the stride says the same on all of them. */
bool call_rows_are_one(const struct shard_call *call) {
    const struct argument *self = &call->arguments[0];
    return call->op->is_in_place && self->record.kind == RECORD_SHARD && !tensor_strides(argument_tensor(self)).data[self->record.dim];
}

bool call_writes_to_one_row(const struct shard_call *call) {
    if (!call_rows_are_one(call))
        return false;
    for (int i = 1; i < call->argument_count; i++)
        if (call->arguments[i].record.kind == RECORD_SHARD || call->arguments[i].narrow >= 0)
            return true;
    return false;
}

struct argument *call_argument(struct shard_call *call, int position) {
    if (position >= call->value_count)
        return NULL;
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].slot == &call->values[position])
            return &call->arguments[i];
    return NULL;
}

bool call_is_none(const struct shard_call *call, int position) {
    return position >= call->value_count || call->values[position].tag == TAG_NONE ||
           (call->values[position].tag == TAG_TENSOR && !value_is_tensor(&call->values[position]));
}

int64_t call_int(const struct shard_call *call, int position, int64_t fallback) {
    if (position >= call->value_count)
        return fallback;
    const struct value *value = &call->values[position];
    if (value->tag == TAG_DOUBLE)
        return (int64_t)value->real;
    return value->tag == TAG_INT ? value->integer : value->tag == torch_facts.tag_bool ? value_flag(value) : fallback;
}

double call_real(const struct shard_call *call, int position, double fallback) {
    if (position >= call->value_count)
        return fallback;
    const struct value *value = &call->values[position];
    return value->tag == TAG_DOUBLE ? value->real : (double)call_int(call, position, (int64_t)fallback);
}

bool call_flag(const struct shard_call *call, int position) {
    return position < call->value_count && call->values[position].tag == torch_facts.tag_bool && value_flag(&call->values[position]);
}

int call_ints(const struct shard_call *call, int position, int64_t *integers) {
    if (position >= call->value_count)
        return -1;
    const struct value *value = &call->values[position];
    if (value->tag == TAG_INT) {
        integers[0] = value->integer;
        return 1;
    }
    if (value->tag == TAG_INTS) {
        memcpy(integers, value->integers, value->count * sizeof *integers);
        return (int)value->count;
    }
    if (!value_is_list(value))
        return -1;
    struct stack *list = value_list(value);
    int count = (int)(list->end - list->begin);
    if (count > TORCH_DIMS_MAX)
        return -1;
    for (int i = 0; i < count; i++)
        integers[i] = list->begin[i].integer;
    return count;
}

void call_set_ints(struct shard_call *call, int position, const int64_t *integers, int count) {
    struct value *value = &call->values[position];
    if (value->tag == TAG_INTS)
        memcpy(value->integers, integers, value->count * sizeof *integers);
    else
        value_replace(value, value_int_list(integers, (size_t)count));
}

void call_visit_results(struct shard_call *call, result_visitor *visit, const void *context) {
    const struct stack *stack = call->dispatch->stack;
    int place = 0, index = 0;
    for (struct value *result = stack->begin; result < stack->end; result++, place++) {
        struct stack single = {result, result + 1, result + 1};
        struct stack *list = value_is_list(result) ? value_list(result) : &single;
        for (struct value *element = list->begin; element < list->end; element++, index++)
            if (value_is_tensor(element))
                visit(call, element, place, index, context);
    }
}

void decide_narrow(struct argument *argument, int dim) {
    argument->narrow = (int8_t)dim;
}

bool decide_rows_at(struct shard_call *call, int dim) {
    for (int i = 0; i < call->argument_count; i++) {
        struct argument *argument = &call->arguments[i];
        bool fits = argument_dims(argument) > dim;
        if (argument->record.kind == RECORD_SHARD)
            fits = fits && argument->record.dim == dim && record_same_rows(&argument->record, &call->record);
        else
            fits = fits && argument_size(argument, dim) == record_total(&call->record);
        if (!fits)
            return false;
    }
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].record.kind != RECORD_SHARD)
            decide_narrow(&call->arguments[i], dim);
    return true;
}

static void decide_result(struct shard_call *call, int index, struct record record) {
    while (call->result_count <= index)
        call->results[call->result_count++] = record;
    call->results[index] = record;
}

void decide_merged(struct shard_call *call, int index, int dim, int64_t outer, int64_t inner) {
    struct record record = call->record;
    record.kind = RECORD_SHARD;
    record.dim = dim;
    record.outer = outer;
    record.inner = inner;
    decide_result(call, index, record);
}

void decide_shard(struct shard_call *call, int index, int dim) {
    decide_merged(call, index, dim, call->record.outer, call->record.inner);
}

void decide_partial(struct shard_call *call, int index) {
    decide_result(call, index, (struct record){.kind = RECORD_PARTIAL, .origin = call->record.origin});
}

void decide_replicated(struct shard_call *call, int index) {
    decide_result(call, index, (struct record){.kind = RECORD_GATHERED});
}
