/* What a thread has learned about where its batches are cut (learned.c). From global facts, so that it is the same on all ranks. */
#ifndef ACCEL_HOOKS_SHARD_LEARNED_H
#define ACCEL_HOOKS_SHARD_LEARNED_H

#include "shard.h"

struct habit {
    int dim;     /* 0 or 1: where a layer cuts sequences */
    int changes; /* how often that has changed */
};

/* Of a layer, by its name (entry_layer): of one that it has not met, what was learned last. */
struct habit *learned_habit(uint64_t layer);
int *learned_usual_dim(void);      /* what was learned last */
int64_t *learned_last_batch(void); /* rows of the last batch that it has cut */
uint64_t learned_whose(void);      /* the word of the thread that knows it */
bool learned_is_whole(void);       /* it computes again what was computed where nothing was divided */

/* For the dispatch client. What is known now, malloc's, of so many bytes without pointers; and the time in which that counts, and is learned anew from, which
   is forgotten at its end. */
struct learned_known *learned_keep(size_t *bytes);
struct learned_again *learned_begin_again(const struct learned_known *known);
void learned_end_again(struct learned_again **again);

#endif
