/*
 * Kernels for processors with AVX2 (32-byte vectors).
 */
#include "kernels.h"

#if defined(__x86_64__)
#define KERNELS_TARGET __attribute__((target("avx2")))
#define KERNELS_BYTES 32
#define KERNELS_TABLE kernels_avx2
#include "kernels_body.h"
#endif
