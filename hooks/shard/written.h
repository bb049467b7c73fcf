/* What an operator is about to write, or has written, for those who have copies of it (window_written.c). */
#ifndef ACCEL_HOOKS_SHARD_WRITTEN_H
#define ACCEL_HOOKS_SHARD_WRITTEN_H

#include "shard.h"

struct written {
    void *storage, *tensor; /* which may be gone when it has been written */
    const void *counter;    /* of its versions; NULL: not known */
    enum torch_dtype dtype;
    struct extent extent, told;     /* as this rank has it; of divided rows, and beside other threads: as one process has it */
    const struct window_some *some; /* beside other threads: how the call chooses those of them that it writes; NULL: it writes all */
    struct value dim, chooses;      /* owned */
    struct value before; /* owned: what a copy held that is written through a view, where the call does not tell which elements */
};

/* What an operator writes: all of its argument; some elements of the first one; no values (h.t_(), h.detach_()). */
enum written_values { WRITES_ALL, WRITES_SOME, WRITES_NO_VALUES };
enum written_values window_writes(const struct operator *op);

struct written window_region(struct tensor *tensor);
struct written window_region_of_call(const struct shard_call *call, const struct argument *argument);
/* Before the call and after it: where what it writes cannot be told from its arguments, it is what has changed. */
void window_keep_before(const struct shard_call *call, const struct argument *argument, struct written *written);
void window_find_changes(struct written *written);
void window_end_call(struct written *written); /* releases that of a call */

void window_after_write(const struct written *written);
void read_after_write(const struct written *written);

#endif
