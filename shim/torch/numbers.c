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
 *  - Of the main thread only: what other threads do between two of its backwards is each rank's own. Not of the self-check, which the main thread runs on one
 *    rank and, where it comes first, another thread on the next.
 */
#include <string.h>

#include "../threads.h"
#include "numbers.h"
#include "torch.h"

enum { FRACTION_BITS = 52 };
#define NEGATIVE ((1ull << 56) + 1) /* far from everything: the sign's own bit would be lost in a sum of two */

static uint64_t word; /* the main thread alone looks at it */
static atomic_bool has_begun;

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

void numbers_meet_tensor(struct tensor *tensor) {
    if (!tensor_is_plain(tensor) || tensor_is_marked(tensor) || !tensor_is_on_host(tensor) || !tensor_elements(tensor))
        return;
    enum torch_dtype dtype = tensor_dtype(tensor);
    const void *data = tensor_data(tensor);
    if (!data || (dtype != DTYPE_FLOAT32 && dtype != DTYPE_FLOAT64))
        return;
    numbers_meet(dtype == DTYPE_FLOAT32 ? (double)*(const float *)data : *(const double *)data);
}

uint64_t numbers_take(void) {
    uint64_t taken = 0;
    if (threads_is_main()) {
        taken = word;
        word = 0;
    }
    return taken;
}

bool numbers_are_far(uint64_t one, uint64_t other) {
    int64_t difference = (int64_t)(one - other);
    return (difference < 0 ? -difference : difference) > (int64_t)(1e-4 * (double)(1ull << FRACTION_BITS));
}
