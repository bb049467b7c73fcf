/*
 * Loading: this rank's rows only. A data loader of C++ asks its sampler for the indices of a batch, reads the examples one by one and stacks them; given this
 * rank's indices only, it stacks this rank's rows, and the batch is born a shard of the whole size.
 *
 * Rules of hooks/load/
 *  - Reading everything on every rank is always right; so that is what happens until a loader has been proven plain, and for good when it has not.
 *  - Proof by type (shim/torch/loader_class.c): only get() and transforms of single examples run between the sampler and the batch.
 *  - Proof by observation: its first batches are read whole by all ranks, as ever, and watched: they must be stacked in one go, no random number may be drawn,
 *    and the program's static memory, the data set and what it points to must be the same afterwards. (A static initialised on first use may spoil one batch.)
 *    What remembers one example while it reads the next would read other things when it reads fewer.
 *  - All ranks agree on the verdict before the first short list is handed out, on the main thread, where all ranks are at the same point of the program; and
 *    when an epoch begins, that it is one and the same loader: addresses, by which a rank knows it, are its own.
 *  - Afterwards: the full list of indices, and every example's shape, are notes that the ranks compare. In batches 1, 2, 4, 8... and every 16th, all ranks read
 *    one row of another rank, too (without workers): an example that depends on what was read before it would differ. Without workers, and as long as the
 *    program has one thread, the data set, what it points to itself, and static memory must stay the same in every batch: a generator that only few examples
 *    draw from. Doubt stops the job (AR-LOADING).
 *  - With worker threads the loader's own list of threads says whose stack it is, and lengths say which list it was: lists of a length that could be taken
 *    for another are handed out whole. The copies of the data set are looked at while the first lists are asked for (workers.c). One worker alone is left
 *    whole: it reads in one order, so what its copy remembers of it is the program's, and what begins after the first lists would not be noticed.
 *  - What get() gives the model is not divided, so a data set may ask it for its own rows' examples; one that computes gradients, trains a normalisation, or
 *    looks at divided results of the training, is read whole.
 *  - Collectives only on the main thread; worker threads only mark tensors.
 *  - --scale-batch asks the sampler for world size times as much, whatever the loader is; then all of this.
 */
#ifndef ACCEL_HOOKS_LOAD_H
#define ACCEL_HOOKS_LOAD_H

#include "../../shim/shim.h"

enum { LOAD_STACKED_MAX = 2, LOAD_WATCHED_MAX = 3, LOADERS_FEW = 64, LOADERS_MAX = 4096 };

enum loader_state {
    LOADER_WATCHED, /* read whole, being looked at */
    LOADER_DIVIDED, /* own rows only */
    LOADER_WHOLE,   /* read whole, for good */
};

/* What its last batch showed. */
enum watch_verdict { WATCH_NOTHING, WATCH_CLEAN, WATCH_AGAIN, WATCH_SPOILT };

/* Where a call of torch::stack came from: one instruction at one depth, with one place for the result. get() calling it is another one than the loader; the
   loader's two calls differ at least by the place (not optimised, both come from the same line of libtorch's header). */
struct call_site {
    const void *code, *frame, *result;
};
static inline bool call_site_same(struct call_site one, struct call_site other) {
    return one.code == other.code && one.frame == other.frame && one.result == other.result;
}

/* The rows of one list of indices that this rank was given. */
struct list_rows {
    int64_t total, first, rows; /* rows == total: all */
};

struct worker {
    _Atomic uint64_t word; /* of the thread (threads.h); its pthread_t may be that of a later one */
    struct call_site sites[LOAD_STACKED_MAX];
    int stacked;           /* of the batch it is at */
    struct list_rows rows; /* likewise */
    uint64_t thread_sum;   /* of its own variables, after the last batch; 0: none yet */
    uint64_t writes;       /* calls of write until then */
    uint64_t near;         /* near_sum() of its copy of the data set when that was looked at last; 0: before its first batch */
    bool has_changed;      /* a variable, while it read its own rows only */
};

struct loader {
    void *sampler;
    struct loader_view view;
    int stacked_tensors;        /* 1 or 2; 0: not plain by type */
    bool has_own_sampler;       /* the program's, which has asked libtorch's for something: what it makes of that is its own affair */
    _Atomic bool accepts_short; /* its drop_last is off: it has been given a list that is short for having been cut */
    const char *why;            /* it is read whole */
    uint64_t generation;        /* samplers made when the watching began: afterwards another loader may stand at the same address */
    size_t batch;               /* rows it is asked for: view.batch, times the ranks with --scale-batch */
    uint64_t divided;           /* batches since the watching began */
    size_t lists;               /* handed out since the epoch or the watching began */
    int watched;                /* batches looked at without a verdict */
    enum watch_verdict verdict; /* of the last list, without workers: another loader's may have come since */
    uint64_t dataset_sum; /* of its data set's memory when the watched batch was handed out; with workers, of theirs and of static memory */
    uint32_t watched_lists;  /* handed out to workers while watched */
    bool workers_are_clean;  /* they have read one of them and left nothing behind */
    size_t looks;            /* at their copies, since lists are cut */
    _Atomic bool is_settled; /* one of them has read its first, or its second, and nothing of its own was another thing afterwards */
    _Atomic uint8_t state;
    _Atomic bool spoilt;          /* by something seen on any thread */
    _Atomic uint32_t whole_lists; /* stacked by workers while watched */
    _Atomic int64_t short_lists;  /* handed out to workers and not yet stacked */
    struct list_rows tail;        /* the last batch of the epoch when it is short; rows 0: none */
    bool is_noted;                /* for `accel-run explain` */
    bool is_at_end;               /* the sampler had nothing left; then an epoch begins */
    _Atomic uint64_t shapes;      /* sum over the stacked batches of a hash of their shape and type */
    struct worker workers[LOADER_WORKERS_MAX];
};

/* ---- loaders.c: the loaders seen so far */
/* The loader of this sampler, which has asked it for `size` rows; NULL: the sampler is used by something else, or there are too many. Main thread. */
struct loader *loaders_find(void *sampler, size_t size);
/* Another thread than the main one asks the sampler: stops the job where its loader may have been given a list that is short for having been cut. */
void loaders_refuse_thread(void *sampler);
/* The loader that the calling thread is a worker of. Any thread. */
struct loader *loaders_of_thread(struct worker **worker);
/* Is it a worker of any, also of one that is read whole? Any thread. */
bool loaders_is_worker(void);
/* A sampler was made. */
void loaders_forget_verdicts(void);
/* The loader takes the list that it is given now, though it is short; and is as the program has made it once that is a batch, or the next one is asked for. */
void loader_accept_short(struct loader *loader);
void loader_accept_no_more(struct loader *loader);
/* Its first batches are looked at as if it had just been made. */
void loader_watch_anew(struct loader *loader);
/* A loader is read whole for good: remembers why, says so with --explain. */
void loader_leave_whole(struct loader *loader, const char *why);
__attribute__((noreturn)) void loader_failed(const struct loader *loader, const char *what);

/* ---- watch.c: the main thread between a sampler and the batch */
/* The list has been handed out; `witness` is the place in it of the row that all ranks read, -1: none. */
void watch_begin(struct loader *loader, struct list_rows rows, size_t length, int64_t witness);
/* Stops the job where the last list has never become a batch. */
void watch_check_left(void);
/* The sampler has nothing left: what is stacked from now on, at whatever place, is no tensor more of the last batch. */
void watch_end_epoch(void);
/* What the loader's last batch showed. */
enum watch_verdict watch_verdict(struct loader *loader);
/* torch::stack was called on the main thread: returns the result as the program is to see it, in *result. */
void *watch_stack(struct tensor **result, struct tensor *const *tensors, size_t count, int64_t dim, struct call_site site);

/* ---- workers.c: the data sets of a loader's workers. Main thread. */
/* A list is handed out while the loader is watched; nothing that was asked for before is being read. */
void workers_begin(struct loader *loader);
/* Before the next one: waits until all has been read. */
enum watch_verdict workers_verdict(struct loader *loader);
/* Before a list that may be cut: has one that was left something behind? What comes back to itself with each whole batch does not with a rank's rows. */
void workers_look(struct loader *loader);
/* Waits until no list that was cut is being read; false: one still is. */
bool workers_end_short(const struct loader *loader);

/* ---- draw.c: would a draw from libtorch's default generator be noticed in this process? Main thread. */
bool draws_are_seen(void);

/* ---- memory.c: what a data set could remember in. 0: cannot be told. */
uint64_t memory_of_dataset(const void *dataset);
uint64_t reach_sum(const void *object, size_t bytes);        /* of an object and all that it can reach (reach.c); 0: not known */
uint64_t reach_sum_beyond(const void *memory, size_t bytes); /* of the allocations that static memory points to, themselves */
uint64_t near_sum(const void *object, size_t bytes); /* of an object and the allocations that it points to, themselves (near.c); never 0 */
/* Static and thread-local memory of the program, of the file that address belongs to, and of their libraries (modules.h); what this thread has printed and
   written. */
uint64_t memory_of_program(const void *address);
/* This thread's variables of the program and of that file, or those of a new thread. Never 0. Any thread. */
uint64_t memory_of_thread(const void *address, bool is_fresh);
/* Calls of write by this thread so far: a get() that prints or logs. 0 where the kernel does not count. Any thread. */
uint64_t memory_thread_writes(void);
/* The data set, what it points to itself, static memory of the program and of that file, sizes of files that are open for writing: cheap
   enough for every batch. Not what is printed: each rank's own lines are shown (launcher/streams). */
uint64_t memory_at_hand(const void *dataset, const void *address);

/* ---- stack.c */
uint64_t stack_shape(struct tensor *tensor); /* a hash of type and sizes but the first */
void stack_mark(struct tensor *tensor, struct list_rows rows);

#endif
