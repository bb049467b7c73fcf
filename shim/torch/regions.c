/*
 * Parallel regions (OpenMP, at::parallel_for): of a kernel, or of the program itself.
 *
 * A kernel's helpers are below user level, though nothing in their thread-local state says so: what they touch are this rank's rows. In a region of the
 * program's own, every thread is at user level. They are told apart by the threads that could have begun it: a kernel runs below user level on a thread that
 * is in no region of the program's. Where some threads are below user level and others are not, by whose code runs in the region: libtorch's regions are its
 * kernels'; others' may be either, and stop the job.
 */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <sched.h>

#include "../shim.h"
#include "../unwind.h"
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

/* Threads that look at others' words, for some nanoseconds each. A thread's words end with it: it waits for who may have found them still. Not for ever: who
   looked when the process was forked is not in the child. */
static _Atomic int lookers;
enum { LOOKERS_TURNS = 10000 };

static void end_master(void *ended) {
    struct master *master = ended;
    atomic_store(&master->is_in_region, 0);
    atomic_store(&master->excluded, NULL);
    for (int turn = 0; turn < LOOKERS_TURNS && atomic_load(&lookers); turn++)
        sched_yield();
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

/* ---- whose code runs in the region */

enum { PIECES = 64 };

struct code {
    struct {
        const char *first, *end;
    } pieces[PIECES];
    int count;
};

struct region {
    struct code runtime, libtorch; /* of OpenMP; and libtorch's, of which alone a function in a region calls us below user level */
    const char *last;              /* the place that was seen before */
    bool is_librarys;
};

static void add_code(struct code *code, const struct dl_phdr_info *info) {
    for (int i = 0; i < info->dlpi_phnum && code->count < PIECES; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        const char *first = (const char *)info->dlpi_addr + segment->p_vaddr;
        code->pieces[code->count].first = first;
        code->pieces[code->count++].end = first + segment->p_memsz;
    }
}

static bool is_in(const struct code *code, const char *address) {
    for (int i = 0; i < code->count; i++)
        if (address >= code->pieces[i].first && address < code->pieces[i].end)
            return true;
    return false;
}

static int visit_library(struct dl_phdr_info *info, size_t size, void *data) {
    static const char *const runtimes[] = {"libgomp", "libomp", "libiomp"}, *const libtorchs[] = {"libtorch", "libc10"};
    struct region *region = data;
    const char *name = info->dlpi_name ? shim_base_of(info->dlpi_name) : "";
    if (shim_begins_with_any(name, runtimes, sizeof runtimes / sizeof *runtimes))
        add_code(&region->runtime, info);
    else if (shim_begins_with_any(name, libtorchs, sizeof libtorchs / sizeof *libtorchs))
        add_code(&region->libtorch, info);
    return size == 0;
}

/* The region's function is what OpenMP has called. */
static bool visit_place(uintptr_t place, void *context) {
    struct region *region = context;
    bool is_found = is_in(&region->runtime, (const char *)place);
    region->is_librarys = is_found && region->last && is_in(&region->libtorch, region->last);
    region->last = (const char *)place;
    return !is_found;
}

static bool is_by_libtorch(void) {
    struct region region = {.last = NULL};
    dl_iterate_phdr(visit_library, &region);
    unwind_walk(visit_place, &region);
    return region.is_librarys;
}

/* ---- who has begun it */

struct beginners {
    bool below, at; /* user level, or in a region of the program's */
};

static struct beginners find_beginners(void) {
    struct beginners some = {false, false};
    atomic_fetch_add(&lookers, 1);
    for (int i = 0, end = atomic_load(&reach); i < end; i++) {
        const volatile uint64_t *excluded = atomic_load(&masters[i].excluded);
        if (!excluded)
            continue;
        if (*excluded & torch_facts.bit_shard && !atomic_load(&masters[i].is_in_region))
            some.below = true;
        else
            some.at = true;
    }
    atomic_fetch_sub(&lookers, 1);
    return some;
}

/* Of a kernel; else of the program. A thread that has been outside of regions is here at user level: it has begun this one. */
static bool is_kernels(void) {
    if (pthread_getspecific(own_master))
        return false;
    struct beginners some = find_beginners();
    if (!some.below || !some.at || is_by_libtorch())
        return some.below;
    shim_problem(
        "AR-PARALLEL-REGION", "Let the region end before another thread trains, or run with -n 1.",
        "a parallel region of the program's, or of an extension's kernel, uses a tensor while another thread is in libtorch: which of "
        "them has begun it cannot be told, so neither whether it sees a rank's rows or the whole batch");
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
    if (is_kernels())
        return true;
    atomic_store(&some_were_in_region, 1);
    note_region(true);
    return false;
}

/* Threads of a region come in any order: none of them can meet another rank's. */
void regions_refuse(void) {
    if (!shim_active() || !torch_functions.in_parallel_region() || is_kernels())
        return;
    shim_problem(
        "AR-PARALLEL-REGION", "Take values, pointers and accessors before the region begins, or run with -n 1.",
        "within a parallel region of the program's (OpenMP, at::parallel_for), whose threads come in any order, something is asked of "
        "a tensor whose rows are divided that needs the other ranks");
}
