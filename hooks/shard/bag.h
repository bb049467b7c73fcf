/* embedding_bag whose indices are whole: what entry.c cuts into rows (bag.c). */
#ifndef ACCEL_HOOKS_SHARD_BAG_H
#define ACCEL_HOOKS_SHARD_BAG_H

#include "shard.h"

/* How many bags it has, if it can be divided; 0: it cannot. */
int64_t bag_count(struct shard_call *call);
/* It can: the arguments become those of this rank's bags. record: of the bags. */
void bag_enter(struct shard_call *call, const struct record *record);

#endif
