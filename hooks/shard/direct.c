/* Operators on this rank's rows that are called without boxing (shim/torch/direct.c): decided by the same rules, when all that is to be done is to run them. */
#include "shard.h"

static bool suits(const struct shard_call *call) {
    enum record_kind kind = call->results[0].kind;
    return call->result_count == 1 && (kind == RECORD_SHARD || kind == RECORD_PARTIAL) && call->scale == 1;
}

/* On other ranks it may be otherwise, where the words of a tensor were not found (shim/torch/calibrate.c): nothing is told to them before that is known. */
static bool can_lend(const struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++) {
        const struct argument *argument = &call->arguments[i];
        if (argument->narrow >= 0 &&
            !(execute_lends(call, argument) && rows_can_be_lent(argument_tensor(argument), &call->record, argument->narrow)))
            return false;
    }
    return true;
}

/* Each whole operand becomes its rows, which are given back by whoever asked. */
static void lend(struct shard_call *call, struct direct_call *direct) {
    for (int i = 0; i < call->argument_count; i++) {
        const struct argument *argument = &call->arguments[i];
        if (argument->narrow < 0)
            continue;
        execute_compare(call, argument);
        *argument->slot = value_tensor(rows_lend_for_call(argument_tensor(argument), &call->record));
        direct->lent |= 1u << argument->position;
    }
}

/* Values only borrow the tensors, but for those that are lent. */
bool direct_decide(struct direct_call *direct) {
    struct argument arguments[DIRECT_ARGUMENTS_MAX];
    struct dispatch_call dispatch = {.op = direct->op, .key_set = direct->key_set};
    struct shard_call call; /* not cleared: it is large, and call_collect() sets the rest */
    call.dispatch = &dispatch;
    call.op = direct->op;
    call.values = direct->values;
    call.value_count = direct->count;
    call.arguments = arguments;
    call.result_count = 0;
    call.scale = 1;
    call_collect(&call);
    if (!call.shards || call.partials || call.gathered || shim_records() || shim_reads_example() || transform_is_open(&call) ||
        execute_are_saves_seen() || direct->key_set & torch_facts.bit_tracer)
        return false;
    call_check_parameters(&call);
    bool is_watched = read_before_call(&call);
    if (window_before_call(&call) || is_watched || window_has_let_go() || call_decide(&call, rule_of(call.op)) != RULE_LOCAL ||
        !suits(&call) || !can_lend(&call))
        return false;
    origin_begin_call(&call); /* looks at whole operands, which are lent their rows next */
    lend(&call, direct);
    dispatch_set_divided(true);
    direct->record = call.results[0];
    return true;
}

void direct_mark(const struct direct_call *direct, struct tensor *result) {
    if (direct->record.kind == RECORD_SHARD)
        execute_check_rows(direct->op, result, &direct->record);
    record_set(result, direct->record);
}
