/*
 * Loaders with workers: what reading leaves behind in their data sets, of which each worker has a copy that may share memory with the others (a counter behind
 * a shared_ptr). When the loader asks for the first lists, one after the other, the program does nothing in between: what has changed from one to the next,
 * when all examples asked for have been read, was changed by reading. A copy stands in the object that std::thread was given, behind the address of the loader.
 */
#include <malloc.h>
#include <time.h>

#include "load.h"

enum { TABLE, LOADER, DATASET }; /* words of that object */
enum {
    STEP_NS = 100000,
    STACKED_STEPS = 400000, /* a minute: videos that are decoded, an archive that is unpacked */
    SETTLED_STEPS = 50000,  /* some seconds: a worker puts away its examples after it has stacked them */
    TRIES = 20
};

static void wait_a_little(void) {
    nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
}

/* By one of memory's sums. */
static uint64_t sum_of_worker(const struct loader *loader, uint64_t thread, uint64_t (*sum)(const void *object, size_t bytes)) {
    void *const *object = threads_birth(thread).argument;
    size_t bytes = object ? malloc_usable_size((void *)(uintptr_t)object) : 0;
    if (bytes <= DATASET * sizeof(void *) || object[LOADER] != loader->view.object)
        return 0;
    return sum(object + DATASET, bytes - DATASET * sizeof(void *));
}

/* 0: cannot be told. */
static uint64_t sum_of_memory(const struct loader *loader) {
    uint64_t sum = memory_of_program(loader->view.vtable);
    for (size_t i = 0; sum && i < loader->view.workers; i++) {
        uint64_t one = sum_of_worker(loader, loader->view.threads[i], reach_sum);
        sum = one ? checksum_bytes(sum, &one, sizeof one) | 1 : 0;
    }
    return sum;
}

static bool wait_until(bool (*is_done)(const struct loader *loader), const struct loader *loader) {
    for (int step = 0; !is_done(loader); step++) {
        if (step == STACKED_STEPS || atomic_load(&loader->spoilt)) /* what has thrown never comes */
            return false;
        wait_a_little();
    }
    return true;
}

static bool are_stacked(const struct loader *loader) {
    return atomic_load(&loader->whole_lists) >= loader->watched_lists;
}

static bool are_none_short(const struct loader *loader) {
    return atomic_load(&loader->short_lists) <= 0;
}

bool workers_end_short(const struct loader *loader) {
    return wait_until(are_none_short, loader);
}

static bool is_as_before(const struct loader *loader) {
    if (!loader->dataset_sum || !wait_until(are_stacked, loader))
        return false;
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int i = 0; i < TRIES; i++, wait_a_little()) {
        if (sum_of_memory(loader) == loader->dataset_sum)
            return true;
        clock_gettime(CLOCK_MONOTONIC, &now); /* a look at a million allocations takes seconds */
        if (now.tv_sec - begun.tv_sec > 1)
            break;
    }
    return false;
}

/* Afterwards the program has trained in between, and memory has changed for other reasons. */
static bool is_among_first(const struct loader *loader) {
    return loader->lists < loader->view.max_jobs;
}

void workers_begin(struct loader *loader) {
    loader->watched_lists++;
    if (!loader->workers_are_clean && is_among_first(loader))
        loader->dataset_sum = sum_of_memory(loader);
}

enum watch_verdict workers_verdict(struct loader *loader) {
    if (!loader->workers_are_clean && is_among_first(loader))
        loader->workers_are_clean = is_as_before(loader);
    if (!loader->workers_are_clean)
        return WATCH_AGAIN;
    /* Where a batch is one tensor only, a get() that stacks could be mistaken for it until a batch is through. */
    bool is_popped = loader->stacked_tensors > 1 || loader->lists > loader->view.max_jobs;
    /* What draws while it reads the last whole list is to be known of before the first short one. */
    if (!is_popped || !atomic_load(&loader->is_settled))
        return WATCH_NOTHING;
    return wait_until(are_stacked, loader) ? WATCH_CLEAN : WATCH_AGAIN;
}

/* What a copy's first batch leaves behind may be made for good. */
static void look_at(struct loader *loader, size_t i, bool must_be_same) {
    struct worker *worker = &loader->workers[i];
    uint64_t sum = sum_of_worker(loader, loader->view.threads[i], near_sum);
    for (int step = 0; must_be_same && worker->near && sum != worker->near; step++) {
        if (step == SETTLED_STEPS)
            loader_failed(loader, "has changed a worker's data set while it read them: something that is counted or remembered?");
        wait_a_little();
        sum = sum_of_worker(loader, loader->view.threads[i], near_sum);
    }
    worker->near = sum;
}

/* Only what the data set points to itself, as in every batch without workers: what lies further away may be free, and another one's. Each worker reads one list
   after another within so many. */
void workers_look(struct loader *loader) {
    if (atomic_load(&loader->state) != LOADER_DIVIDED || !is_among_first(loader) || loader->looks >= 2 * loader->view.workers ||
        !workers_end_short(loader))
        return;
    loader->looks += loader->lists > 0;
    for (size_t i = 0; i < loader->view.workers; i++)
        if (loader->workers[i].thread_sum) /* it has read a batch */
            look_at(loader, i, loader->lists);
}
