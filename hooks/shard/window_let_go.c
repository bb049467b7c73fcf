/*
 * What windows let go. The last owner of a divided tensor that the program has dropped may be a window, which closes within an operator of another one, with
 * the list in hand: a finalizer of the program's (weakref.finalize, __del__) would compute there as the shim does, with this rank's rows. So such tensors are
 * released at the end of an operator, at user level.
 */
#include <pthread.h>
#include <stdlib.h>

#include "window.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct tensor **tensors;
static size_t room;
static _Atomic size_t count;

void window_let_go(struct tensor *tensor) {
    pthread_mutex_lock(&mutex);
    if (count == room)
        tensors = realloc(tensors, (room = room ? 2 * room : 8) * sizeof *tensors);
    tensors[count++] = tensor;
    pthread_mutex_unlock(&mutex);
}

bool window_has_let_go(void) {
    return atomic_load_explicit(&count, memory_order_relaxed);
}

/* One after the other: a finalizer may call operators, which end here, too. */
void window_release_let_go(void) {
    while (window_has_let_go()) {
        pthread_mutex_lock(&mutex);
        struct tensor *first = count ? tensors[0] : NULL;
        if (first)
            memmove(tensors, tensors + 1, --count * sizeof *tensors);
        pthread_mutex_unlock(&mutex);
        tensor_release(first);
    }
}

__attribute__((constructor)) static void window_let_go_start(void) {
    threads_renew_in_child(&mutex);
}
