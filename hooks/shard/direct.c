/* Element-wise operators whose tensors are all this rank's rows, or have none: decided from the tensors alone, called without boxing (shim/torch/direct.c). */
#include "shard.h"

static bool narrows(const struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].narrow >= 0 || call->arguments[i].is_parameter)
            return true;
    return false;
}

/* Values only borrow the tensors: nothing here replaces one. */
bool direct_decide(struct direct_call *direct) {
    struct value values[DIRECT_ARGUMENTS_MAX];
    struct argument arguments[DIRECT_ARGUMENTS_MAX];
    struct dispatch_call dispatch = {.op = direct->op, .key_set = direct->key_set};
    struct shard_call call = {
        .dispatch = &dispatch, .op = direct->op, .values = values, .value_count = direct->count, .scale = 1, .arguments = arguments};
    for (int i = 0; i < direct->count; i++)
        values[i] = direct->tensors[i] ? value_tensor(direct->tensors[i]) : value_none();
    call_collect(&call);
    if (!call.shards || call.partials || call.gathered || shim_records() || forward_mode_is_open())
        return false;
    bool is_watched = read_before_call(&call);
    if (window_before_call(&call) || is_watched || call_decide(&call, rule_of(call.op)) != RULE_LOCAL || narrows(&call) ||
        call.result_count != 1)
        return false;
    dispatch_count_divided();
    direct->record = call.results[0];
    return true;
}

void direct_mark(const struct direct_call *direct, struct tensor *result) {
    execute_check_rows(direct->op, result, &direct->record);
    record_set(result, direct->record);
}
