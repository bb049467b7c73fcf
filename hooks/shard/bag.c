/*
 * embedding_bag: sums of looked up rows, a bag for each row of the batch. The indices of all bags stand one after the other, offsets say where each begins;
 * a rank keeps the bags of its rows and their indices.
 */
#include "shard.h"

/* Bags that were the rows of a matrix: divided indices of `inner` for each row. */
static bool bags_are_rows(struct tensor *offsets, const struct record *record) {
    struct value expected =
        TORCH_CALL("aten::arange", "start_step", value_int(0), value_int(record_total(record)), value_int(record->inner),
                   value_int(tensor_dtype(offsets)), value_none(), value_none(), value_none());
    struct value same = TORCH_CALL("aten::equal", "", expected, value_tensor(offsets));
    value_drop(expected);
    return value_flag(&same);
}

int64_t bag_rows(struct shard_call *call) {
    const struct argument *indices = call_argument(call, 1), *offsets = call_argument(call, 2);
    if (!indices || !offsets || argument_dims(indices) != 1 || argument_dims(offsets) != 1 || call_flag(call, 3) || call_flag(call, 7))
        return 0;
    int64_t all = argument_size(indices, 0), total = argument_size(offsets, 0);
    if (total < 1 || all < total || all % total)
        return 0;
    const struct record rows = {.kind = RECORD_SHARD, .total = total, .outer = 1, .inner = all / total};
    OPAQUE_SCOPE;
    return bags_are_rows(argument_tensor(offsets), &rows) ? total : 0;
}

/* embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx) -> (sums, and what backward
   needs) */
RULE_FUNCTION(embedding_bag) {
    struct argument *indices = call_argument(call, 1), *offsets = call_argument(call, 2), *weights = call_argument(call, 6);
    struct argument *divided[] = {indices, weights};
    if (!indices || !offsets || argument_dims(indices) != 1 || argument_dims(offsets) != 1 || call_flag(call, 3) || call_flag(call, 7) ||
        offsets->record.kind == RECORD_SHARD || call_argument(call, 0)->record.kind == RECORD_SHARD ||
        argument_size(offsets, 0) != call->record.total || call->record.outer != 1)
        return RULE_GATHER;
    OPAQUE_SCOPE;
    if (!bags_are_rows(argument_tensor(offsets), &call->record))
        return RULE_GATHER;
    for (int i = 0; i < 2; i++)
        if (divided[i] && (divided[i]->record.kind == RECORD_SHARD ? !record_same_rows(&divided[i]->record, &call->record)
                                                                   : argument_size(divided[i], 0) != record_total(&call->record)))
            return RULE_GATHER;
    for (int i = 0; i < 2; i++)
        if (divided[i] && divided[i]->record.kind != RECORD_SHARD)
            decide_narrow(divided[i], 0);
    struct value own = /* own bags begin like the first ones */
        TORCH_CALL("aten::narrow", "", *offsets->slot, value_int(0), value_int(0), value_int(call->record.rows));
    value_replace(offsets->slot, own);
    decide_merged(call, 0, 0, 1, 1);
    decide_replicated(call, 1);
    return RULE_LOCAL;
}
