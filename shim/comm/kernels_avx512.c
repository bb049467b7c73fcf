/*
 * Kernels for processors with AVX-512 (64-byte vectors).
 */
#include "kernels.h"

#if defined(__x86_64__)
#define KERNELS_TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))
#define KERNELS_BYTES 64
#define KERNELS_TABLE kernels_avx512
#include "kernels_body.h"
#endif
