/* Normalisation of each row by itself: layers, groups of channels, instances. */
#include <stdlib.h>

#include "normalise.h"

bool normalise_only_rows_are_divided(const struct shard_call *call) {
    return call->shards == 1 && call->lead == &call->arguments[0] && call->record.dim == 0 && argument_dims(call->lead) >= 2;
}

bool normalise_channels_fit(struct shard_call *call) {
    for (int i = 1; i <= 4; i++) {
        const struct argument *vector = call_argument(call, i);
        if (vector && (argument_dims(vector) != 1 || argument_size(vector, 0) != argument_size(call->lead, 1)))
            return false;
    }
    return true;
}

bool normalise_has_elements(const struct shard_call *call) {
    for (int dim = 0; dim < argument_dims(call->lead); dim++)
        if (!argument_size(call->lead, dim))
            return false;
    return true;
}

/* layer_norm, native_layer_norm, rms_norm (input, normalized_shape, ...): over the last dimensions, never the rows. */
RULE_FUNCTION(layer_norm) {
    int64_t shape[TORCH_DIMS_MAX];
    int count = call_ints(call, rule->a, shape);
    if (count < 1 || call->shards != 1 || call->lead != &call->arguments[0] || call->record.dim >= argument_dims(call->lead) - count)
        return RULE_GATHER;
    for (int i = 1; i <= count; i++)
        if (argument_size(call->lead, argument_dims(call->lead) - i) != shape[count - i])
            return RULE_GATHER;
    decide_shard(call, 0, call->record.dim);
    return RULE_LOCAL;
}

/* group_norm(input, groups, weight, bias, ...): over groups of each row's channels. */
RULE_FUNCTION(group_norm) {
    int64_t groups = call_int(call, 1, 1);
    if (argument_dims(call->lead) < 2 || groups < 1 || argument_size(call->lead, 1) % groups)
        return RULE_GATHER;
    for (int i = 2; i <= 3; i++) {
        const struct argument *vector = call_argument(call, i);
        if (vector && argument_elements(vector) != argument_size(call->lead, 1))
            return RULE_GATHER;
    }
    return rule_rows(call, rule);
}

/* Means over all rows of the mean and the unbiased variance of each; both have room for `channels`. */
static void take_statistics(struct tensor *input, const struct record *record, double *mean, double *variance) {
    int64_t rows = tensor_size(input, 0), channels = tensor_size(input, 1), places = rows ? tensor_elements(input) / (rows * channels) : 0;
    NUMBERS own = malloc(2 * (size_t)(rows * channels) * sizeof *own);
    NUMBERS sums = calloc(2 * (size_t)channels, sizeof *sums);
    if (rows) {
        struct value plain = TORCH_CALL("aten::detach", "", value_tensor(input));
        record_clear(plain.tensor);
        struct value channels_only =
            TORCH_CALL("aten::reshape", "", plain, value_int_list((const int64_t[]){1, rows * channels, places}, 3));
        normalise_own_statistics(channels_only.tensor, own, own + rows * channels);
        value_drop(channels_only);
        value_drop(plain);
    }
    for (int64_t i = 0; i < rows * channels; i++) {
        sums[i % channels] += own[i];
        sums[channels + i % channels] += own[rows * channels + i] * (double)places / (double)(places - 1);
    }
    sum_doubles("statistics of an instance_norm", sums, 2 * (size_t)channels, record->origin);
    for (int64_t i = 0; i < channels; i++) {
        mean[i] = sums[i] / (double)record_total(record);
        variance[i] = sums[channels + i] / (double)record_total(record);
    }
}

static void update_statistics(struct shard_call *call) {
    struct tensor *input = call->values[0].tensor;
    int64_t channels = tensor_size(input, 1);
    NUMBERS mean = malloc((size_t)channels * sizeof *mean);
    NUMBERS variance = malloc((size_t)channels * sizeof *variance);
    take_statistics(input, &call->record, mean, variance);
    normalise_update_running(call, 3, mean, 1, channels, true);
    normalise_update_running(call, 4, variance, 1, channels, true);
}

/* Evaluation ends in libtorch 1.13 to 2.5, not any more in 2.13, by writing to the statistics the mean of as many copies of them as there are rows
   (instance_norm in Normalization.cpp), which is rounded: what is written is a function of the number of rows, and is to be the whole batch's. libtorch itself
   writes it, if it does, for as many rows of zeros, of one place. */
static void rewrite_statistics(const struct shard_call *call) {
    const struct value *values = call->values;
    int64_t sizes[] = {record_total(&call->record), tensor_size(values[0].tensor, 1), 1};
    struct value none = value_none();
    struct value zeros = TORCH_CALL("aten::new_zeros", "", values[0], value_int_list(sizes, 3), none, none, none, none);
    value_drop(TORCH_CALL("aten::instance_norm", "", zeros, none, none, values[3], values[4], values[5], values[6], values[7], values[8]));
    value_drop(zeros);
}

/* By copies of the statistics, for what is written to them here is a function of this rank's number of rows. */
static struct value evaluate(const struct shard_call *call) {
    const struct value *values = call->values;
    struct value statistics[2];
    for (int i = 0; i < 2; i++)
        statistics[i] = call_is_none(call, 3 + i) ? value_none() : TORCH_CALL("aten::clone", "", values[3 + i], value_none());
    struct value result = TORCH_CALL("aten::instance_norm", "", values[0], values[1], values[2], statistics[0], statistics[1], values[5],
                                     values[6], values[7], values[8]);
    for (int i = 0; i < 2; i++)
        if (!call_is_none(call, 3 + i))
            value_drop(statistics[i]);
    rewrite_statistics(call);
    return result;
}

/* instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled): running statistics are over all rows, one
   exchange of two numbers per channel. */
RULE_FUNCTION(instance_norm) {
    if (!normalise_only_rows_are_divided(call) || argument_dims(call->lead) < 3 || !normalise_channels_fit(call) ||
        !normalise_has_elements(call))
        return RULE_GATHER;
    OPAQUE_SCOPE;
    const struct value *values = call->values;
    bool own_statistics = call_flag(call, 5);
    struct value none = value_none(), result = own_statistics ? TORCH_CALL("aten::instance_norm", "", values[0], values[1], values[2], none,
                                                                           none, values[5], values[6], values[7], values[8])
                                                              : evaluate(call);
    if (own_statistics && !call_is_none(call, 3))
        update_statistics(call);
    result = normalise_watch_gradient(result, &call->record);
    record_set(result.tensor, call->record);
    execute_return(call, &result, 1);
    return RULE_DONE;
}
