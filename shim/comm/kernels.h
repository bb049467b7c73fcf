/*
 * Arithmetic of the collectives: many sources into one result, written to two places.
 */
#ifndef ACCEL_SHIM_COMM_KERNELS_H
#define ACCEL_SHIM_COMM_KERNELS_H

#include "comm.h"

/* result = sources[0] op sources[1] op ... op sources[ranks - 1], element by element and in this order; written to a, and to b unless b is NULL.
   No alignment is needed. a or b may be one of the sources (same address), and may not overlap them otherwise. */
typedef void kernels_reduce_function(void *a, void *b, const void *const *sources, uint32_t ranks, size_t count);

/* The best one for this processor, chosen at the first call by cpuid (no IFUNC: those run before the program is relocated). */
kernels_reduce_function *kernels_reduce(enum comm_dtype dtype, enum comm_op op);

/* One table per instruction set. */
struct kernels {
    kernels_reduce_function *reduce[COMM_DTYPES][COMM_OPS];
};
extern const struct kernels kernels_base;
#if defined(__x86_64__)
extern const struct kernels kernels_avx2, kernels_avx512;
#endif

#endif
