/* The numbers that a normalisation over the batch (normalise.c) has for each channel: vectors of them, and mean and variance of all rows. */
#include "normalise.h"

/* ---- vectors with an element per channel */

struct tensor *normalise_as_type(struct tensor *tensor, enum torch_dtype dtype, bool copy) {
    return TORCH_CALL("aten::to", "dtype", value_tensor(tensor), value_int(dtype), value_bool(false), value_bool(copy), value_none())
        .tensor;
}

void normalise_read_channels(struct tensor *tensor, double *numbers) {
    struct tensor *wide = normalise_as_type(tensor, DTYPE_FLOAT64, true), *host = tensor_is_on_host(wide) ? wide : host_copy(wide);
    memcpy(numbers, tensor_data(host), (size_t)tensor_elements(host) * sizeof *numbers);
    if (host != wide)
        tensor_release(host);
    tensor_release(wide);
}

struct tensor *normalise_channels(const double *numbers, int64_t count, enum torch_dtype dtype, struct tensor *like) {
    struct tensor *wide = TORCH_CALL("aten::empty", "memory_format", value_int_list(&count, 1), value_int(DTYPE_FLOAT64), value_none(),
                                     value_none(), value_none(), value_none())
                              .tensor;
    memcpy(tensor_data(wide), numbers, (size_t)count * sizeof *numbers);
    struct tensor *tensor = normalise_as_type(wide, dtype, false), *there = host_to_device_of(tensor, like);
    tensor_release(tensor);
    tensor_release(wide);
    return there;
}

struct tensor *normalise_plain(struct tensor *tensor) {
    struct tensor *plain = TORCH_CALL("aten::detach", "", value_tensor(tensor)).tensor;
    record_clear(plain);
    return plain;
}

struct tensor *normalise_wide(struct tensor *tensor) {
    if (dtype_is_narrow(tensor_dtype(tensor)))
        return normalise_as_type(tensor, DTYPE_FLOAT32, false);
    tensor_retain(tensor);
    return tensor;
}

/* ---- the statistics of all rows */

/* own: `channels` means, then as many variances, of this rank's rows; all[rank] likewise on return. */
static void exchange(const double *own, double *all, int64_t channels, struct origin origin) {
    size_t bytes[BOARD_RANKS_MAX];
    for (uint32_t rank = 0; rank < shim_world_size(); rank++)
        bytes[rank] = 2 * (size_t)channels * sizeof *own;
    memcpy(all + 2 * channels * shim_rank(), own, bytes[0]);
    SHIM_COMM_SCOPE;
    origin_note(origin);
    comm_all_gather("statistics of a normalisation", all, 1, bytes);
}

/* Mean and biased variance of all rows from those of each rank's. */
static void combine(const double *all, const struct record *record, int64_t channels, double *mean, double *variance) {
    int64_t ranks = shim_world_size();
    for (int64_t channel = 0; channel < channels; channel++) {
        double sum = 0, squares = 0;
        for (int64_t rank = 0; rank < ranks; rank++)
            sum += (double)(record->total / ranks + (rank < record->total % ranks)) / (double)record->total *
                   all[2 * channels * rank + channel];
        for (int64_t rank = 0; rank < ranks; rank++) {
            double share = (double)(record->total / ranks + (rank < record->total % ranks)) / (double)record->total;
            double away = all[2 * channels * rank + channel] - sum;
            squares += share * (all[2 * channels * rank + channels + channel] + away * away);
        }
        mean[channel] = sum;
        variance[channel] = squares;
    }
}

void normalise_own_statistics(struct tensor *input, double *mean, double *variance) {
    struct tensor *plain = normalise_plain(input), *wide = normalise_wide(plain);
    static struct operator_reference update_statistics = {"aten::batch_norm_update_stats", "", {NULL, NULL}};
    struct value arguments[] = {value_tensor(wide), value_none(), value_none(), value_real(0)}, own_variance;
    struct value own_mean = operator_call(&update_statistics, 4, arguments, &own_variance, 1);
    normalise_read_channels(own_mean.tensor, mean);
    normalise_read_channels(own_variance.tensor, variance);
    value_drop(own_mean);
    value_drop(own_variance);
    tensor_release(wide);
    tensor_release(plain);
}

void normalise_statistics(struct tensor *input, const struct record *record, double *mean, double *variance) {
    int64_t channels = tensor_size(input, 1);
    NUMBERS own = malloc(2 * (size_t)channels * sizeof *own);
    NUMBERS all = malloc(2 * (size_t)channels * shim_world_size() * sizeof *all);
    normalise_own_statistics(input, own, own + channels);
    exchange(own, all, channels, record->origin);
    combine(all, record, channels, mean, variance);
}

void normalise_update_running(struct shard_call *call, int position, const double *now, double factor, int64_t channels, bool counts) {
    if (call_is_none(call, position))
        return;
    double momentum = call_real(call, 6, 0.1);
    struct tensor *running = call->values[position].tensor;
    NUMBERS numbers = malloc((size_t)channels * sizeof *numbers);
    normalise_read_channels(running, numbers);
    for (int64_t i = 0; i < channels; i++)
        numbers[i] = (1 - momentum) * numbers[i] + momentum * (factor * now[i]);
    struct tensor *fresh = normalise_channels(numbers, channels, tensor_dtype(running), running);
    struct value target = counts ? value_tensor(running) : value_tensor(rows_alias_uncounted(running, fresh));
    value_drop(TORCH_CALL("aten::copy_", "", target, value_tensor(fresh), value_bool(false)));
    if (!counts)
        value_drop(target);
    tensor_release(fresh);
}
