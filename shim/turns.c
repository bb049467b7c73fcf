/*
 * The locks that threads of the program take in the same order on all ranks: each rank's first one in turn is the one that rank 0 lets go first (of several
 * hosts: the host's first rank; hosts that come in different orders are noticed by the collectives' hash), one that waits on all of them.
 *
 * A thread that waits for its turn has given up the lock, and Python's, which the thread that is first may need on its way here.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "comm/clock.h"
#include "python.h"
#include "shim.h"
#include "threads.h"

enum { STAYS = 2000, YIELDS = 64, NAP_NS = 50000 };

static pthread_mutex_t comm_mutex = PTHREAD_MUTEX_INITIALIZER;

static uint64_t since_of(struct clock_wait *wait) {
    clock_waited_ns(wait);
    return wait->since_ns;
}

/* Rank 0 is seldom far behind: for a moment nobody else could go on either. Later a core is worth more. Returns what is known then. */
static enum comm_turn stay(enum comm_turn (*take)(uint64_t since_ns), struct clock_wait *wait, unsigned round) {
    enum comm_turn whose = take(since_of(wait));
    for (int i = 0; i < STAYS && round < YIELDS && whose == COMM_TURN_UNKNOWN; i++) {
        sched_yield();
        whose = take(since_of(wait));
    }
    return whose;
}

static void step_aside(pthread_mutex_t *mutex, struct clock_wait *wait, unsigned round) {
    struct timespec nap = {0, NAP_NS};
    pthread_mutex_unlock(mutex);
    void *python = python_let_go();
    if (round < YIELDS)
        sched_yield();
    else
        ORIGINAL(nanosleep)(&nap, NULL);
    clock_waited_ns(wait);
    python_take_again(python);
    python_lock(mutex);
    wait->looked_ns = clock_ns(); /* another thread has had both meanwhile: that is waiting */
}

static bool always(const void *unused) {
    (void)unused;
    return true;
}

/* The thread that has comm_mutex, and how often it has taken it again since. */
static _Atomic pthread_t holder;
static unsigned depth;

static bool has_it_already(void) {
    bool is_own = pthread_equal(atomic_load_explicit(&holder, memory_order_relaxed), pthread_self());
    if (is_own) /* who does not have the lock must not touch depth, not even to add nothing to it */
        depth++;
    return is_own;
}

static void take_it(void) {
    python_lock(&comm_mutex);
    atomic_store_explicit(&holder, pthread_self(), memory_order_relaxed);
}

static void leave_it(void) {
    atomic_store_explicit(&holder, 0, memory_order_relaxed);
    pthread_mutex_unlock(&comm_mutex);
}

void shim_comm_unlock(int *unused) {
    if (depth) {
        depth--;
        return;
    }
    comm_end_turn();
    leave_it();
}

static _Atomic bool others_have_come;

bool shim_others_compute(void) {
    return atomic_load_explicit(&others_have_come, memory_order_relaxed);
}

bool shim_comm_lock_while(bool (*is_needed)(const void *context), const void *context) {
    regions_refuse();
    if (has_it_already())
        return true;
    struct clock_wait wait = clock_wait_begin();
    if (!threads_is_main())
        atomic_store_explicit(&others_have_come, true, memory_order_relaxed);
    comm_ask_turn(false);
    take_it();
    for (unsigned round = 0; is_needed(context); round++) {
        if (stay(comm_take_turn, &wait, round) == COMM_TURN_TAKEN)
            return true;
        atomic_store_explicit(&holder, 0, memory_order_relaxed);
        step_aside(&comm_mutex, &wait, round);
        atomic_store_explicit(&holder, pthread_self(), memory_order_relaxed);
    }
    shim_comm_unlock(NULL);
    return false;
}

void shim_comm_lock(void) {
    shim_comm_lock_while(always, NULL);
}

bool shim_has_threads(void) {
    return atomic_load_explicit(&threads_are_several, memory_order_relaxed);
}

void shim_note_lock(void) {
    if (!has_it_already())
        take_it();
}

void shim_note_unlock(int *unused) {
    if (depth)
        depth--;
    else
        leave_it();
}

static uint32_t limit_ms;

void shim_turns_begin(uint32_t timeout_ms) {
    limit_ms = timeout_ms;
}

__attribute__((noreturn)) static void waited_too_long(const char *what) {
    shim_problem("AR-COLLECTIVE-TIMEOUT",
                 "Is it only slow? --collective-timeout SECONDS. Else let that thread's work end before the hook, or run with -n 1.",
                 "%s has waited %u s for another thread's: does that one wait for this thread, in a hook?", what, limit_ms / 1000);
}

void shim_nap(uint64_t *since_ns, const char *what) {
    struct timespec nap = {0, NAP_NS};
    uint64_t looked_ns = clock_ns();
    if (!*since_ns)
        *since_ns = looked_ns;
    if (looked_ns > *since_ns && looked_ns - *since_ns > limit_ms * (uint64_t)1000000)
        waited_too_long(what);
    ORIGINAL(nanosleep)(&nap, NULL);
    *since_ns = clock_begun_ns(*since_ns + clock_pause_ns(&looked_ns));
}

static bool locks_for_a_moment(pthread_mutex_t *mutex) {
    const uint64_t second = 1000000000, until_ns = clock_ns() + second;
    const struct timespec until = {(time_t)(until_ns / second), (long)(until_ns % second)};
    return !pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
}

/* A hook in the backward that has the lock may wait for this thread. */
static void lock_in_time(pthread_mutex_t *mutex, struct clock_wait *wait) {
    if (!pthread_mutex_trylock(mutex))
        return;
    void *python = python_let_go();
    while (!locks_for_a_moment(mutex))
        if (clock_waited_ns(wait) > limit_ms * (uint64_t)1000000)
            waited_too_long("a backward");
    python_take_again(python);
}

void shim_backward_lock(pthread_mutex_t *mutex) {
    struct clock_wait wait = clock_wait_begin();
    comm_ask_turn(true);
    lock_in_time(mutex, &wait);
    for (unsigned round = 0; stay(comm_take_backward, &wait, round) != COMM_TURN_TAKEN; round++)
        step_aside(mutex, &wait, round);
}
