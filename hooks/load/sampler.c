/* What samplers hand out. */
#include <stdio.h>

#include <stdlib.h>

#include "reach.h"

/* ---- optional<vector<size_t>>: std::optional has its flag behind the vector, c10::optional (before 2.1) before it */

struct list {
    uint64_t *indices;
    size_t count;
    uint64_t **end; /* where the vector's end stands */
    char *is_engaged;
};

enum { LIST_BYTES = 32, FLAG_BEHIND = 24 };

/* The memory was zero before next() wrote it. A vector's begin is malloc's and never 1 modulo 256. False: no list. */
static bool list_read(void *result, struct list *list) {
    char *flags = result;
    bool flag_first = flags[0] == 1;
    if (!flag_first && flags[FLAG_BEHIND] != 1)
        return false;
    uint64_t **vector = (uint64_t **)(flag_first ? flags + sizeof(void *) : flags);
    *list = (struct list){vector[0], (size_t)(vector[1] - vector[0]), &vector[1], flag_first ? flags : flags + FLAG_BEHIND};
    return true;
}

static void list_drop(struct list *list) {
    free(list->indices);
    *list->is_engaged = 0;
}

/* ---- verdicts */

static enum watch_verdict loader_verdict(struct loader *loader) {
    if (!loader->lists)
        return WATCH_NOTHING;
    if (!heap_is_glibcs() || !draws_are_seen())
        return WATCH_SPOILT;
    enum watch_verdict verdict = loader->view.workers ? workers_verdict(loader) : watch_verdict(loader);
    return atomic_load(&loader->spoilt) ? WATCH_SPOILT : verdict; /* by a worker that was waited for */
}

static const char *why_spoilt(void) {
    if (!heap_is_glibcs())
        return "the program's allocator is not glibc's: what its data set remembers cannot be found";
    if (!draws_are_seen())
        return "this libtorch is bound to itself (-Bsymbolic-functions): what reading an example draws cannot be seen";
    return "reading an example draws random numbers, looks at results of the training, stacks tensors, changes a model, writes files or "
           "throws";
}

/* All ranks take the worst verdict. */
static enum watch_verdict agree(enum watch_verdict own) {
    uint64_t all[BOARD_RANKS_MAX];
    SHIM_COMM_SCOPE;
    comm_all_gather_words("first batches of a data loader", own, all);
    enum watch_verdict worst = WATCH_CLEAN;
    for (uint32_t rank = 0; rank < shim_world_size(); rank++)
        if (all[rank] == WATCH_SPOILT || worst == WATCH_SPOILT)
            worst = WATCH_SPOILT;
        else if (all[rank] != WATCH_CLEAN)
            worst = (enum watch_verdict)all[rank];
    return worst;
}

static void loader_settle(struct loader *loader) {
    if (atomic_load(&loader->state) != LOADER_WATCHED)
        return;
    switch (agree(loader_verdict(loader))) {
    case WATCH_CLEAN:
        atomic_store(&loader->state, LOADER_DIVIDED);
        break;
    case WATCH_SPOILT:
        loader_leave_whole(loader, why_spoilt());
        break;
    case WATCH_AGAIN:
        if (++loader->watched == LOAD_WATCHED_MAX)
            loader_leave_whole(
                loader, loader->dataset_sum
                            ? "reading an example changes its data set or static memory of the program, or writes"
                            : "its data set points to variables of a function, or into the middle of an object, or has too many parts");
        break;
    case WATCH_NOTHING:
        break;
    }
}

/* ---- epochs */

enum { BEGUN_MAX = 32 };
static void
    *begun[BEGUN_MAX]; /* the samplers that were reset last: of each an epoch has begun that has handed out nothing yet; NULL: it has */
static unsigned begun_count;

typedef void reset_function(void *sampler, uint64_t size, uint64_t is_given);

static void reset_of(void *sampler, uint64_t size, uint64_t is_given, reset_function *original) {
    if (shim_active() && threads_is_main())
        begun[begun_count++ % BEGUN_MAX] = sampler;
    original(sampler, size, is_given);
}

/* On all ranks alike, whatever their addresses are. */
static bool has_begun(const void *sampler) {
    bool is_among = false;
    for (int i = 0; i < BEGUN_MAX; i++)
        if (begun[i] == sampler) {
            begun[i] = NULL;
            is_among = true;
        }
    return is_among;
}

/* A loader may stand where one that is gone has stood, on some ranks only, which take it for that one: where a sampler is made once and copied into each
   loader, nothing says that there is another. A rank whose addresses were more may have forgotten it, too. */
static void agree_on_epoch(struct loader *loader) {
    uint64_t all[BOARD_RANKS_MAX], facts[] = {atomic_load(&loader->state), loader->divided, (uint64_t)loader->watched};
    if (!loader->stacked_tensors)
        return;
    {
        SHIM_COMM_SCOPE;
        comm_all_gather_words("an epoch of a data loader", checksum_bytes(0, facts, sizeof facts), all);
    }
    for (uint32_t rank = 1; rank < shim_world_size(); rank++)
        if (all[rank] != all[0]) {
            loader_watch_anew(loader);
            return;
        }
}

void hook_random_reset(void *sampler, uint64_t size, uint64_t is_given) {
    reset_of(sampler, size, is_given, ORIGINAL(random_reset));
}

void hook_random_reset_c10(void *sampler, uint64_t size, uint64_t is_given) {
    reset_of(sampler, size, is_given, ORIGINAL(random_reset_c10));
}

void hook_sequential_reset(void *sampler, uint64_t size, uint64_t is_given) {
    reset_of(sampler, size, is_given, ORIGINAL(sequential_reset));
}

void hook_sequential_reset_c10(void *sampler, uint64_t size, uint64_t is_given) {
    reset_of(sampler, size, is_given, ORIGINAL(sequential_reset_c10));
}

/* ---- handing out */

/* In some batches all ranks read the first row of one of them, in turn: that one reads it first, the others last. */
static int64_t choose_witness(const struct loader *loader, int64_t total) {
    uint64_t number = loader->divided + 1;
    if (loader->view.workers || ((number & (number - 1)) && number % 16))
        return -1;
    int64_t first, rows;
    record_rows(total, (int64_t)(number % shim_world_size()), &first, &rows);
    return first;
}

/* With workers a list is known by its length: a tail's must not be a full batch's, on any rank. */
static bool tail_can_be_told(const struct loader *loader, int64_t total, bool divided) {
    for (int64_t rank = 0; rank < (int64_t)shim_world_size(); rank++) {
        int64_t first, full, rows = total;
        record_rows((int64_t)loader->batch, rank, &first, &full);
        if (divided)
            record_rows(total, rank, &first, &rows);
        if (rows == full)
            return false;
    }
    return true;
}

static bool divides(const struct loader *loader, int64_t total) {
    if (atomic_load(&loader->state) != LOADER_DIVIDED || total < 2 * (int64_t)shim_world_size())
        return false;
    return !loader->view.workers || total == (int64_t)loader->batch || tail_can_be_told(loader, total, true);
}

static struct list_rows list_cut(struct loader *loader, struct list *list) {
    struct list_rows rows = {.total = (int64_t)list->count};
    record_rows(rows.total, shim_rank(), &rows.first, &rows.rows);
    int64_t witness = choose_witness(loader, rows.total), place = -1;
    {
        SHIM_NOTE_SCOPE;
        comm_note("indices of a batch", checksum_bytes(0, list->indices, list->count * sizeof *list->indices));
    }
    uint64_t read_by_all = witness >= 0 ? list->indices[witness] : 0;
    memmove(list->indices, list->indices + rows.first, (size_t)rows.rows * sizeof *list->indices);
    list->count = (size_t)rows.rows;
    if (witness >= 0 && witness == rows.first)
        place = 0;
    else if (witness >= 0)
        list->indices[place = (int64_t)list->count++] = read_by_all;
    *list->end = list->indices + list->count;
    if (list->count < loader->view.batch)
        loader_accept_short(loader);
    loader->divided++;
    report_batch();
    if (shim_records()) {
        char rows_words[32];
        snprintf(rows_words, sizeof rows_words, "%lld rows", (long long)rows.total);
        explain_note("batch", rows_words, "a data loader's: each rank reads its own rows only");
    }
    if (loader->view.workers)
        atomic_fetch_add(&loader->short_lists, 1);
    else
        watch_begin(loader, rows, list->count, place);
    return rows;
}

/* All jobs of the epoch before are done when the first list of the next one is asked for. */
static void note_epoch(struct loader *loader) {
    if (!loader->is_at_end)
        return;
    loader->is_at_end = false;
    loader->lists = 0;
    uint64_t shapes = atomic_exchange(&loader->shapes, 0); /* of this epoch alone: one rank may have forgotten the loader since */
    if (!loader->view.workers || atomic_load(&loader->state) != LOADER_DIVIDED)
        return;
    SHIM_NOTE_SCOPE;
    comm_note("sizes of the examples of an epoch", shapes);
}

/* Could a worker take this tail, which is handed out whole, for its rows of a batch? A loader that is watched anew in the middle of an epoch may have handed
   out some before. */
static bool tail_is_unclear(const struct loader *loader, int64_t total) {
    enum loader_state state = (enum loader_state)atomic_load(&loader->state);
    if (state == LOADER_WHOLE || tail_can_be_told(loader, total, false))
        return false;
    return state == LOADER_DIVIDED || !workers_end_short(loader);
}

static void hand_out(struct loader *loader, struct list *list) {
    int64_t total = (int64_t)list->count;
    struct list_rows rows = {total, 0, total};
    bool divided = divides(loader, total), is_tail = total < (int64_t)loader->batch;
    if (divided)
        rows = list_cut(loader, list);
    else if (!loader->view.workers)
        watch_begin(loader, rows, list->count, -1);
    else if (atomic_load(&loader->state) == LOADER_WATCHED)
        workers_begin(loader);
    if (!is_tail || !loader->view.workers)
        return;
    if (!divided && tail_is_unclear(loader, total))
        loader_failed(loader, "ends with a batch as long as a rank's rows of a whole one, which its workers cannot tell apart");
    loader->tail = rows;
}

static void note_loader(struct loader *loader, const char *sampler) {
    char detail[160];
    if (!shim_records() || loader->is_noted)
        return;
    loader->is_noted = true;
    snprintf(detail, sizeof detail, "batches of %zu, %zu workers, %s", loader->batch, (size_t)loader->view.workers, sampler);
    explain_note("loader", "torch::data", detail);
}

__attribute__((noreturn)) static void refuse_to_scale(size_t batch, const char *why) {
    shim_problem("AR-SCALE-BATCH", "Set the batch size in the program, and leave --scale-batch out.",
                 "a data loader with batches of %zu cannot be asked for %u times as much: %s", batch, shim_world_size(), why);
}

/* NULL: the sampler is to do what it is asked. */
static struct loader *loader_of(void *sampler, size_t size) {
    struct loader_view view;
    if (!shim_training_begins())
        return NULL;
    if (threads_is_main())
        return loaders_find(sampler, size);
    if (shim_scales_batch() && loader_find(sampler, size, &view))
        refuse_to_scale(size, "it is not the main thread that uses it");
    loaders_refuse_thread(sampler);
    return NULL;
}

typedef void *next_function(void *result, void *sampler, size_t size);

/* What such a sampler asks for is not what the loader is given: it may leave out some, keep others for later, or turn them around. */
static void *next_of_own(struct loader *loader, void *result, void *sampler, next_function *original) {
    if (shim_scales_batch())
        refuse_to_scale(loader->view.batch, "its sampler is the program's own");
    watch_begin(loader, (struct list_rows){0, 0, 0}, 0, -1);
    return original(result, sampler, loader->view.batch);
}

static void *next_of(void *result, void *sampler, size_t size, next_function *original) {
    struct loader *loader = loader_of(sampler, size);
    if (!loader)
        return original(result, sampler, size);
    const char *librarys = original == ORIGINAL(random_next) ? "RandomSampler" : "SequentialSampler";
    note_loader(loader, loader->has_own_sampler ? "a sampler of the program's own" : librarys);
    watch_check_left();
    if (loader->has_own_sampler)
        return next_of_own(loader, result, sampler, original);
    if (loader->batch != size)
        report_scaled();
    if (has_begun(sampler))
        agree_on_epoch(loader);
    loader_settle(loader);
    memset(result, 0, LIST_BYTES);
    original(result, sampler, loader->batch);
    struct list list;
    if (!list_read(result, &list)) {
        loader->is_at_end = true;
        watch_end_epoch();
        return result;
    }
    note_epoch(loader);
    if (loader->view.workers)
        workers_look(loader);
    loader->lists++;
    if (loader->view.drop_last && list.count < loader->batch) {
        list_drop(&list);
        loader->is_at_end = true;
        watch_end_epoch();
        return result;
    }
    hand_out(loader, &list);
    return result;
}

void *hook_random_next(void *result, void *sampler, size_t size) {
    return next_of(result, sampler, size, ORIGINAL(random_next));
}

void *hook_sequential_next(void *result, void *sampler, size_t size) {
    return next_of(result, sampler, size, ORIGINAL(sequential_next));
}

/* ---- new loaders */

void hook_random_made(void *sampler, int64_t size, signed char dtype) {
    ORIGINAL(random_made)(sampler, size, dtype);
    if (shim_active() && threads_is_main())
        loaders_forget_verdicts();
}

void hook_sequential_made(void *sampler, size_t size) {
    ORIGINAL(sequential_made)(sampler, size);
    if (shim_active() && threads_is_main())
        loaders_forget_verdicts();
}
