/* What stands in for divided memory where the program looks at it (read.c, storage.c, children.c). */
#ifndef ACCEL_HOOKS_SHARD_READ_H
#define ACCEL_HOOKS_SHARD_READ_H

#include "written.h"

struct copy; /* copies.h */
enum copy_extent {
    COPY_OF_TENSOR,
    COPY_OF_STORAGE, /* all blocks of rows that it consists of (storage.c) */
    COPY_OF_MEMORY,  /* and pointers to parts of it lead there, too */
};
typedef bool copy_fits(const struct copy *copy, struct tensor *tensor, const struct record *record);

/* The whole tensor whose memory stands in for a divided one's; NULL: its own does. Borrowed. A collective the first time. */
struct tensor *read_stand_in(struct tensor *tensor);
/* The same for a program that takes the tensor's storage; NULL: what is in it is whole. Stops where it would be ambiguous. */
struct tensor *storage_stand_in(struct tensor *tensor);
/* The same for a pointer to its first element, which lies at *offset of it: pointers to a storage, however it is looked at (h, h.t(), h[:, 1:]), are
   pointers to one memory; beside other threads only the part is put together. */
struct tensor *memory_stand_in(struct tensor *tensor, int64_t *offset);
/* The same of a tensor that may be all of a storage, for those that share it. */
struct tensor *read_stand_in_as(struct tensor *tensor, enum copy_extent extent);
/* The copy that there is of the tensor's memory; NULL: none. Borrowed. In a forked child, too. */
struct tensor *read_copy_at_hand(struct tensor *tensor, const struct record *record);
/* In a forked child: its part of the copy that there is of its storage. None: there is none. Owned. */
struct value read_part_at_hand(struct tensor *tensor, const struct record *record);
/* A part of what stands in for the tensor's storage, from this element of its type on, laid out as the tensor is told to be. Owned. */
struct value storage_part(struct tensor *whole, int64_t offset, struct tensor *tensor, const struct record *record);
/* Is it the program that looks at a tensor that may be divided? */
bool read_is_by_program(struct tensor *tensor);
/* In a forked child, which has no other rows than its parent's, and those that it was shown: the tensor becomes its whole, or the job stops. */
void children_become(struct tensor *tensor, const struct record *record);
/* What there is already of its storage. */
struct tensor *read_stand_in_at_hand(struct tensor *tensor, const struct record *record, copy_fits *fits);
/* Around what makes a copy (of the whole storage, or of the tensor as well) of a divided tensor where there is none: the thread's turn among those of the
   program, as long as nobody else has made it. */
bool read_turn(struct tensor *tensor, const struct record *record, bool of_storage);
/* A thread computes with divided tensors, or looks at one; has another one done so? On other ranks it may have been later. */
void read_meet_thread(void);
bool read_is_beside_others(void);

#endif
