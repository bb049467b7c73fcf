/*
 * embedding_bag: sums of looked up rows, a bag for each row of the batch. The indices of all bags stand one after the other, offsets say where each begins;
 * a rank keeps the bags of its rows and their indices. Indices that are divided already are rows of as many each; whole ones are cut here, wherever bags end.
 */
#include "bag.h"

enum { INDICES = 1, OFFSETS, BY_FREQUENCY, WEIGHTS = 6, LAST_OFFSET };

/* Where the bags begin, in host memory. */
struct bounds {
    struct value numbers; /* int64; owned; none: they are divided, or no such tensor */
    const int64_t *offsets;
    int64_t bags, indices;
};

static void bounds_free(struct bounds *bounds) {
    value_drop(bounds->numbers);
}
#define BOUNDS __attribute__((cleanup(bounds_free))) struct bounds

static struct bounds bounds_of(struct shard_call *call) {
    const struct argument *offsets = call_argument(call, OFFSETS), *indices = call_argument(call, INDICES);
    struct bounds bounds = {.numbers = value_none()};
    if (!offsets || !indices || argument_dims(offsets) != 1 || argument_dims(indices) != 1 || offsets->record.kind == RECORD_SHARD ||
        !tensor_is_plain(argument_tensor(offsets)) || !tensor_is_on_host(argument_tensor(offsets)) || !argument_size(offsets, 0))
        return bounds;
    struct value wide =
        TORCH_CALL("aten::to", "dtype", *offsets->slot, value_int(DTYPE_INT64), value_bool(false), value_bool(false), value_none());
    bounds.numbers = TORCH_CALL("aten::contiguous", "", wide, value_int(0));
    value_drop(wide);
    bounds.offsets = tensor_data(bounds.numbers.tensor);
    bounds.bags = argument_size(offsets, 0);
    bounds.indices = argument_size(indices, 0);
    return bounds;
}

/* The indices of a bag end where the next one begins. */
static int64_t end_of(const struct bounds *bounds, int64_t bag) {
    return bag + 1 < bounds->bags ? bounds->offsets[bag + 1] : bounds->indices;
}

static bool follow_each_other(const struct bounds *bounds) {
    bool do_so = bounds->bags && !bounds->offsets[0];
    for (int64_t bag = 0; do_so && bag < bounds->bags; bag++)
        do_so = end_of(bounds, bag) >= bounds->offsets[bag];
    return do_so;
}

int64_t bag_count(struct shard_call *call) {
    const struct argument *weights = call_argument(call, WEIGHTS);
    OPAQUE_SCOPE;
    BOUNDS bounds = bounds_of(call);
    bool fits = follow_each_other(&bounds) && !call_flag(call, BY_FREQUENCY) && !call_flag(call, LAST_OFFSET);
    if (weights)
        fits = fits && argument_dims(weights) == 1 && argument_size(weights, 0) == bounds.indices && weights->record.kind != RECORD_SHARD &&
               weights->record.kind != RECORD_PARTIAL;
    return fits ? bounds.bags : 0;
}

static void keep_part(const struct argument *argument, int64_t first, int64_t count) {
    if (argument)
        value_replace(argument->slot, TORCH_CALL("aten::narrow", "", *argument->slot, value_int(0), value_int(first), value_int(count)));
}

void bag_enter(struct shard_call *call, const struct record *record) {
    OPAQUE_SCOPE;
    BOUNDS bounds = bounds_of(call);
    const struct argument *offsets = call_argument(call, OFFSETS);
    int64_t begin = bounds.offsets[record->first], end = end_of(&bounds, record->first + record->rows - 1);
    keep_part(offsets, record->first, record->rows);
    value_replace(offsets->slot, TORCH_CALL("aten::sub", "Scalar", *offsets->slot, value_int(begin), value_int(1)));
    record_set(offsets->slot->tensor, *record);
    call_collect(call); /* where the result comes from is told by the whole indices, which are the same on all ranks */
    keep_part(call_argument(call, INDICES), begin, end - begin);
    keep_part(call_argument(call, WEIGHTS), begin, end - begin);
    call->has_own_bags = true;
}

/* embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx) -> (sums, and what backward
   needs) */
RULE_FUNCTION(embedding_bag) {
    struct argument *indices = call_argument(call, INDICES), *offsets = call_argument(call, OFFSETS),
                    *weights = call_argument(call, WEIGHTS);
    struct argument *divided[] = {indices, weights};
    if (call->has_own_bags) {
        decide_shard(call, 0, 0);
        decide_replicated(call, 1);
        return RULE_LOCAL;
    }
    if (!indices || !offsets || argument_dims(indices) != 1 || argument_dims(offsets) != 1 || call_flag(call, BY_FREQUENCY) ||
        call_flag(call, LAST_OFFSET) || offsets->record.kind == RECORD_SHARD || call_argument(call, 0)->record.kind == RECORD_SHARD ||
        argument_size(offsets, 0) != call->record.total || call->record.outer != 1)
        return RULE_GATHER;
    OPAQUE_SCOPE;
    if (!bounds_count_evenly(argument_tensor(offsets), record_total(&call->record),
                             call->record.inner)) /* bags that were the rows of a matrix */
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
