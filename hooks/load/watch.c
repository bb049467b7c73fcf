/*
 * The main thread between a sampler and the batch: next() hands out a list, get() reads the examples, torch::stack makes the batch of them, once or twice.
 * Loaders with workers have only their lists handed out here (sampler.c).
 */
#include "load.h"

static struct {
    struct loader *loader; /* whose list was handed out last; NULL: none yet */
    _Atomic bool open;     /* and is not stacked yet */
    bool divided;
    struct list_rows rows;
    size_t length;   /* of the list */
    int64_t witness; /* place in the list */
    int stacked;     /* tensors so far */
    struct call_site sites[LOAD_STACKED_MAX];
    uint64_t program_sum; /* when it was handed out */
    uint64_t at_hand;     /* the same of a divided list; 0: not looked at */
    unsigned handled;     /* signals until then, whose handlers write to the program's memory (stop = 1), too */
} watch;

void watch_begin(struct loader *loader, struct list_rows rows, size_t length, int64_t witness) {
    watch.loader = loader;
    watch.divided = atomic_load(&loader->state) == LOADER_DIVIDED && rows.rows < rows.total;
    watch.rows = rows;
    watch.length = length;
    watch.witness = witness;
    watch.stacked = 0;
    loader->verdict = WATCH_AGAIN; /* unless it turns out to be clean */
    watch.handled = signals_handled();
    watch.at_hand =
        watch.divided && !shim_has_threads() ? memory_at_hand(loader->view.dataset, loader->view.vtable) : 0; /* others write, too */
    bool observe = atomic_load(&loader->state) == LOADER_WATCHED;
    if (observe) {
        loader->dataset_sum = memory_of_dataset(loader->view.dataset);
        watch.program_sum = memory_of_program(loader->view.vtable);
    }
    atomic_store(&watch.open, observe || watch.divided);
}

#define THROWN_MOST 1024

/* What workers' get() have thrown last, of lists that may have been cut; some of it they have caught themselves. A ring, which nothing empties: what a
   worker has read ahead may be given to the program in the next epoch. */
static struct {
    struct loader *_Atomic loader;
    void *_Atomic what; /* the exception's object; another one of the program's may have its place later, and stops the job */
} thrown[THROWN_MOST];
static _Atomic uint32_t thrown_count;
static struct loader *given_up; /* whose exception the program was given; main thread */

static void note_thrown(struct loader *loader, void *what) {
    uint32_t place = atomic_fetch_add(&thrown_count, 1) % THROWN_MOST;
    atomic_store(&thrown[place].loader, loader);
    atomic_store(&thrown[place].what, what);
}

/* Of so many that the ring has lost some, perhaps any. */
static struct loader *find_thrown(const void *what) {
    uint32_t count = atomic_load(&thrown_count);
    for (uint32_t i = 0; i < count && i < THROWN_MOST; i++)
        if (atomic_load(&thrown[i].what) == what)
            return atomic_load(&thrown[i].loader);
    return count > THROWN_MOST ? atomic_load(&thrown[0].loader) : NULL;
}

/* Nothing but an exception of get() that the program has caught leads from a list past its batch to the next list. The other ranks, which have not read that
   example, go on. One that the program does not catch ends it in its own words: so workers' exceptions are no matter before the next list, either. */
void watch_check_left(void) {
    struct loader *left = watch.divided && atomic_load(&watch.open) ? watch.loader : given_up;
    if (left)
        loader_failed(
            left,
            "gave up a batch, of which this rank had its own rows to read: an example threw an exception that other ranks do not see");
}

void *hook_current_exception(void *result) {
    struct worker *worker;
    struct loader *loader = shim_active() && !threads_is_main() ? loaders_of_thread(&worker) : NULL;
    if (loader)
        atomic_store(&loader->spoilt, true); /* the batch may never come */
    result = ORIGINAL(current_exception)(result);
    if (loader && atomic_load(&loader->state) == LOADER_DIVIDED && *(void **)result)
        note_thrown(loader, *(void **)result); /* a std::exception_ptr is the object's address */
    return result;
}

void hook_rethrow_exception(void *exception) {
    struct loader *loader = shim_active() && threads_is_main() ? find_thrown(*(void **)exception) : NULL;
    if (loader)
        given_up = loader;
    ORIGINAL(rethrow_exception)(exception);
}

void watch_end_epoch(void) {
    watch.divided = false;
}

enum watch_verdict watch_verdict(struct loader *loader) {
    if (loader->verdict != WATCH_CLEAN)
        return loader->verdict;
    bool same = loader->dataset_sum && memory_of_dataset(loader->view.dataset) == loader->dataset_sum;
    return same ? WATCH_CLEAN : WATCH_AGAIN;
}

/* The last tensor of the batch. */
static void watch_end(void) {
    atomic_store(&watch.open, false);
    if (watch.divided) {
        loader_accept_no_more(watch.loader);
        shim_phase(BOARD_FORWARD, "a batch of own rows");
    }
    if (!watch.divided && watch.program_sum && memory_of_program(watch.loader->view.vtable) == watch.program_sum)
        watch.loader->verdict = WATCH_CLEAN;
    bool is_looked_at = watch.at_hand && !shim_has_threads() && signals_handled() == watch.handled;
    if (is_looked_at && memory_at_hand(watch.loader->view.dataset, watch.loader->view.vtable) != watch.at_hand)
        loader_failed(
            watch.loader,
            "has changed its data set, or static memory of the program, or has written to a file, while it read them: a generator "
            "that only some examples draw from, or something that is counted or remembered?");
}

static bool is_marked(struct tensor *const *tensors, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (tensor_is_marked(tensors[i]) || tensor_is_parameter(tensors[i]))
            return true;
    return false;
}

/* The row that all ranks have read: after other rows, each. */
static void compare_witness(struct tensor *stacked) {
    uint64_t all[BOARD_RANKS_MAX];
    struct value row = TORCH_CALL("aten::narrow", "", value_tensor(stacked), value_int(0), value_int(watch.witness), value_int(1));
    uint64_t sum = start_check_tensor(row.tensor);
    value_drop(row);
    {
        SHIM_COMM_SCOPE;
        comm_all_gather_words("an example that all ranks have read", sum, all);
    }
    for (uint32_t rank = 1; rank < shim_world_size(); rank++)
        if (all[rank] != all[0])
            loader_failed(watch.loader,
                          "has read one and the same example differently on two ranks: what it reads depends on what it has read before");
}

/* Compares what all ranks must have alike: the shape, and now and then a row. Then the batch is this rank's rows. */
static struct tensor *born(struct tensor *stacked) {
    OPAQUE_SCOPE;
    {
        SHIM_NOTE_SCOPE;
        comm_note("size of an example", stack_shape(stacked));
    }
    if (watch.witness >= 0)
        compare_witness(stacked);
    struct tensor *rows = stacked;
    if ((int64_t)watch.length > watch.rows.rows) {
        struct value own = TORCH_CALL("aten::narrow", "", value_tensor(stacked), value_int(0), value_int(0), value_int(watch.rows.rows));
        rows = TORCH_CALL("aten::clone", "", own, value_none()).tensor; /* its storage, too, is that of the rows */
        value_drop(own);
        tensor_release(stacked);
    }
    stack_mark(rows, watch.rows);
    return rows;
}

/* Is this the loader's own call, in its turn? */
static bool is_loaders(struct tensor *const *tensors, size_t count, int64_t dim, struct call_site site) {
    if (count != watch.length || dim != 0 || is_marked(tensors, count))
        return false;
    return !watch.stacked || !call_site_same(site, watch.sites[0]);
}

static bool is_known_site(struct call_site site) {
    for (int i = 0; i < watch.stacked; i++)
        if (call_site_same(site, watch.sites[i]))
            return true;
    return false;
}

void *watch_stack(struct tensor **result, struct tensor *const *tensors, size_t count, int64_t dim, struct call_site site) {
    bool open = atomic_load(&watch.open);
    bool loaders = open && is_loaders(tensors, count, dim, site);
    if (watch.divided && !loaders && count == watch.length && is_known_site(site))
        loader_failed(watch.loader, "stacked more tensors than it did before");
    if (watch.divided && open && !loaders && count == watch.length && is_marked(tensors, count))
        loader_failed(watch.loader, "stacks tensors that are divided already");
    if (open && !loaders && !watch.divided)
        atomic_store(&watch.loader->spoilt, true);
    ORIGINAL(stack)(result, tensors, count, dim);
    if (!loaders)
        return result;
    watch.sites[watch.stacked++] = site;
    if (watch.divided)
        *result = born(*result);
    if (watch.stacked == watch.loader->stacked_tensors)
        watch_end();
    return result;
}

/* ---- draws */

/* Reading an example that draws would draw other numbers when it reads fewer. On any thread. */
static void drawn(void) {
    struct worker *worker;
    struct loader *loader = NULL;
    if (threads_is_main())
        loader = atomic_load(&watch.open) ? watch.loader : NULL;
    else
        loader = loaders_of_thread(&worker);
    if (!loader)
        return;
    if (atomic_load(&loader->state) == LOADER_DIVIDED)
        loader_failed(loader, "began to draw random numbers, to look at results of the training, to change a model, to make parameters, "
                              "to write files, or on another host than the first to look at files, while it reads examples (or after an "
                              "example threw an exception that the program has caught)");
    atomic_store(&loader->spoilt, true);
}

/* A data set that asks the model (the hardest of some examples, a label by its own scores) does so for its own rows, with whatever it gives the model whole. */
static bool reads_example(void) {
    return threads_is_main() ? atomic_load(&watch.open) : loaders_is_worker();
}

__attribute__((constructor)) static void watch_start(void) {
    atomic_store(&shim_draw_listener, drawn);
    atomic_store(&shim_reading_teller, reads_example);
}
