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
    bool is_releasing;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct let_go orphans; /* of threads that have ended: anybody's. Mutex held */
static _Atomic size_t all;

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

static struct let_go of_main;
static const struct threads_kept kept = {&of_main, sizeof of_main, thread_ends};

void window_let_go(struct tensor *tensor) {
    atomic_fetch_add(&all, 1);
    add(threads_own_kept(&kept), tensor);
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

static struct tensor *take_orphan(void) {
    pthread_mutex_lock(&mutex);
    struct tensor *orphan = take_first(&orphans);
    pthread_mutex_unlock(&mutex);
    return orphan;
}

void window_release_let_go(void) {
    struct let_go *own = window_has_let_go() ? threads_own_kept(&kept) : NULL;
    if (!own || own->is_releasing)
        return;
    own->is_releasing = true;
    for (struct tensor *tensor; (tensor = take_first(own)) || (tensor = take_orphan());) {
        atomic_fetch_sub(&all, 1);
        tensor_release(tensor);
    }
    own->is_releasing = false;
}

__attribute__((constructor)) static void window_let_go_start(void) {
    threads_renew_in_child(&mutex);
}
