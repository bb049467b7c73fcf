/*
 * Everything a hook may use; nothing else of shim/ is includable from hooks/.
 *
 * Rules of the shim
 *  - It lives in somebody else's process: inert (one relaxed load per hook) until that process is a rank of a job with more than one rank.
 *  - It never exits, aborts, prints to fd 1 or changes errno on its own account. What would make training wrong goes to the launcher
 *    (shim_problem), which stops the job.
 *  - NEEDED is libc. libtorch is reached through names resolved at run time (resolve.c), never through RTLD_NEXT (style.md fact 1).
 *  - C++ exceptions pass through our frames: state is restored by cleanup attributes only (style.md facts 5 and 6).
 *  - Thread-local memory: initial-exec, at most 64 bytes in all (P21).
 */
#ifndef ACCEL_SHIM_H
#define ACCEL_SHIM_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "checksum.h"
#include "comm/arena.h"
#include "comm/clock.h"
#include "comm/comm.h"
#include "first_host.h"
#include "beside.h"
#include "meeting.h"
#include "moment.h"
#include "pairs.h"
#include "python.h"
#include "replace.h"
#include "shared_table.h"
#include "start_check.h"
#include "threads.h"
#include "throw.h"
#include "torch/loader.h"
#include "torch/numbers.h"
#include "torch/torch.h"

struct save_string; /* std::string, either ABI: hooks/save */

/* ---- who am I (kind.c) */

enum shim_kind {
    SHIM_UNDECIDED = 0, /* no training hook has fired yet */
    SHIM_CLAIMING,      /* one thread is asking the launcher; others wait */
    SHIM_RANK,          /* this process is a rank; world size 1 passes through all the same */
    SHIM_WORKER,        /* forked from a rank: hooks off, computes alone */
    SHIM_OTHER,         /* no launcher, or another process has the rank: full pass-through */
};

extern _Atomic uint8_t shim_kind_now;
extern _Atomic uint8_t shim_active_now; /* 1: RANK, world size > 1, libtorch calibrated and self-checked, not closing */

/* True when hooks must act. Cheap: one relaxed load. */
static inline bool shim_active(void) {
    return __builtin_expect(atomic_load_explicit(&shim_active_now, memory_order_relaxed), 0);
}

/* True in a child forked by a rank: what the parent has marked is still there, the other ranks are not. */
static inline bool shim_is_worker(void) {
    return __builtin_expect(atomic_load_explicit(&shim_kind_now, memory_order_relaxed) == SHIM_WORKER, 0);
}

/* To be called by hooks that only training programs reach (a leaf made, an engine asked, a seed drawn): claims the rank on the first call and, when
   granted with a world of more than one, calibrates the dispatch layer, runs its self-check and activates the hooks. Returns shim_active(). Any thread. */
bool shim_training_begins(void);
/* Before that: a process that may train is about to change a file. True when it meets the other ranks' processes from now on (attach.h), whether or not it
   will be a rank; shim_rank() and shim_world_size() are known then. Any thread. */
bool shim_attach(void);
/* Another thread is just claiming the rank: shim_training_begins() waits for it. */
bool shim_is_claimed_elsewhere(void);
/* In a process that may train: another one is the rank already, so this will be none. Asks the launcher, until it is so. Any thread. */
bool shim_is_taken(void);
/* A backward begins in a process that is no rank: a child of one is said to train by itself. */
void shim_trains_elsewhere(void);

/* A process of the job that is no rank does what its user should know: once in the job, as a warning. Any thread. */
__attribute__((format(printf, 3, 4))) void shim_tell_of_other(const char *id, const char *cure, const char *format, ...);

uint32_t shim_rank(void);
uint32_t shim_world_size(void);
bool shim_explains(void);       /* --explain */
bool shim_records(void);        /* `accel-run explain`: explain_note() is heard */
bool shim_scales_batch(void);   /* --scale-batch */
bool shim_shards_loading(void); /* not --no-shard-loading */
/* 128 random bits of the job, the same on all ranks, as hexadecimal text; NULL outside a job. */
const char *shim_job_secret(void);
/* What processes of this job on this host may call it, and others may see; NULL outside a job, and below another launcher. */
const char *shim_job_name(void);
/* BEGIN.JOB.RANK, in a job that has a name: what is called so in /dev/shm, or begins with accel-run in /tmp, goes when the job ends (launcher/shared_names.c).
   False: there is no room for it. */
bool shim_own_name(const char *begin, uint32_t rank, char *name, size_t room);

/* $TMPDIR, as the program may have set it meanwhile; NULL: none. */
const char *shim_temporary_folder(void);
const char *shim_driver_cache_folder(void); /* where a GPU's driver keeps what it has compiled; NULL: where it always does */

/* True in a process that is likely to train: libtorch is mapped, or it is a Python interpreter. Allocates nothing. Any thread. */
bool shim_may_train(void);
/* True in a Python interpreter, by the name of the program's file. Any thread. */
bool shim_is_python(void);
/* True when libtorch is mapped. Allocates nothing. */
bool shim_has_libtorch(void);
bool shim_has_python(void); /* an interpreter runs in this process */
/* Does a name begin with one of these? */
static inline bool shim_begins_with_any(const char *name, const char *const *beginnings, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!strncmp(name, beginnings[i], strlen(beginnings[i])))
            return true;
    return false;
}
/* processes[shim_world_size()]: the process number of each rank, 0 while it has none; of its own, this process's. There must be a board (link.h). */
void shim_processes(int32_t *processes);
/* What stands behind the last slash. */
static inline const char *shim_base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
/* The program's or library's file that is mapped there, without its folders (a program may lie below one that is called as a library is); "": none. */
const char *shim_file_at(const void *address);
bool shim_is_file_of_libtorch(const char *file); /* its name */
/* Does the address lie in what the module has mapped? For dl_iterate_phdr (symbols.c). */
struct dl_phdr_info;
bool shim_module_holds(const struct dl_phdr_info *module, const void *address);
/* The rank that this process tree may claim, also before it has; 0 outside a job. */
uint32_t shim_slot(void);
/* The job has several hosts; known before the claim. */
bool shim_has_hosts(void);

/* What rank 0 alone does now, on the thread that says so, it does for all ranks (a command): it counts for nothing that the ranks number alike. */
void shim_acts_for_all(bool it_does);
bool shim_is_for_all(void);

/* ---- files. Their rows are hooks/files'; other features take part like this. */

/* Above 0: what this thread does with files is the shim's own doing, or another feature sees to it. Rows of files pass through. */
extern _Thread_local uint8_t shim_files_aside_now;
static inline void shim_files_back(int *unused) {
    shim_files_aside_now--;
}
#define SHIM_FILES_ASIDE __attribute__((cleanup(shim_files_back), unused)) int shim_aside_scope_ = (shim_files_aside_now++, 0)

/* hooks/files: */
struct files_client {
    void (*ranks_meet)(void);         /* the process meets the other ranks' from now on, and may become a rank */
    void (*rank_begins)(void);        /* the process has become a rank of several; all ranks come by */
    void (*training_goes_on)(void);   /* a backward is run */
    void (*is_aborted)(void);         /* SIGABRT is sent by the process itself: what is written so far takes its place */
    uint64_t (*sizes)(void);          /* a hash of the sizes of what the program has open for writing */
    bool (*is_own)(const char *path); /* a name that this process has drawn, or below one: each has its own file there */
    void (*is_spelled)(const char *own, const char *rank_0s); /* what this rank calls by the one name is what rank 0 calls by the other */
    const char *(*spelled)(const char *path, char *buffer);   /* as rank 0 has it, where known, else whole; buffer[PATH_MAX] */
    bool (*is_open)(const char *path); /* rank 0: the program has it open; what it writes, and is not in its place yet, is put there */
};
extern const struct files_client files_client;
/* hooks/seed: a file of agreed bytes when path is the system's random device, opened for reading; else -1. Keeps errno. */
int seed_open_device(const char *path, int flags);
/* hooks/seed: a hash of what this process is, the same for the same process of each rank; 0: not known. Allocates nothing, keeps errno. */
uint64_t seed_program(void);

/* ---- saying things (problem.c; shim_log: link.c) */

void shim_log(char level, const char *format, ...) __attribute__((format(printf, 2, 3))); /* level: 'd' 'i' 'w' 'e' */
/* Goes on, and says what the user should know. id, cure and what happened as below. */
void shim_warning(const char *id, const char *cure, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Stops the job: tells the launcher, then waits to be ended by it. id: stable ("AR-..."); what: what happened and where; cure: what to do. */
void shim_problem(const char *id, const char *cure, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));

/* To be called before this process ends without exit handlers: _exit, quick_exit, abort (signal: its number, else 0). */
void shim_ends(int status, int signal);

/* The board's line of this rank: what it is doing. where: a literal or operator name. */
void shim_phase(enum board_phase phase, const char *where);
bool shim_is_in_phase(enum board_phase phase);
void shim_step_done(void);
void shim_step_reset(void); /* after the self-check, which makes steps, too */

/* For `accel-run explain` (explain.c), else nothing. kind: a literal of launcher/commands/explain.c's table; the same note is counted. Any thread. */
void explain_note(const char *kind, const char *name, const char *detail);
/* Likewise, once for each object. */
void explain_object(const char *kind, const void *object, const char *name, const char *detail);
/* Backward passes so far. */
uint64_t explain_steps(void);
/* A batch meets the layer, where gradients are off. */
void explain_evaluates(uint64_t layer);
/* To be called by all ranks at the same place: the run ends here, for the reason `why`. Returns only when nobody asked for an explanation. */
void explain_end(const char *why);

/* Counts for the summary at the end (report.c). */
void report_begin(void);                /* after the self-check, which counts too */
void report_batch(void);                /* a batch was divided */
bool report_has_batches(void);          /* so far */
uint64_t report_backwards(void);        /* how many this thread has run, or one that went by the same word */
uint64_t report_backwards_of_all(void); /* how many this process has run */
void report_gather(void);               /* a tensor was gathered or summed for an operator that needs all of it */
void report_backward(void); /* a backward was run, divided or not; stops the job when --scale-batch has found no loader until then */
void report_scaled(void);   /* a loader was asked for a batch of --scale-batch */

/* ---- random numbers and other effects: a hook that sees the program draw (or libtorch for it), or write a file, says so, on the same thread; at most one
   hook listens. Takes no lock, allocates nothing. */
typedef void draw_listener(void);
extern _Atomic(draw_listener *) shim_draw_listener;
static inline void shim_note_draw(void) {
    draw_listener *listener = atomic_load_explicit(&shim_draw_listener, memory_order_acquire);
    if (__builtin_expect(listener != NULL, 0))
        listener();
}

/* Does this thread read an example for a data loader of C++, which each rank may do for its own rows? Then no collective may be in it. Any thread. */
typedef bool reading_teller(void);
extern _Atomic(reading_teller *) shim_reading_teller;
static inline bool shim_reads_example(void) {
    reading_teller *teller = atomic_load_explicit(&shim_reading_teller, memory_order_acquire);
    return teller && teller();
}

/* A lock that another thread may hold at a fork is nobody's in the child. To be called by constructors. */
void threads_renew_in_child(pthread_mutex_t *mutex);

/* ---- collectives on behalf of a hook: takes the communication lock (turns.c), and waits for this thread's turn: there must be a collective in the scope. */
void shim_comm_lock(void);
/* The same while it is needed. False: it is not any more, since another thread has done what was to be done; and there is nothing to unlock. */
bool shim_comm_lock_while(bool (*is_needed)(const void *context), const void *context);
void shim_comm_unlock(int *unused);
/* The lock of a backward, with collectives in it, in the same order. */
void shim_backward_lock(pthread_mutex_t *mutex);
void shim_turns_begin(uint32_t timeout_ms);
/* A moment of a wait for another thread of this process, which began with *since_ns = 0; stops the job at the deadline of collectives. what: "a backward". */
void shim_nap(uint64_t *since_ns, const char *what);
bool shim_has_threads(void);    /* there is, or has been, a second one */
bool shim_others_compute(void); /* has any but the main thread ever come to what the ranks do together? */
/* For comm_note() alone. */
void shim_note_lock(void);
void shim_note_unlock(int *unused);
#define SHIM_NOTE_SCOPE __attribute__((cleanup(shim_note_unlock), unused)) int shim_note_scope_ = (shim_note_lock(), 0)
#define SHIM_COMM_SCOPE __attribute__((cleanup(shim_comm_unlock), unused)) int shim_comm_scope_ = (shim_comm_lock(), 0)

/* ---- signals (signals.c). Handlers of the program run where a hook that has been in collectives goes back to it, at user level, holding no lock. */
void signals_run(uint32_t granted);
/* A rank begins: handlers that were set when nothing in the process could train are seen from here on. */
void signals_begin(void);
/* How many handlers of the program's have begun. */
unsigned signals_handled(void);
/* While a command runs (hooks/files) signals are kept until it has ended, however long: rank 0 alone could handle them. Not Ctrl-C, which ends it. */
void signals_hold(bool is_held);
/* Nobody's meanwhile: SIGINT and SIGQUIT, as system() has it in the process that waits for a command. */
struct signals_before {
    struct sigaction actions[2];
};
struct signals_before signals_ignore(void);
void signals_restore(const struct signals_before *before);
static inline void shim_run_signals(void) {
    uint32_t granted = comm_granted();
    if (__builtin_expect(granted != 0, 0))
        signals_run(granted);
}

/* ---- the hook table (table.c)
   A row of a .def file:  HOOK(name, library, NEED, "mangled symbol", return type, (arguments))
   yields the prototype of hook_<name> under its mangled name, an enum id, a table entry and an export-map line. */
enum hook_need { REQUIRED, OPTIONAL, VARIANT };

#define HOOK(name, library, need, symbol, type, arguments)                                                                                 \
    __attribute__((visibility("default"))) type hook_##name arguments __asm__(symbol);
#include "../hooks/hooks.def"
#undef HOOK

enum hook_id {
#define HOOK(name, library, need, symbol, type, arguments) HOOK_##name,
#include "../hooks/hooks.def"
#undef HOOK
    HOOK_COUNT
};

struct hook_row {
    const char *name, *library, *symbol;
    enum hook_need need;
    void *own; /* our function, to notice a circular original */
    _Atomic(void *) original;
};
extern struct hook_row hook_table[HOOK_COUNT];

void *resolve_function(const char *library, const char *symbol); /* a function or datum of a library of torch, or NULL */
void *resolve_original(enum hook_id id);                         /* lazy; stops the job when a function that was called has no original */

/* The function that would have run without us, with the row's own type. */
#define ORIGINAL(name)                                                                                                                     \
    ((__typeof__(&hook_##name))(__builtin_expect(!!atomic_load_explicit(&hook_table[HOOK_##name].original, memory_order_acquire), 1)       \
                                    ? atomic_load_explicit(&hook_table[HOOK_##name].original, memory_order_relaxed)                        \
                                    : resolve_original(HOOK_##name)))
/* libc's own function, looked up by a constructor (hooks/seed); NULL before that, when an allocator starts, for instance: dlsym would enter it again. */
#define NEXT(name) ((__typeof__(&hook_##name))atomic_load_explicit(&hook_table[HOOK_##name].original, memory_order_relaxed))

#endif
