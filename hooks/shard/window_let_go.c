/*
 * What windows let go. The last owner of a divided tensor that the program has dropped may be a window, which closes within an operator of another one, with
 * the list in hand: a finalizer of the program's (weakref.finalize, __del__) would compute there as the shim does, with this rank's rows. So such tensors are
 * released at the end of an operator, at user level, by the thread that has closed the window, one after the other: a finalizer's own operators end, too.
 */
#include <pthread.h>
#include <stdlib.h>

#include "window.h"

struct let_go {
    struct tensor **tensors;
    size_t count, room;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* threads of OpenMP go by the main thread's word */
static struct let_go of_main, orphans;                    /* of threads that have ended: anybody's */
static _Atomic size_t all;
static _Thread_local bool is_releasing;

static void add(struct let_go *let_go, struct tensor *tensor) {
    if (let_go->count == let_go->room)
        let_go->tensors = realloc(let_go->tensors, (let_go->room = let_go->room ? 2 * let_go->room : 8) * sizeof *let_go->tensors);
    let_go->tensors[let_go->count++] = tensor;
}

static void thread_ends(void *memory) {
    struct let_go *own = memory;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < own->count; i++)
        add(&orphans, own->tensors[i]);
    pthread_mutex_unlock(&mutex);
    free(own->tensors);
}

static const struct threads_kept kept = {&of_main, sizeof of_main, thread_ends};

void window_let_go(struct tensor *tensor) {
    struct let_go *own = threads_own_kept(&kept);
    atomic_fetch_add(&all, 1);
    pthread_mutex_lock(&mutex);
    add(own, tensor);
    pthread_mutex_unlock(&mutex);
}

bool window_has_let_go(void) {
    return atomic_load_explicit(&all, memory_order_relaxed);
}

/* The youngest, with which a sweep begins: so a list of Python's lets go what it has. */
static struct tensor *take_first(struct let_go *let_go) {
    struct tensor *first = let_go->count ? let_go->tensors[0] : NULL;
    if (first)
        memmove(let_go->tensors, let_go->tensors + 1, --let_go->count * sizeof first);
    return first;
}

/* Asked anew each time: a finalizer may end what the thread goes by. */
static struct tensor *take(void) {
    struct let_go *own = threads_own_kept(&kept);
    pthread_mutex_lock(&mutex);
    struct tensor *tensor = take_first(own);
    if (!tensor)
        tensor = take_first(&orphans);
    pthread_mutex_unlock(&mutex);
    return tensor;
}

void window_release_let_go(void) {
    if (!window_has_let_go() || is_releasing)
        return;
    is_releasing = true;
    for (struct tensor *tensor; (tensor = take());) {
        atomic_fetch_sub(&all, 1);
        tensor_release(tensor);
    }
    is_releasing = false;
}

__attribute__((constructor)) static void window_let_go_start(void) {
    threads_renew_in_child(&mutex);
}
