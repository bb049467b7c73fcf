/*
 * Derivatives of a normalisation over the batch that are to be differentiated again (create_graph: gradient penalties, inner steps, Hessian-vector
 * products). The kernel's, and what the hooks of normalise.c add to it, take the statistics for constants, which is right for the values alone. Here they are
 * functions of the rows:
 *     mean = sum(x) / n    deviation = sqrt(sum((x - mean)^2) / n + epsilon)    y = (x - mean) / deviation    d = gradient * weight
 *     of the input (d - sum(d) / n - y * sum(d * y) / n) / deviation            of the weight sum(gradient * y)
 * Sums are over all ranks' rows, by gather_partial, which autograd knows, but for the weight's: each rank has its part of a parameter's gradient.
 */
#include <pthread.h>

#include "normalise.h"

/* At most one is kept, since a gradient's graph may lead to the node on which its normalisation hangs: nobody would free them. */
static struct normalised *keeper;
static pthread_mutex_t keeper_mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void keeper_start(void) {
    threads_renew_in_child(&keeper_mutex); /* there graphs of the parent's end, too */
}

/* of: NULL for any. */
static void exchange_keeper(const struct normalised *of, struct normalised *next, struct tensor *gradient) {
    struct tensor *before = NULL;
    pthread_mutex_lock(&keeper_mutex);
    if (keeper && (!of || keeper == of)) {
        before = keeper->gradient;
        keeper->gradient = NULL;
        keeper = NULL;
    }
    if (next) {
        next->gradient = gradient;
        keeper = next;
    }
    pthread_mutex_unlock(&keeper_mutex);
    if (before)
        tensor_release(before);
}

void normalise_keep_gradient(struct normalised *normalised, struct tensor *gradient) {
    tensor_retain(gradient);
    exchange_keeper(NULL, normalised, gradient);
}

void normalise_forget_gradients(void) {
    exchange_keeper(NULL, NULL, NULL);
}

void normalise_forget_gradient(struct normalised *normalised) {
    exchange_keeper(normalised, NULL, NULL);
}

/* A hook of the program's on a result may change what flows into its node, which is what is to be kept. */
static struct pairs results; /* by node */

void normalise_note_result(void *node, struct normalised *normalised) {
    pthread_mutex_lock(&keeper_mutex);
    pairs_put(&results, node, normalised);
    pthread_mutex_unlock(&keeper_mutex);
}

void normalise_hook_returned(void *node, struct tensor *gradient) {
    struct normalised *normalised = node ? pairs_get(&results, node) : NULL;
    pthread_mutex_lock(&keeper_mutex);
    bool keeps =
        normalised && keeper == normalised && gradient != torch_facts.undefined; /* a hook of C++ that only looks returns nothing */
    pthread_mutex_unlock(&keeper_mutex);
    if (keeps)
        normalise_keep_gradient(normalised, gradient);
}

static struct value taken(struct value result, struct value used) {
    value_drop(used);
    return result;
}

/* Of this rank's rows and positions; with one element along all other dimensions, so that it spreads over the rows again. */
static struct value sum_own(struct value tensor) {
    int64_t dims[TORCH_DIMS_MAX];
    int count = 0;
    for (int dim = 0; dim < tensor_dims(tensor.tensor); dim++)
        if (dim != 1)
            dims[count++] = dim;
    return TORCH_CALL("aten::sum", "dim_IntList", tensor, value_int_list(dims, (size_t)count), value_bool(true), value_none());
}

/* Over all rows and positions. Takes the tensor. */
static struct value mean_of(struct value tensor, double count) {
    struct value own = taken(sum_own(tensor), tensor),
                 sum = value_tensor(gather_partial("second derivative of a normalisation", own.tensor));
    value_drop(own);
    return taken(TORCH_CALL("aten::div", "Scalar", sum, value_real(count)), sum);
}

static struct value times(struct value a, struct value b) {
    return TORCH_CALL("aten::mul", "Tensor", a, b);
}

static struct value less(struct value a, struct value b) {
    return TORCH_CALL("aten::sub", "Tensor", a, b, value_int(1));
}

static struct value with_type(struct tensor *tensor, enum torch_dtype dtype) {
    return TORCH_CALL("aten::to", "dtype", value_tensor(tensor), value_int(dtype), value_bool(false), value_bool(false), value_none());
}

/* The rows normalised, with their history, and the inverse of the deviation. Owned. */
struct rows {
    struct value normal, inverse;
};

static struct rows normal_rows(const struct normalised *normalised, enum torch_dtype dtype) {
    if (!normalised->gradient)
        shim_problem("AR-GRAD-KIND", "Take the inner backward out of the outer one, or run with -n 1.",
                     "a backward within a backward has come between a normalisation over the batch and its gradient, which is to be "
                     "differentiated again");
    struct value rows = with_type(normalised->source, dtype);
    struct value mean = mean_of(TORCH_CALL("aten::alias", "", rows), normalised->count);
    struct value away = taken(taken(less(rows, mean), rows), mean);
    struct value variance = mean_of(times(away, away), normalised->count);
    struct value wider = taken(TORCH_CALL("aten::add", "Scalar", variance, value_real(normalised->epsilon), value_int(1)), variance);
    struct value inverse = taken(TORCH_CALL("aten::rsqrt", "", wider), wider);
    return (struct rows){taken(times(away, inverse), away), inverse};
}

static enum torch_dtype dtype_of_statistics(const struct normalised *normalised) {
    return tensor_dtype(normalised->mean);
}

/* One element per channel, which spreads over the rows. */
static struct value spread(struct tensor *vector, struct tensor *rows) {
    int64_t sizes[TORCH_DIMS_MAX];
    for (int dim = 0; dim < tensor_dims(rows); dim++)
        sizes[dim] = dim == 1 ? tensor_size(rows, 1) : 1;
    return TORCH_CALL("aten::reshape", "", value_tensor(vector), value_int_list(sizes, (size_t)tensor_dims(rows)));
}

/* libtorch's derivatives of a normalisation's derivative take the statistics for constants where they are differentiated once more: a third derivative is not
   one process's (a bias in front of it has none, but gets one there). */
static struct tensor *meet_second_derivative(struct tensor *gradient, void *unused) {
    if (grad_mode_is_enabled())
        shim_problem(
            "AR-THIRD-DERIVATIVE",
            "Leave create_graph out of the second derivative if no third one is wanted, take the normalisation over the batch out of "
            "what is differentiated so often, or run with -n 1.",
            "a second derivative through a normalisation over the batch is to be differentiated again (create_graph)");
    tensor_retain(gradient);
    return gradient;
}

/* Of a gradient that is ready. Takes and returns it. */
static struct tensor *guarded(struct tensor *gradient) {
    record_clear(gradient);
    if (tensor_is_recorded(gradient))
        tensor_add_hook(gradient, (struct hook_closure){.function = meet_second_derivative});
    return gradient;
}

struct tensor *normalise_input_gradient(const struct normalised *normalised) {
    enum torch_dtype dtype = dtype_of_statistics(normalised);
    struct rows rows = normal_rows(normalised, dtype);
    struct value gradient = with_type(normalised->gradient, dtype);
    if (normalised->weight) {
        struct value weight = spread(normalised->weight, normalised->source);
        gradient = taken(taken(times(gradient, weight), gradient), weight);
    }
    struct value mean = mean_of(TORCH_CALL("aten::alias", "", gradient), normalised->count);
    struct value along = mean_of(times(gradient, rows.normal), normalised->count);
    struct value part = taken(taken(times(rows.normal, along), rows.normal), along);
    struct value centred = taken(taken(less(gradient, mean), gradient), mean);
    struct value rest = taken(taken(less(centred, part), centred), part);
    struct value result = taken(taken(times(rest, rows.inverse), rest), rows.inverse);
    struct value narrow = taken(with_type(result.tensor, tensor_dtype(normalised->source)), result);
    return guarded(narrow.tensor);
}

struct tensor *normalise_weight_gradient(const struct normalised *normalised) {
    enum torch_dtype dtype = dtype_of_statistics(normalised);
    struct rows rows = normal_rows(normalised, dtype);
    struct value gradient = with_type(normalised->gradient, dtype);
    struct value product = taken(taken(times(gradient, rows.normal), gradient), rows.normal);
    struct value sum = taken(sum_own(product), product);
    int64_t channels = tensor_size(normalised->source, 1);
    struct value vector = taken(TORCH_CALL("aten::reshape", "", sum, value_int_list(&channels, 1)), sum);
    struct value result = taken(with_type(vector.tensor, tensor_dtype(normalised->weight)), vector);
    value_drop(rows.inverse);
    return guarded(result.tensor);
}
