/*
 * Parallel regions (OpenMP, at::parallel_for): of a kernel, or of the program itself.
 *
 * A kernel's helpers are below user level, though nothing in their thread-local state says so: what they touch are this rank's rows. In a region of the
 * program's own, every thread is at user level. They are told apart by the threads that could have begun it: a kernel runs below user level on a thread that
 * is in no region of the program's.
 */
#include <pthread.h>

#include "../shim.h"
#include "functions.h"

enum { MASTERS = 8192 };

/* A thread that has been below user level outside of regions. */
static struct master {
    _Atomic(uint64_t *) excluded; /* the thread's word of excluded keys; NULL: free */
    _Atomic uint8_t is_in_region; /* of the program's */
} masters[MASTERS];
static _Atomic int reach;
static _Atomic uint8_t some_were_in_region;
static pthread_key_t own_master;

static void end_master(void *ended) {
    struct master *master = ended;
    atomic_store(&master->is_in_region, 0);
    atomic_store(&master->excluded, NULL);
}

void regions_begin(void) {
    if (pthread_key_create(&own_master, end_master))
        torch_unsupported("regions", "the program has used up all keys of threads");
}

bool regions_register(uint64_t *excluded) {
    if (torch_functions.in_parallel_region())
        return false;
    for (int i = 0; i < MASTERS; i++) {
        uint64_t *none = NULL;
        if (atomic_load(&masters[i].excluded) || !atomic_compare_exchange_strong(&masters[i].excluded, &none, excluded))
            continue;
        for (int seen = atomic_load(&reach); seen <= i && !atomic_compare_exchange_weak(&reach, &seen, i + 1);) {
        }
        pthread_setspecific(own_master, &masters[i]);
        return true;
    }
    shim_problem("AR-PARALLEL-REGION", "Use fewer threads, or run with -n 1.", "more than %d threads use libtorch at a time", MASTERS);
}

static bool a_kernel_runs(void) {
    for (int i = 0, end = atomic_load(&reach); i < end; i++) {
        const volatile uint64_t *excluded = atomic_load(&masters[i].excluded);
        if (excluded && *excluded & torch_facts.bit_shard && !atomic_load(&masters[i].is_in_region))
            return true;
    }
    return false;
}

static void note_region(bool is_in_region) {
    struct master *own = pthread_getspecific(own_master);
    if (own)
        atomic_store(&own->is_in_region, is_in_region);
}

bool regions_is_helper(void) {
    if (!torch_functions.in_parallel_region()) {
        if (__builtin_expect(atomic_load_explicit(&some_were_in_region, memory_order_relaxed), 0))
            note_region(false);
        return false;
    }
    if (a_kernel_runs())
        return true;
    atomic_store(&some_were_in_region, 1);
    note_region(true);
    return false;
}

/* Threads of a region come in any order: none of them can meet another rank's. */
void regions_refuse(void) {
    if (!shim_active() || !torch_functions.in_parallel_region() || a_kernel_runs())
        return;
    shim_problem(
        "AR-PARALLEL-REGION", "Take values, pointers and accessors before the region begins, or run with -n 1.",
        "within a parallel region of the program's (OpenMP, at::parallel_for), whose threads come in any order, something is asked of "
        "a tensor whose rows are divided that needs the other ranks");
}
