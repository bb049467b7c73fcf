/*
 * Numbers that the program has computed, and that meet divided values: a loss times what a clock or a process's number says is another loss on each rank, and
 * the sum over the ranks no loss at all. Nothing else tells: all ranks have the same sum and go on with the same parameters.
 *
 * Rules
 *  - The operations that they are part of are compared, too, where the ranks exchange, but there numbers with more than six digits count for nothing
 *    (hooks/shard/origin.c): what is read and printed comes by, and may hang on a clock.
 *  - Compared once a backward, with its gradients (hooks/reduce/drift.c): a comparison for each would cost an exchange each.
 *  - One word stands for all numbers since the last comparison: the sum of their bits, read as integers. The bits of a positive floating-point number are
 *    nearly linear in its logarithm, so what differs by a relative error moves the word by as much, whatever the size of the numbers, in any order.
 *  - A tensor (targets, class weights, a mask to be added) counts as one number: the mean of its elements' sizes, each with a weight of its own, so that others
 *    are seen, and the same in another order. Of a large one some hundred elements are looked at.
 *  - Of the main thread only: what other threads do between two of its backwards is each rank's own. Not of the self-check, which the main thread runs on one
 *    rank and, where it comes first, another thread on the next.
 */
#include <math.h>
#include <string.h>

#include "../shim.h"
#include "../threads.h"
#include "numbers.h"
#include "torch.h"

enum { FRACTION_BITS = 52 };
#define NEGATIVE ((1ull << 56) + 1) /* far from everything: the sign's own bit would be lost in a sum of two */

static uint64_t word; /* the main thread alone looks at it */
static atomic_bool has_begun, are_apart;

void numbers_begin(void) {
    has_begun = true;
}

void numbers_meet(double number) {
    if (!threads_is_main() || !has_begun)
        return;
    double size = number < 0 ? -number : number;
    uint64_t bits;
    memcpy(&bits, &size, sizeof bits);
    word += bits + (number < 0 ? NEGATIVE : 0);
}

/* ---- tensors */

enum { ELEMENTS_LOOKED_AT = 512 };
static const double LEAST = 1e-6; /* what is nearly nothing on one host may be nothing on another, which is far from it by its bits */

static int64_t place_of(int64_t element, const struct sizes *sizes, const struct sizes *strides) {
    int64_t place = 0;
    for (size_t i = sizes->count; i-- > 0; element /= sizes->data[i])
        place += element % sizes->data[i] * strides->data[i];
    return place;
}

static double element_at(const void *data, enum torch_dtype dtype, int64_t place) {
    uint32_t bits;
    float single;
    if (dtype == DTYPE_FLOAT64)
        return ((const double *)data)[place];
    if (dtype == DTYPE_FLOAT32)
        return ((const float *)data)[place];
    bits = (uint32_t)((const uint16_t *)data)[place] << 16; /* bfloat16: the upper half of a float32 */
    memcpy(&single, &bits, sizeof single);
    return single;
}

/* An odd step does not stay in one column of a table of 64. What is not finite has no size: it is where it is. */
static double number_of(struct tensor *tensor, const void *data, int64_t elements) {
    struct sizes sizes = tensor_sizes(tensor), strides = tensor_strides(tensor);
    enum torch_dtype dtype = tensor_dtype(tensor);
    bool is_packed = tensor_is_contiguous(tensor);
    int64_t step = elements <= ELEMENTS_LOOKED_AT ? 1 : elements / ELEMENTS_LOOKED_AT | 1, count = 0;
    double sum = 0, weight = 0;
    for (int64_t element = 0; element < elements; element += step, count++) {
        double number = element_at(data, dtype, is_packed ? element : place_of(element, &sizes, &strides));
        weight = weight < 1 ? weight + 0.6180339887 : weight - 0.3819660113; /* the golden ratio's multiples are all apart */
        sum += isfinite(number) ? weight * (number < 0 ? -1.5 * number : number) : weight;
    }
    return sum / (double)count;
}

void numbers_meet_tensor(struct tensor *tensor) {
    if (!threads_is_main() || !has_begun || !tensor_is_plain(tensor) || tensor_is_marked(tensor) || !tensor_is_on_host(tensor) ||
        tensor_has_no_values(tensor))
        return;
    enum torch_dtype dtype = tensor_dtype(tensor);
    int64_t elements = tensor_elements(tensor);
    const void *data = elements ? tensor_data(tensor) : NULL;
    if (!data || (dtype != DTYPE_FLOAT32 && dtype != DTYPE_FLOAT64 && dtype != DTYPE_BFLOAT16))
        return;
    numbers_meet(elements == 1 ? element_at(data, dtype, 0) : LEAST + number_of(tensor, data, elements));
}

uint64_t numbers_take(void) {
    uint64_t taken = 0;
    if (threads_is_main()) {
        taken = word;
        word = 0;
    }
    return taken;
}

void numbers_round_apart(void) {
    are_apart = true;
}

bool numbers_may_be_apart(void) {
    return shim_has_hosts() || (are_apart && threads_is_main()); /* other threads come to know of it at another time on each rank */
}

bool numbers_are_far(uint64_t one, uint64_t other) {
    int64_t difference = (int64_t)(one - other);
    return (difference < 0 ? -difference : difference) > (int64_t)(1e-4 * (double)(1ull << FRACTION_BITS));
}
