/*
 * Which kind of process this is. LD_PRELOAD reaches shells, compilers and loader workers, so the kind is claimed, not guessed (P9): the first hook
 * that only training programs reach asks the launcher for the rank; one grant per rank. Everything else passes through.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "attach.h"
#include "exchange.h"
#include "explain.h"
#include "link.h"
#include "resolve.h"
#include "shim.h"
#include "threads.h"

_Atomic uint8_t shim_kind_now;
_Atomic uint8_t shim_active_now;

_Thread_local uint8_t shim_files_aside_now;

static _Atomic(pthread_t) for_all; /* 0: nobody */

static struct protocol_grant grant;
static pthread_t beginner;       /* the thread that has claimed */
static _Atomic bool is_prepared; /* everything below it works; until then other threads wait */

/* In a child forked by a rank (a loader's worker): hooks off, communication forgotten (P12). In any other child: nothing was begun. */
static void kind_after_fork(void) {
    if (atomic_load(&shim_kind_now) != SHIM_RANK) {
        link_forget();
        return;
    }
    atomic_store(&shim_active_now, 0);
    atomic_store(&shim_kind_now, SHIM_WORKER);
    comm_forget();
    link_forget();
}

/* While another thread claims the rank: in the child nobody goes on with that. */
static void kind_after_early_fork(void) {
    uint8_t claiming = SHIM_CLAIMING;
    atomic_compare_exchange_strong(&shim_kind_now, &claiming, SHIM_OTHER);
}

/* Static destructors of the program run after main and may call hooks (fact 8): values they read must still be whole, so the hooks stay active; only
   a process that is being torn down by exit() keeps its state, nothing is freed here on purpose (P25). */

#define PARTED_CURE                                                                                                                        \
    "All ranks must do the same steps. See docs/troubleshooting.md for this id; if the program draws from a source of randomness that "    \
    "accel-run does not know, seed it; if its threads take results by the clock, or from a queue, let one do it; if it goes through a "    \
    "set that is ordered by addresses, let it sort"

static const char *cure_of(const char *id, const char *what) {
    if (strstr(what, "\"" THROWN_NOTE))
        return PROTOCOL_THROWN_CURE;
    if (!strcmp(id, "AR-RANKS-PARTED"))
        return shim_has_hosts() ? PARTED_CURE "; are the files that its threads and loader's workers read the same on all hosts?"
                                : PARTED_CURE ".";
    if (!strcmp(id, "AR-COLLECTIVE-TIMEOUT"))
        return "Is it stopped, or does it wait for something of its own? If it is only slow: --collective-timeout SECONDS.";
    return "See docs/troubleshooting.md for this id.";
}

__attribute__((noreturn)) static void comm_failed(const char *id, const char *what) {
    if (!strcmp(id, "AR-ABORTED")) { /* somebody else has told the launcher already, or is about to */
        explain_send(EXPLAIN_STOPPED, "the program was stopped");
        link_wait_for_end();
    }
    shim_problem(id, cure_of(id, what), "%s", what);
}

static void comm_says(const char *what) {
    shim_log('i', "%s", what);
}

static void kind_open_comm(void) {
    struct board *board = link_board();
    atomic_store(&board->ranks[grant.rank].pid, getpid());
    shim_phase(BOARD_SETUP, "start");
    struct comm_options options = {.rank = grant.rank,
                                   .world_size = grant.world_size,
                                   .cores = grant.cores,
                                   .collective_timeout_ms = grant.collective_timeout_ms,
                                   .segment = link_segment(),
                                   .segment_bytes = grant.segment_bytes,
                                   .look = link_look,
                                   .listener = link_listener(),
                                   .secret = link_cookie(),
                                   .generation = grant.generation,
                                   .are_several = &threads_are_several,
                                   .thread = threads_own,
                                   .say = comm_says,
                                   .fail = comm_failed};
    const char *problem = NULL;
    if (grant.world_size > 1 && comm_open(&options, &problem))
        shim_problem("AR-COMM-OPEN", "This is a defect of accel-run: please report it.", "the ranks cannot share memory: %s", problem);
}

/* Threads that begin together come in another order on each rank. */
static void agree_on_thread(uint64_t thread) {
    uint64_t all[BOARD_RANKS_MAX];
    SHIM_COMM_SCOPE;
    comm_all_gather_words("thread that begins", thread, all);
    if (comm_first_other(all) < grant.world_size)
        meeting_is_of_main_thread();
}

static void kind_prepare(void) {
    torch_begin();
    atomic_store(&shim_active_now, 1);
    if (!link_is_attached()) {
        meeting_begin(grant.world_size, grant.collective_timeout_ms);
        beside_begin(grant.world_size, grant.collective_timeout_ms);
    }
    first_host_begin(grant.collective_timeout_ms);
    shim_turns_begin(grant.collective_timeout_ms);
    uint64_t thread = threads_go_by(0); /* whichever has come first on this rank */
    torch_selfcheck();                  /* like torch_begin, does not return when libtorch is not supported */
    agree_on_thread(thread);
    threads_go_by(thread);
    numbers_begin();
    report_begin();
    signals_begin();
    files_client.rank_begins();
}

/* ---- before the claim */

static pthread_once_t attach_once = PTHREAD_ONCE_INIT, fork_once = PTHREAD_ONCE_INIT;

static void kind_watch_forks(void) {
    pthread_atfork(NULL, NULL, kind_after_fork);
}

static void kind_attach(void) {
    if (!attach_may() || !link_attach(&grant))
        return;
    pthread_once(&fork_once, kind_watch_forks);
    if (grant.world_size > 1) {
        meeting_will_be_of_main_thread();
        meeting_begin(grant.world_size, grant.collective_timeout_ms);
        beside_begin(grant.world_size, grant.collective_timeout_ms);
        files_client.ranks_meet();
    }
}

bool shim_attach(void) {
    int saved_errno = errno;
    pthread_once(&attach_once, kind_attach);
    errno = saved_errno;
    return link_is_attached();
}

/* One rank is the plain program: nothing is intercepted. */
static void kind_granted(void) {
    pthread_once(&fork_once, kind_watch_forks);
    kind_open_comm();
    atomic_store(&shim_kind_now, SHIM_RANK);
    if (grant.world_size > 1)
        kind_prepare();
    atomic_store(&is_prepared, true);
}

/* The process of a check by `accel-run doctor`: it need not train to be a rank. */
static void kind_exchange(void) {
    atomic_store(&shim_kind_now, SHIM_OTHER);
    if (!link_claim(&grant))
        return;
    kind_open_comm();
    exchange_run(&grant);
    comm_forget();
    link_forget();
}

/* The constructor only snapshots the environment: it also runs in every shell and compiler below us (P9, P23). */
__attribute__((constructor)) static void kind_start(void) {
    if (!link_snapshot())
        atomic_store(&shim_kind_now, SHIM_OTHER);
    else if (pthread_atfork(NULL, NULL, kind_after_early_fork))
        atomic_store(&shim_kind_now, SHIM_OTHER);
    else if (link_must_exchange())
        kind_exchange();
}

static bool is_decided(uint8_t kind) {
    bool is_ready = atomic_load_explicit(&is_prepared, memory_order_acquire) || pthread_equal(beginner, pthread_self());
    return kind == SHIM_WORKER || kind == SHIM_OTHER || (kind == SHIM_RANK && is_ready);
}

/* The thread that is waited for may need the interpreter's lock. */
static void wait_for_another(void) {
    void *python = python_let_go();
    sched_yield();
    python_take_again(python);
}

bool shim_training_begins(void) {
    for (;;) {
        uint8_t kind = atomic_load_explicit(&shim_kind_now, memory_order_acquire);
        if (is_decided(kind))
            return shim_active();
        uint8_t undecided = SHIM_UNDECIDED;
        if (kind == SHIM_UNDECIDED && atomic_compare_exchange_strong(&shim_kind_now, &undecided, SHIM_CLAIMING))
            break;
        wait_for_another();
    }
    beginner = pthread_self();
    shim_attach(); /* before any thread opens a file unseen */
    if (link_claim(&grant))
        kind_granted();
    else
        atomic_store(&shim_kind_now, SHIM_OTHER);
    return shim_active();
}

bool shim_is_claimed_elsewhere(void) {
    uint8_t kind = atomic_load_explicit(&shim_kind_now, memory_order_acquire);
    return (kind == SHIM_CLAIMING || kind == SHIM_RANK) && !is_decided(kind) && !pthread_equal(beginner, pthread_self());
}

bool shim_is_taken(void) {
    static _Atomic bool is_taken;
    if (!atomic_load(&is_taken) && link_is_taken())
        atomic_store(&is_taken, true);
    return atomic_load(&is_taken);
}

void shim_trains_elsewhere(void) {
    static _Atomic bool is_said;
    uint8_t kind = atomic_load_explicit(&shim_kind_now, memory_order_relaxed);
    bool is_child = kind == SHIM_WORKER || (kind == SHIM_OTHER && shim_job_secret());
    struct protocol_claim claim;
    if (is_child && !atomic_exchange(&is_said, true))
        link_say_as_child(PROTOCOL_CHILD_TRAINS, &claim, sizeof claim);
}

uint32_t shim_rank(void) {
    return grant.rank;
}

uint32_t shim_slot(void) {
    return link_slot();
}

void shim_acts_for_all(bool it_does) {
    pthread_t self = pthread_self();
    if (it_does)
        atomic_store(&for_all, self);
    else
        atomic_compare_exchange_strong(&for_all, &self, 0);
}

bool shim_is_for_all(void) {
    pthread_t actor = atomic_load(&for_all);
    return actor && pthread_equal(actor, pthread_self());
}

bool shim_has_hosts(void) {
    return link_has_hosts();
}

uint32_t shim_world_size(void) {
    return grant.world_size;
}

bool shim_records(void) {
    return grant.flags & PROTOCOL_FLAG_RECORD;
}

uint32_t shim_record_steps(void) {
    return grant.record_steps;
}

bool shim_explains(void) {
    return grant.flags & PROTOCOL_FLAG_EXPLAIN;
}

bool shim_scales_batch(void) {
    return grant.flags & PROTOCOL_FLAG_SCALE_BATCH;
}

bool shim_shards_loading(void) {
    return !(grant.flags & PROTOCOL_FLAG_WHOLE_LOADING);
}

const char *shim_job_secret(void) {
    link_snapshot(); /* static objects of the program's libraries may ask before our constructor has run (fact 7) */
    return link_cookie();
}

const char *shim_job_name(void) {
    link_snapshot();
    return link_job();
}

bool shim_own_name(const char *begin, uint32_t rank, char *name, size_t room) {
    return (size_t)snprintf(name, room, "%s.%s.%u", begin, shim_job_name(), rank) < room;
}

/* ---- what is mapped */

void shim_processes(int32_t *processes) {
    for (uint32_t i = 0; i < shim_world_size(); i++)
        processes[i] = i == shim_rank() ? getpid() : atomic_load_explicit(&link_board()->ranks[i].pid, memory_order_relaxed);
}

const char *shim_file_at(const void *address) {
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname ? shim_base_of(info.dli_fname) : "";
}

/* Not libtorchvision.so, or libtorch_of_mine.so. */
bool shim_is_file_of_libtorch(const char *file) {
    static const char *const names[] = {
        "libtorch",     "libtorch_cpu", "libtorch_cuda",   "libtorch_cuda_cpp",    "libtorch_cuda_cu", "libtorch_cuda_linalg",
        "libtorch_hip", "libtorch_xpu", "libtorch_python", "libtorch_global_deps", "libc10",           "libc10_cuda",
        "libc10_hip",   "libc10_xpu"};
    size_t length = strcspn(file, ".-");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && !strncmp(file, names[i], length))
            return true;
    return false;
}

struct mapped {
    bool libtorch, python;
};

static int visit_library(struct dl_phdr_info *info, size_t size, void *data) {
    struct mapped *mapped = data;
    const char *base = shim_base_of(info->dlpi_name ? info->dlpi_name : "");
    mapped->libtorch |= !strncmp(base, "libtorch_cpu", 12);
    mapped->python |= !strncmp(base, "libpython", 9);
    return 0;
}

bool shim_has_libtorch(void) {
    struct mapped mapped = {false, false};
    dl_iterate_phdr(visit_library, &mapped);
    return mapped.libtorch;
}

__attribute__((noinline)) static bool runs_python(void) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return !strncmp(shim_base_of(path), "python", strlen("python"));
}

/* Asked first by a constructor: what comes later may have little stack. */
bool shim_is_python(void) {
    enum { NOT_ASKED, YES, NO };
    static _Atomic int known;
    int state = atomic_load_explicit(&known, memory_order_relaxed);
    if (state == NOT_ASKED)
        atomic_store_explicit(&known, state = runs_python() ? YES : NO, memory_order_relaxed);
    return state == YES;
}

/* By name and not by a symbol: a failed dlsym allocates and overwrites the program's dlerror(). */
bool shim_may_train(void) {
    struct mapped mapped = {false, false};
    if (shim_is_python())
        return true;
    dl_iterate_phdr(visit_library, &mapped);
    return mapped.libtorch || mapped.python;
}
