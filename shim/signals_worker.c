#define _GNU_SOURCE
#include "signals_worker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NAPS_MOST = 240 }; /* 12 s: a rank keeps none longer than 10 (comm/agree.c) */

static _Atomic uint32_t *run;   /* the rank's handlers so far; its workers see the same memory. NULL: there is none */
static uint32_t run_here, naps; /* a worker's: those that its own have run with */
static pid_t rank;

static void note_fork(void) {
    run_here = run ? atomic_load(run) : 0;
}

void signals_worker_begin(void) {
    void *memory = run ? MAP_FAILED : mmap(NULL, sizeof *run, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    run = memory;
    rank = getpid();
    pthread_atfork(NULL, NULL, note_fork);
}

void signals_worker_note(void) {
    if (run && rank == getpid())
        atomic_fetch_add(run, 1);
}

bool signals_worker_waits(bool is_new) {
    uint32_t now = run ? atomic_load(run) : 0;
    naps = is_new ? 0 : naps + 1;
    if (run && now == run_here && naps < NAPS_MOST && getppid() != 1)
        return true;
    run_here = now;
    return false;
}
