/* Do all ranks start with the same parameters, and do they read the same batches? */
#ifndef ACCEL_SHIM_START_CHECK_H
#define ACCEL_SHIM_START_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "torch/torch.h"

/* Compares the leaves that are new to this thread (torch/leaf.h), of all ranks: nothing but one comparison when there are none. Ranks whose number, types
   or sizes of leaves differ have parted: the job stops by name. Where only values differ, rank 0's are copied into everybody's memory, and one warning says
   how many; leaves that threads have made must be equal. A collective: every rank calls it before a batch is divided. So models made later are checked too,
   and the self-check's private leaves do not use up the check. */
void start_check_new_leaves(void);
/* The same of a leaf that has got a gradient here and may come from another thread (a model that main() has taken back from it), after the fact: it must be
   equal. */
void start_check_used_leaf(size_t ordinal);

struct leaves_client {
    /* On all ranks, from now on; NULL: gone. A collective, communication lock held. */
    void (*are_equal)(struct tensor *const *leaves, size_t count);
};
extern const struct leaves_client leaves_client; /* defined by hooks/reduce */

/* A checksum of the tensor's local elements, sizes and type, for comm_note() where a batch enters. Tensors that are not on the host, or not
   plain: of sizes and type only. Any thread. */
uint64_t start_check_tensor(struct tensor *tensor);
/* The same for what meets a layer: of what was computed from parameters, which ranks may have rounded differently (AR-ROUNDING), type and sizes only. Without
   gradients nothing tells that from what was read: its values are then compared as numbers are. */
uint64_t start_check_batch(struct tensor *tensor);

/* The tensor of all ranks, which has one shape and layout, becomes rank 0's, beside its history: as if the kernel had written that. A collective, communication
   lock held. */
void start_check_take_rank_0s(const char *label, struct tensor *tensor);

#endif
