/*
 * What libtorch makes of some gradients of an instance_norm. Its kernel for the backward of batch_norm on the CPU (1.13 to 2.15; of three dimensions since 2.1)
 * reads the gradient's memory as if it lay like the input's, where both count as contiguous; and one that has its channels innermost does, when its first
 * dimension, of one element, has not the stride that goes with it. instance_norm hands it {1, rows * channels, ...}, always such a first dimension. Where rows
 * and channels are innermost, as from rnn(norm(x).flatten(2).transpose(1, 2)), one process therefore trains with the memory (places x rows x channels) read as
 * (rows x channels x places): not what was meant, but what this run is to be equal to. So the ranks put the gradient together as it lies there, and each takes
 * its rows of what libtorch would have read.
 *
 * batch_norm is mistaken likewise for a batch of one row alone, and a rank has at least two (entry.c). Whether this libtorch does it is found out by trying,
 * when such a gradient comes for the first time.
 */
#include <stdlib.h>

#include "normalise.h"

/* ---- does it? */

static struct tensor *filled(int64_t count, double first, double step) {
    return TORCH_CALL("aten::arange", "start_step", value_real(first), value_real(first + step * ((double)count - 0.5)), value_real(step),
                      value_int(DTYPE_FLOAT32), value_none(), value_none(), value_none())
        .tensor;
}

/* Strides with rows and channels innermost, as the gradient lies, and those with which it is read. */
struct layouts {
    int64_t lies[TORCH_DIMS_MAX], is_read[TORCH_DIMS_MAX];
};

static struct layouts layouts_of(const int64_t *sizes, int dims) {
    struct layouts layouts = {.lies = {sizes[1], 1}};
    int64_t outer = sizes[0] * sizes[1], inner = 1;
    for (int i = dims - 1; i >= 0; i--) {
        layouts.is_read[i] = inner;
        inner *= sizes[i];
        if (i < 2)
            continue;
        layouts.lies[i] = outer;
        outer *= sizes[i];
    }
    return layouts;
}

static struct tensor *laid_out(struct tensor *memory, const int64_t *sizes, const int64_t *strides, size_t dims) {
    return TORCH_CALL("aten::as_strided", "", value_tensor(memory), value_int_list(sizes, dims), value_int_list(strides, dims),
                      value_none())
        .tensor;
}

/* The kernel's gradient of the input, with mean 0 and deviation 1. Owned. NULL: it cannot be asked. */
static struct tensor *kernel_gradient(struct tensor *gradient, struct tensor *input) {
    static struct operator_reference backward = {"aten::native_batch_norm_backward", "", {NULL, NULL}};
    struct value mask, results[3];
    if (!value_bool_list((const bool[]){true, false, false}, 3, &mask))
        return NULL;
    struct value mean = value_tensor(filled(4, 0, 1)), deviation = value_tensor(filled(4, 1, 1));
    struct value arguments[] = {value_tensor(gradient), value_tensor(input), value_none(), value_none(), value_none(), mean, deviation,
                                value_bool(true),       value_real(1e-5),    mask};
    results[0] = operator_call(&backward, 10, arguments, results + 1, 2);
    value_drop(mean);
    value_drop(deviation);
    for (int i = 1; i < 3; i++)
        value_drop(results[i]);
    return results[0].tensor;
}

/* Tries it with four channels. */
static bool try_kernel(int dims) {
    OPAQUE_SCOPE;
    const int64_t sizes[] = {1, 4, 2, 2, 2}, count = dims == 5 ? 32 : 16;
    struct layouts layouts = layouts_of(sizes, dims);
    struct tensor *memory = filled(count, 1, 1), *odd = laid_out(memory, sizes, layouts.lies, (size_t)dims),
                  *misread = laid_out(memory, sizes, layouts.is_read, (size_t)dims), *values = filled(count, -3, 0.25),
                  *input = laid_out(values, sizes, layouts.is_read, (size_t)dims);
    struct tensor *one = kernel_gradient(odd, input), *other = kernel_gradient(misread, input);
    if (!one || !other)
        shim_problem("AR-GRAD-KIND", "Make it contiguous, y.register_hook(lambda g: g.contiguous()), or run with -n 1.",
                     "the gradient of an instance_norm has rows and channels as its innermost dimensions, which libtorch may mix, and this "
                     "libtorch does not tell whether it does");
    struct value equal = TORCH_CALL("aten::equal", "", value_tensor(one), value_tensor(other));
    struct tensor *made[] = {memory, odd, misread, values, input, one, other};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        tensor_release(made[i]);
    return value_flag(&equal);
}

static bool kernel_misreads(int dims) {
    enum { UNKNOWN, NO, YES };
    static _Atomic int known[2];
    _Atomic int *answer = &known[dims == 5];
    if (*answer == UNKNOWN)
        *answer = try_kernel(dims) ? YES : NO;
    return *answer == YES;
}

/* ---- the gradient of the result */

/* Places outermost, then rows, then channels: on each rank where it is so in one process. */
static bool has_rows_innermost(struct tensor *gradient) {
    struct sizes sizes = tensor_sizes(gradient), strides = tensor_strides(gradient);
    int64_t channels = sizes.data[1], stride = channels * sizes.data[0];
    if (strides.data[0] != channels || (channels > 1 && strides.data[1] != 1) || tensor_elements(gradient) == stride)
        return false;
    for (size_t i = sizes.count - 1; i > 1; i--) {
        if (sizes.data[i] > 1 && strides.data[i] != stride)
            return false;
        stride *= sizes.data[i];
    }
    return true;
}

/* As one process would read it. */
static struct tensor *misread(struct tensor *gradient, const struct record *record) {
    int64_t sizes[TORCH_DIMS_MAX];
    int dims = tensor_dims(gradient);
    memcpy(sizes, tensor_sizes(gradient).data, (size_t)dims * sizeof *sizes);
    sizes[0] = record_total(record);
    struct layouts layouts = layouts_of(sizes, dims);
    struct tensor *memory = gather_laid_out("gradient of an instance_norm", gradient, record, sizes, layouts.lies);
    struct tensor *whole = laid_out(memory, sizes, layouts.is_read, (size_t)dims), *rows = rows_take(whole, record, 0);
    struct tensor *own = TORCH_CALL("aten::contiguous", "", value_tensor(rows), value_int(0)).tensor;
    record_clear(own);
    tensor_release(memory);
    tensor_release(whole);
    tensor_release(rows);
    return own;
}

static struct tensor *meet_gradient(struct tensor *gradient, void *data) {
    OPAQUE_SCOPE;
    if (!tensor_is_on_host(gradient) || !has_rows_innermost(gradient) || !kernel_misreads(tensor_dims(gradient))) {
        tensor_retain(gradient);
        return gradient;
    }
    if (tensor_is_recorded(gradient))
        shim_problem("AR-GRAD-KIND", "Make it contiguous, y.register_hook(lambda g: g.contiguous()), or run with -n 1.",
                     "the gradient of an instance_norm, which is to be differentiated again, has rows and channels as its innermost "
                     "dimensions, which libtorch mixes");
    return misread(gradient, data);
}

/* Hooks that the program adds to the result come first, as the result is a view of the one that has ours, and a view in one process. */
struct value normalise_watch_gradient(struct value result, const struct record *record) {
    int dims = tensor_dims(result.tensor);
    if (!tensor_is_recorded(result.tensor) || (dims != 4 && dims != 5)) /* libtorch knows no other layouts of channels */
        return result;
    struct record *kept = malloc(sizeof *kept);
    *kept = *record;
    tensor_add_hook(result.tensor, (struct hook_closure){.function = meet_gradient, .release = free, .data = kept});
    struct value view = TORCH_CALL("aten::view_as", "", result, result);
    value_drop(result);
    return view;
}
