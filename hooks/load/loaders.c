/* The data loaders that this rank has seen. They are told apart by their sampler's address, and looked at anew when anything about them has changed. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "load.h"

static struct loader *loaders[LOADERS_MAX]; /* never freed: workers look at them without a lock */
static _Atomic int loader_count;
static uint64_t generation;

void loaders_forget_verdicts(void) {
    generation++;
}

static bool has_workers(const struct loader *loader, const struct loader_view *view) {
    for (size_t i = 0; i < view->workers; i++)
        if (atomic_load(&loader->workers[i].word) != threads_birth(view->threads[i]).word)
            return false;
    return true;
}

/* But for drop_last. */
static bool is_nearly_same(const struct loader *loader, const struct loader_view *view) {
    const struct loader_view *own = &loader->view;
    return own->vtable == view->vtable && own->batch == view->batch && own->dataset == view->dataset && own->workers == view->workers &&
           own->max_jobs == view->max_jobs && own->enforce_ordering == view->enforce_ordering && has_workers(loader, view);
}

/* Another loader may stand at the address of one that is gone: one for evaluation that keeps what one for training drops. */
static bool is_same(struct loader *loader, struct loader_view *view) {
    if (!is_nearly_same(loader, view))
        return false;
    if (loader->accepts_short) {
        loader_accept_no_more(loader);
        view->drop_last = loader->view.drop_last;
    }
    return loader->view.drop_last == view->drop_last;
}

void loader_accept_short(struct loader *loader) {
    if (loader->view.drop_last)
        loader_set_drop_last(&loader->view, false);
    loader->accepts_short = loader->view.drop_last;
}

void loader_accept_no_more(struct loader *loader) {
    if (loader->accepts_short)
        loader_set_drop_last(&loader->view, true);
    loader->accepts_short = false;
}

/* Before it is forgotten: with workers the option is off until the next list is asked for. */
static void make_as_it_was(struct loader *loader) {
    struct loader_view view;
    if (loader->accepts_short && loader_find(loader->sampler, loader->view.batch, &view) && is_nearly_same(loader, &view))
        loader_accept_no_more(loader);
}

/* False: one of them is not known. */
static bool remember_workers(struct loader *loader) {
    bool all_known = true;
    for (size_t i = 0; i < loader->view.workers; i++) {
        uint64_t word = threads_birth(loader->view.threads[i]).word;
        atomic_store(&loader->workers[i].word, word);
        all_known = all_known && word;
    }
    return all_known;
}

void loader_watch_anew(struct loader *loader) {
    loader->generation = generation;
    loader->watched = 0;
    loader->verdict = WATCH_NOTHING;
    loader->divided = 0;
    loader->lists = 0;
    loader->watched_lists = 0;
    loader->workers_are_clean = false;
    loader->looks = 0;
    for (size_t i = 0; i < loader->view.workers; i++)
        loader->workers[i].near = 0;
    atomic_store(&loader->is_settled, false);
    atomic_store(&loader->spoilt, false);
    atomic_store(&loader->whole_lists, 0);
    if (loader->stacked_tensors)
        atomic_store(&loader->state, LOADER_WATCHED);
}

static void loader_begin(struct loader *loader, void *sampler, const struct loader_view *view) {
    loader->sampler = sampler;
    loader->view = *view;
    loader->batch = view->batch * (shim_scales_batch() ? shim_world_size() : 1);
    loader->is_noted = false;
    loader->accepts_short = false;
    loader->has_own_sampler = loader_has_own_sampler(view);
    loader->tail = (struct list_rows){0, 0, 0};
    atomic_store(&loader->short_lists, 0);
    atomic_store(&loader->shapes, 0); /* which dead loader's place it takes is another one on each rank */
    loader->is_at_end = false;
    memset(loader->workers, 0, sizeof loader->workers);
    bool knows_workers = remember_workers(loader);
    loader->stacked_tensors = 0;
    atomic_store(&loader->state, LOADER_WHOLE);
    bool long_enough = loader->batch >= 2 * (size_t)shim_world_size();
    if (!shim_shards_loading())
        loader->why = "--no-shard-loading";
    else if (!long_enough)
        loader->why = "its batches are too short";
    else if (view->workers == 1 || (view->workers && (!view->enforce_ordering || loader->batch < 6)))
        loader->why = "it has one worker only, or workers and no order or very short batches";
    else if (!knows_workers)
        loader->why = "it has workers that were made in a way that is not known";
    else
        loader->stacked_tensors = loader_stacked_tensors(view, &loader->why);
    loader_watch_anew(loader);
    if (!loader->stacked_tensors)
        loader_leave_whole(loader, loader->why);
}

static struct loader *loader_at(void *sampler) {
    for (int i = 0; i < atomic_load(&loader_count); i++)
        if (loaders[i]->sampler == sampler)
            return loaders[i];
    return NULL;
}

/* A loader that ends in the middle of an epoch drops the lists that its workers have not taken. */
static bool have_workers_ended(const struct loader *loader) {
    for (size_t i = 0; i < loader->view.workers; i++) {
        struct threads_birth birth = threads_birth(loader->view.threads[i]);
        if (birth.word == atomic_load(&loader->workers[i].word) && !birth.has_ended)
            return false;
    }
    return true;
}

/* One whose workers have nothing to do, or are gone: programs that make a loader for each epoch are of few at a time. When they are is another moment on each
   rank: one that is gone on with in the middle of an epoch would be known on some of them only; at the beginning of the next they ask each other. */
static struct loader *find_idle(int count, bool may_be_in_epoch) {
    static int next;
    for (int i = 0; i < count; i++) {
        struct loader *loader = loaders[next = (next + 1) % count];
        bool is_between = loader->is_at_end || !loader->lists || (loader->view.workers && have_workers_ended(loader));
        if ((is_between || may_be_in_epoch) && (!atomic_load(&loader->short_lists) || have_workers_ended(loader)))
            return loader;
    }
    return NULL;
}

static struct loader *loader_take(void) {
    int count = atomic_load(&loader_count);
    struct loader *idle = count >= LOADERS_FEW ? find_idle(count, false) : NULL;
    if (!idle && count == LOADERS_MAX)
        idle = find_idle(count, true);
    if (idle) {
        make_as_it_was(idle);
        return idle;
    }
    if (count == LOADERS_MAX)
        shim_problem("AR-LOADING", "Run with --no-shard-loading: then every rank reads all examples, as one process does.",
                     "the workers of %d data loaders are at work at one time", LOADERS_MAX);
    loaders[count] = calloc(1, sizeof *loaders[count]);
    if (!loaders[count])
        shim_problem("AR-MEMORY", "Run on a machine with more memory, or with fewer ranks.", "no memory to watch a data loader");
    atomic_store(&loader_count, count + 1);
    return loaders[count];
}

void loaders_refuse_thread(void *sampler) {
    const struct loader *loader = loader_at(sampler);
    if (loader && loader->accepts_short)
        loader_failed(loader, "is gone on with by another thread in the middle of an epoch");
}

struct loader *loaders_find(void *sampler, size_t size) {
    struct loader_view view;
    if (!loader_find(sampler, size, &view))
        return NULL;
    struct loader *loader = loader_at(sampler);
    if (loader && is_same(loader, &view)) {
        if (loader->generation != generation && loader->stacked_tensors)
            loader_watch_anew(loader);
        return loader;
    }
    if (!loader)
        loader = loader_take();
    loader_begin(loader, sampler, &view);
    return loader;
}

static struct loader *of_thread(struct worker **worker) {
    uint64_t own = threads_own();
    for (int i = atomic_load(&loader_count) - 1; own && i >= 0; i--)
        for (size_t k = 0; k < loaders[i]->view.workers; k++)
            if (atomic_load(&loaders[i]->workers[k].word) == own) {
                *worker = &loaders[i]->workers[k];
                return loaders[i];
            }
    return NULL;
}

struct loader *loaders_of_thread(struct worker **worker) {
    struct loader *loader = of_thread(worker);
    return loader && atomic_load(&loader->state) != LOADER_WHOLE ? loader : NULL;
}

bool loaders_is_worker(void) {
    struct worker *worker;
    return of_thread(&worker);
}

void loader_leave_whole(struct loader *loader, const char *why) {
    char words[48];
    loader->why = why;
    atomic_store(&loader->state, LOADER_WHOLE);
    snprintf(words, sizeof words, "batches of %zu", loader->batch);
    explain_note("whole", words, why);
    if (shim_rank() || !shim_explains())
        return;
    shim_log('w', "a data loader with batches of %zu is read whole by every rank: %s. Exact, but not divided among the ranks",
             loader->batch, why);
}

void loader_failed(const struct loader *loader, const char *what) {
    shim_problem("AR-LOADING", "Run with --no-shard-loading: then every rank reads all examples, as one process does.",
                 "a data loader with batches of %zu, whose ranks read their own examples only, %s", loader->batch, what);
}
