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

enum { YIELDS = 64, NAP_NS = 50000 };

static pthread_mutex_t comm_mutex = PTHREAD_MUTEX_INITIALIZER;

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

bool shim_comm_lock_while(bool (*is_needed)(void)) {
    regions_refuse();
    uint64_t since_ns = clock_ns();
    pthread_mutex_lock(&comm_mutex);
    for (unsigned round = 0; is_needed(); round++) {
        if (comm_take_turn(since_ns))
            return true;
        step_aside(&comm_mutex, round);
    }
    pthread_mutex_unlock(&comm_mutex);
    return false;
}

void shim_comm_lock(void) {
    shim_comm_lock_while(always);
}

void shim_comm_unlock(int *unused) {
    comm_end_turn();
    pthread_mutex_unlock(&comm_mutex);
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
    for (unsigned round = 0; !comm_take_backward(since_ns); round++)
        step_aside(mutex, round);
}
