/*
 * What a thread has learned about where its batches are cut (entry.c), and what it knew once: what a backward computes again (a checkpoint without re-entry)
 * stands in the graph for what was computed first, so it is cut as that was, whatever has been learned since, in whichever thread it is computed again; or not
 * at all, where a mode or a transform that was open then (forward.c) is not any more.
 */
#include <pthread.h>
#include <stdlib.h>

#include "learned.h"

struct layer {
    struct habit habit;
    uint64_t name;
    struct layer *older;
};

struct learned {
    int64_t last_batch;
    int usual_dim;
    struct pairs layers; /* name → struct layer, owned */
    struct layer *youngest;
    size_t count;
    struct learned_again *again; /* counts instead: the thread computes again what was computed when this was known */
};

struct learned_known {
    uint64_t whose; /* the thread's word */
    int64_t last_batch;
    int64_t usual_dim;
    bool is_whole; /* nothing was divided, whatever had been learned (forward.c) */
    size_t count;
    struct known_layer {
        uint64_t name;
        struct habit habit;
    } layers[];
};

/* Most of what is asked for again lies ready, so that nothing is cut: it is filled when it is asked. */
struct learned_again {
    const struct learned_known *known; /* borrowed */
    bool is_filled;
    struct learned learned;
    struct learned_again *outer;
};

static void forget(void *given) {
    struct learned *own = given;
    for (struct layer *layer = own->youngest, *older; layer; layer = older) {
        older = layer->older;
        free(layer);
    }
    pairs_free(&own->layers);
}

static struct learned main_learned;
static const struct threads_kept all_learned = {&main_learned, sizeof main_learned, forget};

static pthread_mutex_t layers_mutex = PTHREAD_MUTEX_INITIALIZER; /* threads of a parallel region have the main thread's */

static void layers_unlock(int *unused) {
    pthread_mutex_unlock(&layers_mutex);
}
#define LAYERS_SCOPE __attribute__((cleanup(layers_unlock), unused)) int layers_scope_ = pthread_mutex_lock(&layers_mutex)

__attribute__((constructor)) static void learned_start(void) {
    threads_renew_in_child(&layers_mutex);
}

/* LAYERS_SCOPE, unless nobody else has it. */
static struct habit *add(struct learned *own, uint64_t name, struct habit habit) {
    struct layer *layer = malloc(sizeof *layer);
    *layer = (struct layer){habit, name, own->youngest};
    own->youngest = layer;
    own->count++;
    pairs_put(&own->layers, (void *)(uintptr_t)name, layer);
    return &layer->habit;
}

static struct learned *fill(struct learned_again *again) {
    const struct learned_known *known = again->known;
    if (again->is_filled)
        return &again->learned;
    again->is_filled = true;
    again->learned = (struct learned){.last_batch = known->last_batch, .usual_dim = (int)known->usual_dim};
    for (size_t i = 0; i < known->count; i++)
        add(&again->learned, known->layers[i].name, known->layers[i].habit);
    return &again->learned;
}

static struct learned *learned(void) {
    struct learned *own = threads_own_kept(&all_learned);
    return own->again ? fill(own->again) : own;
}

int64_t *learned_last_batch(void) {
    return &learned()->last_batch;
}

int *learned_usual_dim(void) {
    return &learned()->usual_dim;
}

uint64_t learned_whose(void) {
    struct learned *own = threads_own_kept(&all_learned);
    return own->again ? own->again->known->whose : threads_own();
}

bool learned_is_whole(void) {
    const struct learned *own = threads_own_kept(&all_learned);
    return own->again && own->again->known->is_whole;
}

struct habit *learned_habit(uint64_t name) {
    struct learned *own = learned();
    struct layer *layer = pairs_get(&own->layers, (void *)(uintptr_t)name);
    if (layer)
        return &layer->habit;
    LAYERS_SCOPE;
    layer = pairs_get(&own->layers, (void *)(uintptr_t)name);
    return layer ? &layer->habit : add(own, name, (struct habit){.dim = own->usual_dim});
}

struct learned_known *learned_keep(size_t *bytes) {
    const struct learned *own = learned();
    LAYERS_SCOPE;
    *bytes = sizeof(struct learned_known) + own->count * sizeof(struct known_layer);
    struct learned_known *known = calloc(1, *bytes);
    known->whose = learned_whose();
    known->last_batch = own->last_batch;
    known->usual_dim = own->usual_dim;
    known->is_whole = transform_is_open_here();
    for (const struct layer *layer = own->youngest; layer; layer = layer->older)
        known->layers[known->count++] = (struct known_layer){layer->name, layer->habit};
    return known;
}

struct learned_again *learned_begin_again(const struct learned_known *known) {
    struct learned *own = threads_own_kept(&all_learned);
    struct learned_again *again = calloc(1, sizeof *again);
    again->known = known;
    again->outer = own->again;
    return own->again = again;
}

void learned_end_again(struct learned_again **again) {
    struct learned *own = threads_own_kept(&all_learned);
    own->again = (*again)->outer;
    forget(&(*again)->learned);
    free(*again);
}
