/*
 * What a rank says at its end: a summary for --log-level info, and, when several ranks trained without a single batch having been divided, a warning: the
 * result is right, but N processes did the same work (P45).
 */
#include <stdio.h>

#include "explain.h"
#include "shim.h"
#include "threads.h"

static _Atomic uint64_t batches, gathers, backwards;
static _Atomic bool begun, scaled;

void report_batch(void) {
    atomic_fetch_add_explicit(&batches, 1, memory_order_relaxed);
}

bool report_has_batches(void) {
    return atomic_load_explicit(&batches, memory_order_relaxed);
}

void report_gather(void) {
    atomic_fetch_add_explicit(&gathers, 1, memory_order_relaxed);
}

void report_scaled(void) {
    atomic_store_explicit(&scaled, true, memory_order_relaxed);
}

static uint64_t backwards_of_main;
static const struct threads_kept backwards_of_thread = {.of_main = &backwards_of_main, .bytes = sizeof(uint64_t)};

uint64_t report_backwards(void) {
    return *(uint64_t *)threads_own_kept(&backwards_of_thread);
}

uint64_t report_backwards_of_all(void) {
    return atomic_load_explicit(&backwards, memory_order_relaxed);
}

void report_backward(void) {
    ++*(uint64_t *)threads_own_kept(&backwards_of_thread);
    if (begun && !scaled && shim_scales_batch())
        shim_problem("AR-SCALE-BATCH",
                     "Only data loaders of torch::data with libtorch's random or sequential sampler can be scaled: set the batch size in "
                     "the program, "
                     "and leave --scale-batch out.",
                     "the program trains, but has asked no data loader for a batch that accel-run could make %u times as large",
                     shim_world_size());
    if (begun)
        explain_step();
    atomic_fetch_add_explicit(&backwards, 1, memory_order_relaxed);
    files_client.training_goes_on();
}

void report_begin(void) {
    atomic_store(&batches, 0);
    atomic_store(&gathers, 0);
    atomic_store(&backwards, 0);
    shim_step_reset();
    explain_reset();
    atomic_store(&begun, true);
}

/* The destructor runs after the program's own static objects have ended (fact 8); a process that ends by _exit or a signal says nothing. */
__attribute__((destructor)) static void report_end(void) {
    if (!shim_active())
        return;
    explain_send(EXPLAIN_STOPPED, "the program has ended");
    struct comm_statistics comm = comm_statistics();
    shim_log('i',
             "%llu batches divided, %llu backwards, %llu tensors gathered, %llu collectives, %.3f s waited, %.1f MiB exchanged, %.1f of "
             "them where they lay",
             (unsigned long long)batches, (unsigned long long)backwards, (unsigned long long)gathers, (unsigned long long)comm.collectives,
             (double)comm.wait_ns / 1e9, (double)comm.bytes / (1 << 20), (double)comm.in_place / (1 << 20));
    if (!batches && backwards && shim_rank() == 0)
        shim_warning("AR-NOTHING-DIVIDED", "use larger batches, or -n 1",
                     "no batch of this program could be divided among %u ranks (batches of fewer than %u rows, or data that never meets a "
                     "parameter in a layer that accel-run knows, or that requires a gradient itself): the result is right, but every rank "
                     "did all the work",
                     shim_world_size(), 2 * shim_world_size());
}
