/* Do all ranks start with the same parameters, and do they read the same batches? */
#ifndef ACCEL_SHIM_START_CHECK_H
#define ACCEL_SHIM_START_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "torch/torch.h"

/* Compares the leaves that the program has made since the last call, of all ranks: nothing but one comparison when there are none. Ranks whose number, types
   or sizes of leaves differ have parted: the job stops by name. Where only values differ, rank 0's are copied into everybody's memory, and one warning says
   how many. A collective: every rank calls it before a batch is divided; with several threads, any of them. So models made later are checked too, and the
   self-check's private leaves do not use up the check. */
void start_check_new_leaves(void);

/* A checksum of the tensor's local elements, sizes and type, for comm_note() where a batch enters. Tensors that are not on the host, or not
   plain: of sizes and type only. Any thread. */
uint64_t start_check_tensor(struct tensor *tensor);

#endif
