/*
 * Do the ranks still train the same model? Equal parameters and equal gradients make equal parameters, so one comparison at the start would do, if it were
 * not for what the gradients do not tell: an optimizer's state that one host has read from a checkpoint and another has not, a learning rate taken from a
 * clock. So with the list of each backward's gradients goes a checksum of a few bytes of one of their parameters, another one each time. What an optimizer
 * does with other numbers is seen in all parameters, so one step later this net has it, before the next step is made.
 *
 * Numbers that the program has computed and that met divided values are compared likewise: a loss times what a clock says makes one sum of what are the ranks'
 * own losses (shim/torch/numbers.c).
 *
 * Other processors round differently, and equal runs on them part by rounding: where the checksums differ the values are compared.
 */
#include <math.h>
#include <string.h>

#include "reduce.h"

enum { WINDOW_BYTES = 1024, SELDOM = 64 };

static uint64_t backwards; /* whose gradients were summed: the same number on all ranks */
static _Atomic uint64_t undivided;
static unsigned every = 1; /* backwards for each comparison; SELDOM, once hosts were seen to round otherwise */
static bool is_said;
static const double FAR = 1e-3, FAR_FLOAT16 = 5e-3, FAR_BFLOAT16 = 4e-2; /* of the largest value */
static const double NEAR = 1e-6, NEAR_FLOAT64 = 1e-14;

struct window {
    char data[WINDOW_BYTES];
    size_t bytes, ordinal; /* 0 bytes: nothing is compared now */
    enum torch_dtype dtype;
};

static void read_window(struct window *window, struct tensor *leaf, size_t begin) {
    if (tensor_is_on_host(leaf)) {
        memcpy(window->data, (const char *)tensor_data(leaf) + begin, window->bytes);
        return;
    }
    OPAQUE_SCOPE;
    int64_t element = (int64_t)dtype_bytes(window->dtype), count = (int64_t)window->bytes / element, stride = 1;
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(leaf));
    struct value range = TORCH_CALL("aten::as_strided", "", plain, value_int_list(&count, 1), value_int_list(&stride, 1),
                                    value_int(tensor_storage_offset(leaf) + (int64_t)begin / element));
    struct tensor *host = host_copy(range.tensor);
    memcpy(window->data, tensor_data(host), window->bytes);
    tensor_release(host);
    value_drop(range);
    value_drop(plain);
}

/* From the list of leaves and the number of the backward alone. */
static struct window window_of(const struct backward *backward) {
    struct window window;
    window.bytes = 0;
    if (!backward->count || backwards % every)
        return window;
    const struct leaf_gradient *leaf = &backward->leaves[backwards / every % backward->count];
    enum record_kind kind = record_get(leaf->leaf).kind;
    if (kind == RECORD_SHARD || kind == RECORD_PARTIAL) /* other values on each rank, as they should be */
        return window;
    if (!tensor_has_memory(leaf->leaf) || !tensor_is_dense(leaf->leaf))
        return window;
    window.dtype = tensor_dtype(leaf->leaf);
    window.ordinal = leaf->ordinal;
    size_t bytes = tensor_bytes(leaf->leaf);
    size_t windows = (bytes + WINDOW_BYTES - 1) / WINDOW_BYTES;
    size_t begin = windows ? backwards / every / backward->count % windows * WINDOW_BYTES : 0;
    window.bytes = bytes - begin < WINDOW_BYTES ? bytes - begin : WINDOW_BYTES;
    read_window(&window, leaf->leaf, begin);
    return window;
}

static uint64_t checksum_of_window(const struct window *window) {
    return window->bytes ? checksum_bytes(window->ordinal, window->data, window->bytes) : 0;
}

uint64_t drift_word(const struct backward *backward) {
    struct window window = window_of(backward);
    return checksum_of_window(&window) ^ (backwards % every ? 0 : checksum_mix(backward->numbers, 1));
}

void drift_note_undivided(void) {
    atomic_fetch_add(&undivided, 1);
}

void drift_next(struct backward *backward) {
    backwards++;
    backward->numbers = numbers_take();
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double distance(double a, double b) {
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    return isfinite(a) && isfinite(b) ? larger(a - b, b - a) : HUGE_VAL;
}

/* A complex number is two real ones. */
static enum torch_dtype type_of_parts(enum torch_dtype dtype) {
    return dtype == DTYPE_COMPLEX64 ? DTYPE_FLOAT32 : dtype == DTYPE_COMPLEX128 ? DTYPE_FLOAT64 : dtype;
}

static double widen_float16(uint16_t half) {
    enum { FRACTION_BITS = 10, INFINITE = 31, LOWEST = -24 }; /* its last digit is worth 2^LOWEST where the exponent is 0 or 1 */
    int exponent = half >> FRACTION_BITS & INFINITE, fraction = half % (1 << FRACTION_BITS);
    double value = exponent == INFINITE ? (fraction ? (double)NAN : HUGE_VAL)
                                        : ldexp(fraction + (exponent ? 1 << FRACTION_BITS : 0), LOWEST + (exponent ? exponent - 1 : 0));
    return half >> 15 ? -value : value;
}

/* Of a floating type. */
static double value_at(enum torch_dtype dtype, const char *data, size_t index) {
    float single = 0;
    double value;
    uint16_t half;
    data += index * dtype_bytes(dtype);
    if (dtype == DTYPE_FLOAT64) {
        memcpy(&value, data, sizeof value);
        return value;
    }
    if (dtype == DTYPE_FLOAT16) {
        memcpy(&half, data, sizeof half);
        return widen_float16(half);
    }
    if (dtype == DTYPE_BFLOAT16) /* the upper half of a float32 */
        memcpy((char *)&single + sizeof single / 2, data, sizeof single / 2);
    else
        memcpy(&single, data, sizeof single);
    return (double)single;
}

static double far_of(enum torch_dtype dtype) {
    return dtype == DTYPE_BFLOAT16 ? FAR_BFLOAT16 : dtype == DTYPE_FLOAT16 ? FAR_FLOAT16 : FAR;
}

/* May rounding have taken the values of two ranks that far apart, of which this is the largest? On one host they compute the same of the same: what
   differs is a last digit in each step, by where memory lies or by which thread adds first (the backward of x[indices]), and goes to and fro, so it grows as
   the root of their number. */
static bool is_rounding(enum torch_dtype dtype, double difference, double largest) {
    if (!isfinite(difference))
        return false;
    if (dtype_is_narrow(dtype) || shim_has_hosts())
        return difference <= far_of(dtype) * largest;
    double near = (dtype == DTYPE_FLOAT64 ? NEAR_FLOAT64 : NEAR) * largest;
    return difference * difference <= near * near * (double)(backwards + atomic_load(&undivided));
}

/* More than rounding? Types that are not looked into here are far when they differ. */
static bool is_far(const struct window *window, const char *rank_0s) {
    enum torch_dtype dtype = type_of_parts(window->dtype);
    if (!dtype_is_floating(dtype))
        return memcmp(window->data, rank_0s, window->bytes) != 0;
    double largest = 0, difference = 0;
    for (size_t i = 0; i < window->bytes / dtype_bytes(dtype); i++) {
        double own = value_at(dtype, window->data, i), other = value_at(dtype, rank_0s, i);
        largest = larger(larger(largest, own), -own);
        difference = larger(difference, distance(own, other));
    }
    return !is_rounding(dtype, difference, largest);
}

static void examine_numbers(const struct backward *backward) {
    uint64_t all[BOARD_RANKS_MAX];
    if (backwards % every)
        return;
    comm_all_gather_words("computed numbers", backward->numbers, all);
    for (uint32_t rank = 1; rank < shim_world_size(); rank++)
        if (numbers_are_far(all[rank], all[0]))
            shim_problem(
                "AR-NUMBERS-PARTED",
                "Targets, factors, rates and weights of the loss must come from what all ranks have (files, steps, losses, seeded draws), "
                "not from a clock or the process's number.",
                "rank %u has other numbers than rank 0 in an operator on divided values: the ranks' parts of the "
                "gradients belong to different losses",
                rank);
}

static void examine_parameter(const struct backward *backward) {
    uint64_t all[BOARD_RANKS_MAX];
    char rank_0s[WINDOW_BYTES];
    struct window window = window_of(backward);
    if (!window.bytes)
        return;
    comm_all_gather_words("checksum of a parameter", checksum_of_window(&window), all);
    if (comm_first_other(all) == shim_world_size())
        return;
    memcpy(rank_0s, window.data, window.bytes);
    comm_broadcast("values of a parameter", rank_0s, window.bytes, 0);
    comm_all_gather_words("has another parameter", is_far(&window, rank_0s), all);
    if (comm_first_other(all) < shim_world_size())
        shim_problem(
            "AR-MODELS-PARTED",
            "What the program goes on from (a checkpoint, the optimizer's state in it) must be the same on every host, and learning "
            "rates must not come from a clock.",
            "rank %u has other values in parameter %u than rank 0: its optimizer has made another step", comm_first_other(all),
            leaf_number(window.ordinal));
    if (!is_said && shim_rank() == 0)
        shim_warning("AR-ROUNDING", "nothing, this is harmless",
                     "the ranks' parameters differ by rounding, as those of hosts with other processors do");
    if (shim_has_hosts())
        every = SELDOM;
    is_said = true;
    numbers_round_apart();
}

void drift_examine(const struct backward *backward) {
    examine_parameter(backward);
    examine_numbers(backward);
}
