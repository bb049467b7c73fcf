#define _GNU_SOURCE
#include "signals_worker.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "link.h"

enum { NAPS_MOST = 240 /* 12 s: a rank keeps none longer than 10 (comm/agree.c) */, NAPS_UNKEPT = 20 /* 1 s */, MOMENT_MS = 1000 };

/* The rank's, which its workers see. */
static struct handlers {
    _Atomic bool is_there, is_kept; /* the rank has got a signal, too, that its handler has not run for */
    _Atomic uint32_t run;           /* so far */
    _Atomic int64_t last_ms;
} * handlers; /* NULL: there are none */
static pid_t rank;
static struct {
    _Atomic uint32_t run, naps; /* when it came; since then */
    _Atomic bool waits, is_for_all;
} here; /* a worker's */

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void signals_worker_begin(void) {
    bool is_there = handlers && rank == getpid(); /* not a fork's that trains itself */
    void *memory = is_there ? MAP_FAILED : mmap(NULL, sizeof *handlers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    handlers = memory;
    atomic_store(&handlers->last_ms, -MOMENT_MS);
    rank = getpid();
}

void signals_worker_note_handler(bool has_handler) {
    if (handlers && rank == getpid())
        atomic_store(&handlers->is_there, has_handler);
}

void signals_worker_note_kept(void) {
    if (handlers && rank == getpid())
        atomic_store(&handlers->is_kept, true);
}

void signals_worker_note_run(void) {
    if (!handlers || rank != getpid())
        return;
    atomic_store(&handlers->last_ms, now_ms());
    atomic_fetch_add(&handlers->run, 1);
    atomic_store(&handlers->is_kept, false);
}

pid_t signals_worker_rank(void) {
    return rank ? rank : getpid();
}

/* Who has lost its parent is the launcher's child. */
static bool is_orphan(void) {
    pid_t parent = getppid();
    return parent == 1 || parent == link_launcher();
}

/* The rank may have run its own already; it notes when before it counts. */
static bool begin(void) {
    uint32_t run = atomic_load(&handlers->run);
    if (atomic_load(&here.waits) || now_ms() - atomic_load(&handlers->last_ms) < MOMENT_MS)
        return false;
    atomic_store(&here.run, run);
    atomic_store(&here.naps, 0);
    return true;
}

/* A signal to this worker alone is none that the rank keeps; one that has it, too, may have been in a system call until now. */
static bool has_naps_left(void) {
    uint32_t naps = atomic_fetch_add(&here.naps, 1);
    return naps < (atomic_load(&here.is_for_all) || atomic_load(&handlers->is_kept) ? NAPS_MOST : NAPS_UNKEPT);
}

bool signals_worker_waits(bool is_new, bool is_for_all) {
    if (is_new)
        atomic_store(&here.is_for_all, is_for_all);
    bool may_wait = handlers && atomic_load(&handlers->is_there) && !is_orphan() && (is_new ? begin() : atomic_load(&here.waits));
    bool waits = may_wait && atomic_load(&handlers->run) == atomic_load(&here.run) && has_naps_left();
    atomic_store(&here.waits, waits);
    return waits;
}
