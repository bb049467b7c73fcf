/*
 * Entry: a whole batch that meets a parameter is cut into rows. A guess about speed only: narrowing any replicated tensor is exact, so a wrong guess
 * (a table of positions cut as if it were a batch) is merely gathered again later.
 */
#include "shard.h"

static int64_t last_total; /* rows of the last batch that was cut: one-dimensional indices are cut only when they are as many */

static bool time_comes_first; /* a recurrent layer or an attention has met rows divided along time: from now on dimension 1 is the batch */

void entry_learn_time_first(void) {
    time_comes_first = true;
}

static bool is_long_enough(int64_t total) {
    return total >= 2 * (int64_t)shim_world_size(); /* never a rank with one row only because of a remainder: a size of one broadcasts */
}

/* The batch dimension of a recurrent layer's input: the last argument says batch_first. */
static int recurrent_dim(const struct shard_call *call) {
    return call_flag(call, call->value_count - 1) ? 0 : 1;
}

static bool meets_parameter(const struct shard_call *call, const struct argument *data) {
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].is_parameter && &call->arguments[i] != data)
            return true;
    return false;
}

/* The data argument and the dimension to cut; NULL: none. */
static struct argument *entry_find(struct shard_call *call, const struct rule *rule, int *dim) {
    bool second = rule->entry == ENTRY_DATA1 || rule->entry == ENTRY_INDEX;
    struct argument *data = call_argument(call, second ? 1 : 0);
    if (!data || data->is_parameter || !meets_parameter(call, data) || !tensor_is_plain(argument_tensor(data)))
        return NULL;
    int dims = argument_dims(data);
    if (rule->decide == rule_rows && rule->a && dims != rule->a)
        return NULL; /* an image without a batch */
    bool is_sequence = dims >= 3 || (rule->entry == ENTRY_INDEX && dims == 2);
    *dim = rule->entry == ENTRY_RECURRENT                                                                           ? recurrent_dim(call)
           : time_comes_first && is_sequence && rule->decide != rule_rows && is_long_enough(argument_size(data, 1)) ? 1
                                                                                                                    : 0;
    if (rule->entry == ENTRY_RECURRENT && dims != 3)
        return NULL;
    if (rule->entry == ENTRY_INDEX && dims == 1)
        return !last_total || argument_size(data, 0) == last_total ? data : NULL;
    return dims >= 2 ? data : NULL;
}

bool entry_decide(struct shard_call *call, const struct rule *rule) {
    int dim;
    if (rule->entry == ENTRY_NONE || (call->dispatch->key_set & torch_facts.bit_tracer)) /* a trace must not record the cut */
        return false;
    struct argument *data = entry_find(call, rule, &dim);
    start_check_new_leaves(); /* also where the batch is too short to be divided: then each rank trains the whole model by itself */
    if (!data)
        return false;
    bool long_enough = is_long_enough(argument_size(data, dim));
    {
        SHIM_COMM_SCOPE;
        comm_note(long_enough ? "batch that is divided" : "batch that is too short to be divided",
                  start_check_tensor(argument_tensor(data)));
    }
    recognise_batch(call, argument_size(data, dim), long_enough);
    if (!long_enough)
        return false;
    struct record record = {.kind = RECORD_SHARD, .dim = dim, .total = argument_size(data, dim), .inner = 1};
    record_rows(record.total, shim_rank(), &record.first, &record.rows);
    last_total = record.total;
    shim_phase(BOARD_FORWARD, call->op->name);
    report_batch();
    struct tensor *rows = rows_of(argument_tensor(data), &record, dim);
    record_set(rows, record);
    slot_replace(data->slot, value_tensor(rows));
    call_collect(call);
    explain_cut(call);
    return true;
}
