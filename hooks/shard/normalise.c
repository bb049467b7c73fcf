/*
 * Normalisation.
 *
 * Over the batch: the statistics are those of all rows. Each rank takes mean and squared deviations of its own rows with libtorch's own
 * kernel; one exchange of two numbers per channel and rank, combined in the order of the ranks (Chan, Golub, LeVeque), gives all ranks the
 * same bits. The rows are then normalised by the evaluation kernel with these statistics as constants, whose derivatives of weight and bias
 * are right as they are. Its derivative of the input lacks the part that flows through the statistics; as that part is a projection, a hook
 * on the input adds it:
 *     gradient - mean(gradient) - normalised * mean(gradient * normalised)        means over all rows and positions
 * Where the gradient is to be differentiated again: normalise_twice.c.
 */
#include <stdlib.h>

#include "held.h"
#include "normalise.h"

/* Parameters and running statistics; NULL: there are none. */
static struct tensor *first_vector(struct shard_call *call) {
    for (int position = 1; position <= 4; position++)
        if (!call_is_none(call, position))
            return call->values[position].tensor;
    return NULL;
}

/* The kernels mix a half precision input with float parameters, and nothing else. */
static enum torch_dtype statistics_type(struct shard_call *call) {
    struct tensor *vector = first_vector(call);
    if (vector)
        return tensor_dtype(vector);
    return tensor_dtype(call->values[0].tensor) == DTYPE_FLOAT64 ? DTYPE_FLOAT64 : DTYPE_FLOAT32;
}

/* Of all rows, also where the batch lies in a merged dimension. */
static int64_t elements_per_channel(const struct argument *input) {
    int64_t elements = 1;
    for (int dim = 0; dim < argument_dims(input); dim++)
        if (dim != 1)
            elements *= argument_size(input, dim);
    return elements;
}

/* ---- backward */

static void release_saved(struct normalised *normalised) {
    struct tensor **saved[] = {&normalised->input, &normalised->mean, &normalised->variance, &normalised->source, &normalised->weight};
    for (size_t i = 0; i < sizeof saved / sizeof *saved; i++) {
        tensor_release(*saved[i]);
        *saved[i] = NULL;
    }
    normalise_free_numbers(&normalised->slope);
    normalise_free_numbers(&normalised->sums);
    normalised->slope = normalised->sums = NULL;
}

static void normalised_release(void *data) {
    struct normalised *normalised = data;
    if (atomic_fetch_sub(&normalised->references, 1) > 1)
        return;
    normalise_forget_gradient(normalised);
    release_saved(normalised);
    free(normalised);
}

static void add_hook(struct tensor *tensor, struct normalised *normalised, struct tensor *(*function)(struct tensor *, void *)) {
    atomic_fetch_add(&normalised->references, 1);
    tensor_add_hook(tensor, (struct hook_closure){.function = function, .release = normalised_release, .data = normalised});
}

/* The gradients of bias and weight are the sums that the input's gradient needs, up to weight / deviation: kept in passing when a backward
   computes them. Hooks run in this order: output, then weight and bias, then input: the engine takes the youngest node first, and the aliases are made from the
   oldest on. So the program's own hooks on the parameters, which one process reaches in this order, come in it, too. */
static struct tensor *meet_output_gradient(struct tensor *gradient, void *data) {
    struct normalised *normalised = data;
    normalised->sums_known = 0;
    if (gradient == torch_facts.undefined || !grad_mode_is_enabled())
        normalise_forget_gradients();
    else
        normalise_keep_gradient(normalised, gradient);
    if (gradient != torch_facts.undefined)
        tensor_retain(gradient);
    return gradient;
}

static struct tensor *keep_bias_gradient(struct tensor *gradient, void *data) {
    struct normalised *normalised = data;
    if (normalised->sums) {
        normalise_read_channels(gradient, normalised->sums);
        normalised->sums_known |= 1;
    }
    tensor_retain(gradient);
    return gradient;
}

static struct tensor *meet_weight_gradient(struct tensor *gradient, void *data) {
    struct normalised *normalised = data;
    if (grad_mode_is_enabled() && normalised->source)
        return normalise_weight_gradient(normalised);
    if (!normalised->sums) {
        tensor_retain(gradient);
        return gradient;
    }
    normalise_read_channels(gradient, normalised->sums + tensor_size(normalised->mean, 0));
    normalised->sums_known |= 2;
    tensor_retain(gradient);
    return gradient;
}

/* normalised * slope + offset per channel; slope and offset may be none. */
static struct value normalise(const struct normalised *normalised, struct tensor *input, struct value slope, struct value offset) {
    bool widens = !dtype_is_narrow(tensor_dtype(input)); /* of a model in half precision, whose statistics are, too */
    struct value mean = value_tensor(normalised->mean), variance = value_tensor(normalised->variance);
    if (widens) {
        mean = value_tensor(normalise_wide(mean.tensor));
        variance = value_tensor(normalise_wide(variance.tensor));
    }
    struct value result = TORCH_CALL("aten::native_batch_norm", "", value_tensor(input), slope, offset, mean, variance, value_bool(false),
                                     value_real(0), value_real(normalised->epsilon));
    if (widens) {
        value_drop(mean);
        value_drop(variance);
    }
    return result;
}

static void sum_channels(struct value tensor, double *sums) {
    int64_t dims[TORCH_DIMS_MAX];
    int count = 0;
    for (int dim = 0; dim < tensor_dims(tensor.tensor); dim++)
        if (dim != 1)
            dims[count++] = dim;
    struct value sum = TORCH_CALL("aten::sum", "dim_IntList", tensor, value_int_list(dims, (size_t)count), value_bool(false), value_none());
    normalise_read_channels(sum.tensor, sums);
    value_drop(sum);
}

/* Sums of the input's gradient and of its product with the normalised input, of this rank's rows. */
static void gradient_sums(const struct normalised *normalised, struct tensor *gradient, double *sums, int64_t channels) {
    if (normalised->sums_known == 3) {
        for (int64_t i = 0; i < 2 * channels; i++)
            sums[i] = normalised->sums[i] * normalised->slope[i % channels];
        return;
    }
    struct value wide_gradient = value_tensor(normalise_wide(gradient)), wide_input = value_tensor(normalise_wide(normalised->input));
    struct value input = normalise(normalised, wide_input.tensor, value_none(), value_none());
    struct value product = TORCH_CALL("aten::mul", "Tensor", wide_gradient, input);
    sum_channels(wide_gradient, sums);
    sum_channels(product, sums + channels);
    value_drop(product);
    value_drop(input);
    value_drop(wide_gradient);
    value_drop(wide_input);
}

/* The last of the hooks, and after the kernel's node. */
static struct tensor *centre_gradient(struct tensor *gradient, void *data) {
    struct normalised *normalised = data;
    if (!normalised->source)
        shim_problem("AR-GRAD-KIND", "This is a defect of accel-run: please report the program's backwards.",
                     "a gradient comes through a normalisation over the batch whose graph has been freed");
    if (grad_mode_is_enabled()) {
        struct tensor *centred = normalise_input_gradient(normalised);
        normalise_forget_gradient(normalised);
        return centred;
    }
    int64_t channels = tensor_size(normalised->mean, 0);
    NUMBERS sums = malloc(2 * (size_t)channels * sizeof *sums);
    gradient_sums(normalised, gradient, sums, channels);
    struct comm_span span = {sums, 2 * (size_t)channels};
    {
        SHIM_COMM_SCOPE;
        origin_note(normalised->origin);
        comm_all_reduce("gradient of a normalisation", &span, 1, COMM_FLOAT64, COMM_SUM);
    }
    for (int64_t i = 0; i < 2 * channels; i++)
        sums[i] /= normalised->count;
    enum torch_dtype dtype = tensor_dtype(normalised->mean);
    struct value offset = value_tensor(normalise_channels(sums, channels, dtype, gradient)),
                 slope = value_tensor(normalise_channels(sums + channels, channels, dtype, gradient));
    struct value through = normalise(normalised, normalised->input, slope, offset);
    struct value centred = TORCH_CALL("aten::sub", "Tensor", value_tensor(gradient), through, value_int(1));
    record_clear(centred.tensor);
    value_drop(offset);
    value_drop(slope);
    value_drop(through);
    if (!graph_is_kept()) /* a loss that the program keeps holds the nodes and their hooks, but not what libtorch's nodes have saved */
        release_saved(normalised);
    return centred.tensor;
}

static void output_released(void *data) {
    normalise_note_result(((struct normalised *)data)->node, NULL);
    normalised_release(data);
}

/* ---- forward */

static struct tensor *alias_of(struct tensor *tensor) {
    struct tensor *alias = TORCH_CALL("aten::alias", "", value_tensor(tensor)).tensor;
    record_clear(alias);
    return alias;
}

static bool has_sums_in_passing(const struct shard_call *call) {
    return !call_is_none(call, 1) && !call_is_none(call, 2) && tensor_is_recorded(call->values[1].tensor) &&
           tensor_is_recorded(call->values[2].tensor) && !dtype_is_narrow(tensor_dtype(call->values[1].tensor));
}

static struct value run_kernel(const struct normalised *facts, struct value input, struct value weight, struct value bias) {
    return TORCH_CALL("aten::batch_norm", "", input, weight, bias, value_tensor(facts->mean), value_tensor(facts->variance),
                      value_bool(false), value_real(0), value_real(facts->epsilon), value_bool(false));
}

/* weight / sqrt(variance + epsilon). By libtorch: the shim has no mathematics library. Owned. */
static double *slope_of(struct value weight, const struct normalised *facts) {
    struct value wide = value_tensor(normalise_as_type(facts->variance, DTYPE_FLOAT64, true));
    value_drop(TORCH_CALL("aten::add_", "Scalar", wide, value_real(facts->epsilon), value_int(1)));
    value_drop(TORCH_CALL("aten::rsqrt_", "", wide));
    struct value plain = value_tensor(normalise_plain(weight.tensor));
    value_drop(TORCH_CALL("aten::mul_", "Tensor", wide, plain));
    double *slope = malloc((size_t)tensor_elements(wide.tensor) * sizeof *slope);
    normalise_read_channels(wide.tensor, slope);
    value_drop(plain);
    value_drop(wide);
    return slope;
}

static void let_go(struct normalised **normalised) {
    normalised_release(*normalised);
}

/* The kernel between aliases that carry the hooks. It throws what a pack function of the program's throws: a checkpoint that is computed again ends so, at
   what it has saved last, in each step. */
static struct value run_with_hooks(struct shard_call *call, const struct normalised *facts) {
    __attribute__((cleanup(let_go))) struct normalised *normalised = malloc(sizeof *normalised);
    *normalised = *facts;
    tensor_retain(normalised->mean);
    tensor_retain(normalised->variance);
    normalised->references = 1;
    normalised->input = normalise_plain(call->values[0].tensor);
    normalised->source = call->values[0].tensor;
    tensor_retain(normalised->source);
    normalised->weight = call_is_none(call, 1) ? NULL : call->values[1].tensor;
    HELD input = value_tensor(alias_of(call->values[0].tensor)), weight_alias = value_none(), bias_alias = value_none();
    struct value weight = call->values[1], bias = call->values[2];
    add_hook(input.tensor, normalised, centre_gradient);
    if (has_sums_in_passing(call)) {
        normalised->slope = slope_of(weight, facts);
        normalised->sums = malloc(2 * (size_t)tensor_size(facts->mean, 0) * sizeof *normalised->sums);
    }
    if (normalised->weight)
        tensor_retain(normalised->weight);
    bool has_weight = normalised->weight && tensor_is_recorded(normalised->weight);
    bool has_both = has_weight && !call_is_none(call, 2) && tensor_is_recorded(bias.tensor);
    if (has_both)
        bias = bias_alias = value_tensor(alias_of(bias.tensor));
    if (normalised->sums)
        add_hook(bias.tensor, normalised, keep_bias_gradient);
    if (has_weight) {
        weight = weight_alias = value_tensor(alias_of(weight.tensor));
        add_hook(weight.tensor, normalised, meet_weight_gradient);
    }
    struct value result = run_kernel(facts, input, weight, bias);
    normalised->node = tensor_node(result.tensor);
    normalise_note_result(normalised->node, normalised);
    atomic_fetch_add(&normalised->references, 1);
    tensor_add_hook(
        result.tensor,
        (struct hook_closure){.function = meet_output_gradient, .release = output_released, .data = normalised, .sees_none = true});
    return result;
}

/* ---- the rules */

static void facts_end(struct normalised *facts) {
    tensor_release(facts->mean);
    tensor_release(facts->variance);
}

static void normalise_with_all_rows(struct shard_call *call) {
    OPAQUE_SCOPE;
    struct tensor *input = call->values[0].tensor;
    int64_t channels = tensor_size(input, 1);
    double count = (double)elements_per_channel(call->lead);
    NUMBERS mean = malloc((size_t)channels * sizeof *mean);
    NUMBERS variance = malloc((size_t)channels * sizeof *variance);
    normalise_statistics(input, &call->record, mean, variance);
    enum torch_dtype dtype = statistics_type(call);
    __attribute__((cleanup(facts_end))) struct normalised facts = {
        .epsilon = call_real(call, 7, 1e-5), .count = count, .origin = call->record.origin};
    facts.mean = normalise_channels(mean, channels, dtype, input);
    facts.variance = normalise_channels(variance, channels, dtype, input);
    normalise_update_running(call, 3, mean, 1, channels, false);
    normalise_update_running(call, 4, variance, count / (count - 1), channels, false);
    struct value result =
        tensor_is_recorded(input) ? run_with_hooks(call, &facts) : run_kernel(&facts, call->values[0], call->values[1], call->values[2]);
    record_set(result.tensor, call->record);
    execute_return(call, &result, 1);
}

/* All in float16: a GPU's kernel has the variance in float32, libtorch's on the host sums it in float16, where it may be infinite. */
static bool is_all_half(struct shard_call *call) {
    struct tensor *vector = first_vector(call);
    return tensor_dtype(vector ? vector : call->values[0].tensor) == DTYPE_FLOAT16;
}

/* batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled) */
RULE_FUNCTION(batch_norm) {
    if (!normalise_only_rows_are_divided(call) || !dtype_is_floating(tensor_dtype(argument_tensor(call->lead))) ||
        !normalise_channels_fit(call))
        return RULE_GATHER;
    if (!call_flag(call, 5)) {
        decide_shard(call, 0, 0);
        return RULE_LOCAL;
    }
    if (!normalise_has_elements(call) || is_all_half(call)) /* of nothing there are no statistics: libtorch leaves the running ones alone */
        return RULE_GATHER;
    normalise_with_all_rows(call);
    return RULE_DONE;
}
