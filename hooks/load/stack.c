/* torch::stack, which makes a batch of examples: on the main thread (watch.c) and on a loader's worker threads. */
#include "load.h"

uint64_t stack_shape(struct tensor *tensor) {
    struct sizes sizes = tensor_sizes(tensor);
    int64_t type = tensor_dtype(tensor);
    uint64_t sum = checksum_bytes(0, &type, sizeof type);
    return sizes.count ? checksum_bytes(sum, sizes.data + 1, (sizes.count - 1) * sizeof *sizes.data) : sum;
}

void stack_mark(struct tensor *tensor, struct list_rows rows) {
    struct record record = record_shard(0, rows.total);
    record.first = rows.first;
    record.rows = rows.rows;
    record_set(tensor, record);
}

/* ---- workers */

/* Which list has this many examples? Lists are handed out so that there is one answer (sampler.c). rows 0: none. */
static struct list_rows rows_of_length(const struct loader *loader, size_t length) {
    struct list_rows full = {.total = (int64_t)loader->batch}, none = {0, 0, 0};
    record_rows(full.total, shim_rank(), &full.first, &full.rows);
    if (length == loader->batch)
        return (struct list_rows){full.total, 0, full.total};
    if (atomic_load(&loader->short_lists) > 0 && (int64_t)length == full.rows)
        return full;
    return (int64_t)length == loader->tail.rows ? loader->tail : none;
}

static bool is_loaders(const struct loader *loader, struct worker *worker, size_t count, int64_t dim, struct call_site site) {
    if (dim != 0)
        return false;
    if (worker->stacked == 0) {
        worker->rows = rows_of_length(loader, count);
        bool known_site = !worker->sites[0].code || call_site_same(site, worker->sites[0]);
        return worker->rows.rows && known_site;
    }
    bool known_site = worker->sites[1].code ? call_site_same(site, worker->sites[1]) : !call_site_same(site, worker->sites[0]);
    return (int64_t)count == worker->rows.rows && known_site;
}

/* A call that is none of the loader's. Once its lists are short, one of their length cannot be left alone. The main thread may have left the loader whole
   since this one found it (a program was stopped so, in one of some hundred runs). */
static void stranger(struct loader *loader, size_t count) {
    enum loader_state state = (enum loader_state)atomic_load(&loader->state);
    if (state == LOADER_WATCHED)
        atomic_store(&loader->spoilt, true);
    else if (state == LOADER_DIVIDED && rows_of_length(loader, count).rows)
        loader_failed(loader, "stacks tensors in another order or place than before");
}

/* A batch is through: has reading it changed variables of this thread, or written? Then a rank that reads fewer has others. Something may be made with the
   first, and a buffer may grow once more later. */
static void compare_thread(struct loader *loader, struct worker *worker, bool divided) {
    uint64_t sum = memory_of_thread(loader->view.vtable, false), before = worker->thread_sum;
    bool is_first = !before, same = sum == (is_first ? memory_of_thread(loader->view.vtable, true) : before);
    worker->thread_sum = sum;
    if (atomic_load(&loader->state) == LOADER_WATCHED) {
        uint64_t written = worker->writes;
        worker->writes = memory_thread_writes();
        if (same && worker->writes == written)
            atomic_store(&loader->is_settled, true);
        else if (!is_first)
            atomic_store(&loader->spoilt, true);
    }
    if (same || !divided)
        return;
    if (worker->has_changed)
        loader_failed(loader, "goes on changing a variable of a worker's thread (thread_local) while it reads them");
    worker->has_changed = true;
}

static void *worker_stack(struct loader *loader, struct worker *worker, struct tensor **result, struct tensor *const *tensors, size_t count,
                          int64_t dim, struct call_site site) {
    bool loaders = is_loaders(loader, worker, count, dim, site);
    if (!loaders)
        stranger(loader, count);
    ORIGINAL(stack)(result, tensors, count, dim);
    if (!loaders)
        return result;
    worker->sites[worker->stacked++] = site;
    bool divided = worker->rows.rows < worker->rows.total;
    if (divided && (tensor_is_marked(*result) || tensor_is_parameter(*result)))
        loader_failed(loader, "stacks tensors that are divided already");
    if (divided)
        stack_mark(*result, worker->rows);
    atomic_fetch_add(&loader->shapes, stack_shape(*result));
    if (worker->stacked < loader->stacked_tensors)
        return result;
    worker->stacked = 0;
    compare_thread(loader, worker, divided);
    if (divided)
        atomic_fetch_sub(&loader->short_lists, 1);
    else
        atomic_fetch_add(&loader->whole_lists, 1);
    return result;
}

void *hook_stack(struct tensor **result, struct tensor *const *tensors, size_t count, int64_t dim) {
    if (!shim_active())
        return ORIGINAL(stack)(result, tensors, count, dim);
    struct call_site site = {__builtin_return_address(0), __builtin_frame_address(0), result};
    if (threads_is_main())
        return watch_stack(result, tensors, count, dim, site);
    struct worker *worker;
    struct loader *loader = loaders_of_thread(&worker);
    if (loader)
        return worker_stack(loader, worker, result, tensors, count, dim, site);
    return ORIGINAL(stack)(result, tensors, count, dim);
}
