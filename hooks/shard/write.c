/*
 * Writing to a divided tensor by an operator that has no rule for it: all ranks make the write to the whole tensor, and each takes its rows of it back. Exact,
 * differentiable (the rows' history is then that of the whole), and only slower.
 */
#include "shard.h"

static bool same_shape(struct tensor *whole, struct tensor *rows, const struct record *record) {
    int dims = tensor_dims(rows);
    bool same = tensor_dims(whole) == dims;
    for (int i = 0; same && i < dims; i++)
        same = tensor_size(whole, i) == (i == record->dim ? record_total(record) : tensor_size(rows, i));
    return same;
}

/* The one argument that is written; NULL: several are. */
static struct argument *written_argument(struct shard_call *call) {
    if (call->op->is_in_place)
        return &call->arguments[0];
    struct argument *last = &call->arguments[call->argument_count - 1];
    bool first_out = call->argument_count < 2 || !strcmp(call->op->overload, "out") || !strstr(call->op->overload, "_out");
    return first_out && !value_is_list(&call->values[last->position]) ? last : NULL;
}

void execute_write_gathered(struct shard_call *call) {
    struct argument *argument = written_argument(call);
    if (!argument || value_is_list(&call->values[argument->position]))
        refuse_write(call, "its rows are divided among the ranks");
    struct value rows = value_tensor(argument_tensor(argument));
    struct record record = argument->record;
    tensor_retain(rows.tensor);
    execute_gathered(call);
    OPAQUE_SCOPE;
    struct value *result = call->dispatch->stack->begin;
    if (call->dispatch->stack->end - result != 1 || !value_is_tensor(result) || !same_shape(result->tensor, rows.tensor, &record))
        refuse_write(call, "its rows are divided among the ranks and its shape changes");
    struct value own = value_tensor(rows_take(result->tensor, &record, record.dim));
    value_drop(TORCH_CALL("aten::copy_", "", rows, own, value_bool(false)));
    value_drop(own);
    slot_replace(result, rows);
    record_set(rows.tensor, record);
}
