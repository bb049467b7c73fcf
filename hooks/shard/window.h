/* Views of gathered rows, between window.c and its neighbours; what the rest calls is in shard.h. */
#ifndef ACCEL_HOOKS_SHARD_WINDOW_H
#define ACCEL_HOOKS_SHARD_WINDOW_H

#include "list.h"

#include "shard.h"

/* How often windows have got other sources, or these other memory (x.data = y, x.set_(y)). */
unsigned window_changes(void);
/* window_source.c: it is one of several views that one operator has made. */
bool window_is_of_many(struct tensor *source);
/* The whole gets the rows of the source as they are now. No collective. */
void window_take_rows(struct tensor *source, const struct record *record, struct tensor *whole);

/* Expanded, with a history: a view (gather_shard). */
bool window_is_expanded(struct tensor *whole);
/* Elements at the same places of a memory each. */
bool window_are_one(struct tensor *one, struct tensor *other);
/* Is it another tensor of the same memory as the one whose rows were gathered, without a history of its own? Each `h.detach()` or `h.data` is a new one. */
bool window_is_twin(struct tensor *source, const struct record *record, struct tensor *other);

#endif
