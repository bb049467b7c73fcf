/* Gathering (gather.c) and the history of what was gathered (gather_history.c); what the rest calls is in shard.h. */
#ifndef ACCEL_HOOKS_SHARD_GATHER_H
#define ACCEL_HOOKS_SHARD_GATHER_H

#include "shard.h"

/* Without history; contiguous or dense tensors of any reducible type. */
void gather_sum_in_place(const char *label, struct tensor *tensor, struct origin origin);
/* The gradient of a tensor is summed over the ranks before it flows on. */
void gather_add_sum_hook(struct tensor *tensor, const char *label, struct origin origin);
/* The same of a whole whose elements share memory; own: what its history leads to. */
void gather_add_repeated_hooks(struct tensor *whole, struct tensor *own, const char *label, const struct record *record);

#endif
