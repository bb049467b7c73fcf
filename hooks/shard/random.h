/* Draws for all rows, for rules that need them beside the operators of random.c. */
#ifndef ACCEL_HOOKS_SHARD_RANDOM_H
#define ACCEL_HOOKS_SHARD_RANDOM_H

#include "shard.h"

/* An uninitialised tensor of the whole batch with the memory order and the holes that one process's tensor would have. Its layout is noted
   for the comparison of the ranks. Opaque; owned. */
struct tensor *random_whole(struct tensor *tensor, const struct record *record);

/* This rank's rows of a mask drawn for all rows of a tensor like the given one: 1 with the probability keep, else 0. Opaque; owned. */
struct tensor *random_keep_mask(struct tensor *tensor, const struct record *record, double keep, enum torch_dtype dtype);

#endif
