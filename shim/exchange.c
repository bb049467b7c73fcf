#include "exchange.h"

#include <stdlib.h>

#include "comm/clock.h"
#include "shim.h"

enum { ELEMENTS = 1 << 20, ROUNDS = 4, PERIOD = 997 };

/* Small whole numbers, which floats add without rounding: rank r brings (r + 1) * (i mod PERIOD). */
static double exchange_once(const struct protocol_grant *grant, float *numbers) {
    struct comm_span span = {numbers, ELEMENTS};
    float ranks = (float)grant->world_size * (float)(grant->world_size + 1) / 2;
    for (int i = 0; i < ELEMENTS; i++)
        numbers[i] = (float)(grant->rank + 1) * (float)(i % PERIOD);
    comm_barrier("check");
    uint64_t begin_ns = clock_ns();
    comm_all_reduce("check", &span, 1, COMM_FLOAT32, COMM_SUM);
    double taken = (double)(clock_ns() - begin_ns) / 1e9;
    for (int i = 0; i < ELEMENTS; i++)
        if (numbers[i] != ranks * (float)(i % PERIOD))
            shim_problem("AR-EXCHANGE", "Do not train on this machine: run a test of its memory, and report this.",
                         "rank %u: element %d of the sum is %g, not %g", grant->rank, i, (double)numbers[i],
                         (double)(ranks * (float)(i % PERIOD)));
    return taken;
}

void exchange_run(const struct protocol_grant *grant) {
    float *numbers = malloc(ELEMENTS * sizeof *numbers);
    if (!numbers)
        shim_problem("AR-EXCHANGE", "Free some memory.", "no memory for the numbers to be exchanged");
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double taken = exchange_once(grant, numbers);
        best = taken < best ? taken : best;
    }
    free(numbers);
    if (grant->rank == 0)
        shim_log('i', PROTOCOL_EXCHANGE_WORDS ": %d MiB summed over %u ranks in %.2f ms", (int)(ELEMENTS * sizeof *numbers >> 20),
                 grant->world_size, best * 1e3);
}
