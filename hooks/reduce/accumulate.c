/*
 * A leaf into which two threads accumulate at once, one of them in an undivided backward. What the divided one brings is summed over the ranks by itself, so
 * the undivided one waits while that lies in the leaf, and the divided one while the undivided one writes. Neither waits for another rank meanwhile.
 */
#include <pthread.h>

#include "reduce.h"

enum { BESIDE_MAX = 64 };

static pthread_mutex_t leaves_mutex = PTHREAD_MUTEX_INITIALIZER; /* device threads accumulate side by side, too */
static struct backward *holder;                                  /* the divided one, until its gradients are final */
static struct tensor *beside[BESIDE_MAX];                        /* what undivided ones accumulate into just now */

static struct tensor **find_beside(const struct tensor *leaf) {
    for (int i = 0; i < BESIDE_MAX; i++)
        if (beside[i] == leaf)
            return &beside[i];
    return NULL;
}

static bool is_held(struct tensor *leaf) {
    return holder && (holder->is_summed || reached_find(holder, leaf));
}

static void wait_a_moment(uint64_t *since_ns) {
    pthread_mutex_unlock(&leaves_mutex);
    shim_nap(since_ns, "a gradient");
    pthread_mutex_lock(&leaves_mutex);
}

int accumulate_lock(struct tensor *leaf) {
    uint64_t since_ns = 0;
    pthread_mutex_lock(&leaves_mutex);
    while (leaf && shim_has_threads() && find_beside(leaf))
        wait_a_moment(&since_ns);
    return 0;
}

void accumulate_unlock(int *unused) {
    pthread_mutex_unlock(&leaves_mutex);
}

void accumulate_begin_beside(struct tensor *leaf) {
    uint64_t since_ns = 0;
    struct tensor **place;
    pthread_mutex_lock(&leaves_mutex);
    while (is_held(leaf) || !(place = find_beside(NULL)))
        wait_a_moment(&since_ns);
    *place = leaf;
    pthread_mutex_unlock(&leaves_mutex);
}

void accumulate_end_beside(struct tensor *leaf) {
    pthread_mutex_lock(&leaves_mutex);
    *find_beside(leaf) = NULL;
    pthread_mutex_unlock(&leaves_mutex);
}

void accumulate_set_holder(struct backward *backward) {
    pthread_mutex_lock(&leaves_mutex);
    holder = backward;
    pthread_mutex_unlock(&leaves_mutex);
}

void accumulate_set_summed(struct backward *backward, bool is_summed) {
    pthread_mutex_lock(&leaves_mutex);
    backward->is_summed = is_summed;
    pthread_mutex_unlock(&leaves_mutex);
}
