/*
 * The locks that threads of the program take in the same order on all ranks: each rank's first one in turn is the one that was first on rank 0 (of several
 * hosts: on the host's first rank; hosts that come in different orders are noticed by the collectives' hash).
 *
 * A thread that waits for its turn has given up the lock, and Python's, which the thread that is first may need on its way here.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "comm/clock.h"
#include "python.h"
#include "shim.h"

enum { STAYS = 2000, YIELDS = 64, NAP_NS = 50000 };

static pthread_mutex_t comm_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Rank 0 is seldom far behind: for a moment nobody else could go on either. Returns what is known then. */
static enum comm_turn stay(enum comm_turn (*take)(uint64_t since_ns), uint64_t since_ns) {
    enum comm_turn whose = take(since_ns);
    for (int i = 0; i < STAYS && whose == COMM_TURN_UNKNOWN; i++) {
        sched_yield();
        whose = take(since_ns);
    }
    return whose;
}

static void step_aside(pthread_mutex_t *mutex, unsigned round) {
    struct timespec nap = {0, NAP_NS};
    pthread_mutex_unlock(mutex);
    void *python = python_let_go();
    if (round < YIELDS)
        sched_yield();
    else
        nanosleep(&nap, NULL);
    python_take_again(python);
    pthread_mutex_lock(mutex);
}

static bool always(void) {
    return true;
}

void shim_comm_unlock(int *unused) {
    comm_end_turn();
    pthread_mutex_unlock(&comm_mutex);
}

bool shim_comm_lock_while(bool (*is_needed)(void)) {
    regions_refuse();
    uint64_t since_ns = clock_ns();
    pthread_mutex_lock(&comm_mutex);
    for (unsigned round = 0; is_needed(); round++) {
        if (stay(comm_take_turn, since_ns) == COMM_TURN_TAKEN)
            return true;
        step_aside(&comm_mutex, round);
    }
    shim_comm_unlock(NULL);
    return false;
}

void shim_comm_lock(void) {
    shim_comm_lock_while(always);
}

void shim_note_lock(void) {
    pthread_mutex_lock(&comm_mutex);
}

void shim_note_unlock(int *unused) {
    pthread_mutex_unlock(&comm_mutex);
}

void shim_backward_lock(pthread_mutex_t *mutex) {
    uint64_t since_ns = clock_ns();
    pthread_mutex_lock(mutex);
    for (unsigned round = 0; stay(comm_take_backward, since_ns) != COMM_TURN_TAKEN; round++)
        step_aside(mutex, round);
}
