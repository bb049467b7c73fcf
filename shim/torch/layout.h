/* The whole's layout (layout.c): sizes and strides of a marked tensor's whole, its own when it is no shard. Functions return the number of dimensions. */
#ifndef ACCEL_SHIM_TORCH_LAYOUT_H
#define ACCEL_SHIM_TORCH_LAYOUT_H

#include "record.h"

/* Without gaps, in the order of the local strides. */
int layout_dense(struct tensor *tensor, const struct record *record, int64_t *sizes, int64_t *strides);
/* What one process has, dense where it is not known; and the offset of its first element. */
int layout_told(struct tensor *tensor, const struct record *record, int64_t *sizes, int64_t *strides);
int64_t layout_told_offset(struct tensor *tensor, const struct record *record);
struct layout_block {
    int64_t row, own, whole; /* elements: of a row, of this rank's rows, of all rows */
};
/* What the memory of a shard consists of, from its beginning to its end; false: its rows do not lie so. */
bool layout_block(struct tensor *tensor, const struct record *record, struct layout_block *block);
/* A view of one element along each dimension that has the stride 0 here; the value itself, which is taken, where none has. Strides: as many as it has. */
struct value layout_unexpanded(struct value tensor, const int64_t *strides);
/* to = from, of the same sizes: also where `to` is expanded, which copy_ refuses; what it has in one place is the same in `from`. Borrowed. */
void layout_copy(struct value to, struct value from);
/* A view of what lies in the tensor's memory, read as these of the bits of tensor_lazy_bits() say: without those that it has, with those that it has not.
   Without a record. Borrowed; owned. */
struct value layout_read_as(struct tensor *tensor, uint64_t bits);
/* Of the strides of dimensions that have more than one element: the ranks' are to be the same where memory is exchanged as it lies. */
uint64_t layout_hash(struct tensor *tensor);

#endif
