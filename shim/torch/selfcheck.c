/*
 * The live self-check: a tiny layer on private tensors, forward and backward, through every hook that training needs, with known results. Whatever libtorch
 * does differently shows here, before the program's first step, and is named.
 *
 *   x (2N+1 rows, 3) · W (3, 2) → relu → sum → backward;   everything is a small whole number, so results are exact.
 */
#include <stdlib.h>

#include "../shim.h"
#include "functions.h"

enum { FEATURES = 3, OUTPUTS = 2 };

/* Calls an operator as a program does: with our keys in place. Arguments borrowed (lists consumed), the first result owned. */
static struct value user_call(const char *name, const char *overload, int count, const struct value *arguments) {
    struct handle handle;
    torch_functions.find_schema(&handle, torch_functions.dispatcher(), name, overload);
    struct stack stack;
    stack.begin = malloc(16 * sizeof(struct value));
    stack.end = stack.begin + count;
    stack.capacity = stack.begin + 16;
    uint64_t *thread = dispatch_thread_keys();
    uint64_t keys = thread[0] ^ torch_facts.default_included;
    for (int i = 0; i < count; i++) {
        stack.begin[i] = arguments[i];
        if (arguments[i].tag == TAG_TENSOR) {
            tensor_retain(arguments[i].tensor);
            keys |= *tensor_key_set(arguments[i].tensor);
        }
    }
    keys &= ~(thread[1] ^ torch_facts.default_excluded);
    dispatch_kernel(&handle, dispatch_without_fallthrough(&handle, keys), &stack);
    struct value first = stack.end > stack.begin ? stack.begin[0] : value_none();
    free(stack.begin);
    return first;
}

#define USER_CALL(name, overload, ...)                                                                                                     \
    ({                                                                                                                                     \
        struct value user_arguments_[] = {__VA_ARGS__};                                                                                    \
        user_call(name, overload, (int)(sizeof user_arguments_ / sizeof user_arguments_[0]), user_arguments_);                             \
    })

/* 0, 1, 2, ... as a float matrix. */
static struct value matrix(int64_t rows, int64_t columns) {
    struct value flat = TORCH_CALL("aten::arange", "start", value_int(0), value_int(rows * columns), value_int(DTYPE_FLOAT32), value_none(),
                                   value_none(), value_none());
    const int64_t shape[] = {rows, columns};
    struct value result = TORCH_CALL("aten::reshape", "", flat, value_int_list(shape, 2));
    value_drop(flat);
    return result;
}

static void check_forward(struct tensor *hidden, int64_t rows) {
    int64_t first, own;
    struct record record = record_get(hidden);
    if (record.kind != RECORD_SHARD || record.total != rows)
        torch_unsupported("self-check: a parameter's operator",
                          "a layer's result is not divided (kind %d); its operators do not reach the fallback", record.kind);
    own = tensor_size(hidden, 0);
    first = record.first;
    struct value shown = USER_CALL("aten::size", "int", value_tensor(hidden), value_int(0));
    if (shown.integer != rows || own != record.rows || first + own > rows)
        torch_unsupported("self-check: two views of a size", "%lld rows shown, %lld held, of %lld", (long long)shown.integer,
                          (long long)own, (long long)rows);
}

static double expected_hidden(int64_t row, int column) {
    double sum = 0;
    for (int k = 0; k < FEATURES; k++)
        sum += (double)(row * FEATURES + k) * (k * OUTPUTS + column);
    return sum;
}

static double expected_sum(int64_t rows) {
    double sum = 0;
    for (int64_t row = 0; row < rows; row++)
        for (int column = 0; column < OUTPUTS; column++)
            sum += expected_hidden(row, column);
    return sum;
}

static void check_gradient(struct tensor *weight, int64_t rows) {
    struct tensor *gradient = *tensor_grad_slot(weight);
    if (!gradient || gradient == torch_facts.undefined)
        torch_unsupported("self-check: backward", "the parameter received no gradient");
    const float *values = tensor_data(gradient);
    for (int k = 0; k < FEATURES; k++) {
        double expected = 0;
        for (int64_t row = 0; row < rows; row++)
            expected += (double)(row * FEATURES + k);
        for (int column = 0; column < OUTPUTS; column++)
            if (values[k * OUTPUTS + column] != (float)expected)
                torch_unsupported("self-check: gradient", "%g where %g is right: backward or accumulation is not seen",
                                  values[k * OUTPUTS + column], expected);
    }
}

/* Memory looked at by the program is the whole batch's, and the tensor has its own again when an operator comes. */
static void check_memory(struct tensor *hidden, int64_t rows) {
    void *cell = hidden;
    const float *values = torch_functions.data_float(&cell);
    for (int64_t row = 0; row < rows; row++)
        for (int column = 0; column < OUTPUTS; column++)
            if (values[row * OUTPUTS + column] != (float)expected_hidden(row, column))
                torch_unsupported("self-check: memory", "%g where %g is right: what the program reads itself is not seen",
                                  values[row * OUTPUTS + column], expected_hidden(row, column));
    OPAQUE_SCOPE;
    if (tensor_data(hidden) == values)
        torch_unsupported("self-check: memory", "a divided tensor does not get its own memory back");
}

/* Leaves made by other ways than set_requires_grad, and x.data = y, which must not take the mark of a leaf away. */
static void check_leaves(struct tensor *weight) {
    struct value other = matrix(FEATURES, OUTPUTS);
    value_drop(USER_CALL("aten::set_data", "", value_tensor(weight), other));
    value_drop(other);
    if (!tensor_is_parameter(weight))
        torch_unsupported("self-check: leaves", "x.data = y is not seen");
}

void selfcheck_run(void) {
    GRAD_MODE_SCOPE;
    int64_t rows = 2 * (int64_t)shim_world_size() + 1;
    struct value data = matrix(rows, FEATURES), weight = matrix(FEATURES, OUTPUTS);
    value_drop(USER_CALL("aten::requires_grad_", "", weight, value_bool(true)));
    if (!tensor_is_parameter(weight.tensor))
        torch_unsupported("self-check: leaves", "set_requires_grad is not seen");
    check_leaves(weight.tensor);
    struct value hidden = USER_CALL("aten::mm", "", data, weight);
    check_forward(hidden.tensor, rows);
    check_memory(hidden.tensor, rows);
    struct value active = USER_CALL("aten::relu", "", hidden);
    struct value sum = USER_CALL("aten::sum", "", active, value_none());
    if (record_get(sum.tensor).kind != RECORD_PARTIAL)
        torch_unsupported("self-check: sums", "the sum over the rows is not a partial sum");
    struct value read = USER_CALL("aten::item", "", sum);
    if (read.tag != TAG_DOUBLE || read.real != expected_sum(rows))
        torch_unsupported("self-check: reading a number", "%g where %g is right", read.real, expected_sum(rows));
    struct value no_inputs = value_tensor_list(NULL, 0);
    value_drop(USER_CALL("aten::_backward", "", sum, no_inputs, value_none(), value_none(), value_bool(false)));
    check_gradient(weight.tensor, rows);
    value_drop(sum);
    value_drop(active);
    value_drop(hidden);
    value_drop(weight);
    value_drop(data);
    *dispatch_client.last_batch() = 0; /* indices of one dimension are cut when they are as many as the program's batch */
    if (record_count())
        torch_unsupported("self-check: a tensor's end", "%zu records outlive their tensors", record_count());
}
