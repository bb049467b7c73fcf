/*
 * The choice of kernels, and those for any processor.
 *
 * Rules
 *  - One text (kernels_body.h), compiled once per instruction set; all give the same bits, so hosts of different age may work together.
 *  - float16 and bfloat16 are widened to float32, reduced there, and rounded once, to nearest even.
 *  - NaN wins in minimum and maximum, as in libtorch.
 */
#include "kernels.h"

#define KERNELS_TARGET
#define KERNELS_BYTES 16
#define KERNELS_TABLE kernels_base
#include "kernels_body.h"

kernels_reduce_function *kernels_reduce(enum comm_dtype dtype, enum comm_op op) {
    const struct kernels *kernels = &kernels_base;
#if defined(__x86_64__)
    __builtin_cpu_init(); /* a preloaded library may be called before its own constructors */
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        kernels = &kernels_avx512;
    } else if (__builtin_cpu_supports("avx2")) {
        kernels = &kernels_avx2;
    }
#endif
    return kernels->reduce[dtype][op];
}

size_t comm_dtype_bytes(enum comm_dtype dtype) {
    static const unsigned char bytes[COMM_DTYPES] = {
        [COMM_FLOAT32] = 4, [COMM_FLOAT64] = 8, [COMM_FLOAT16] = 2, [COMM_BFLOAT16] = 2, [COMM_INT64] = 8,
        [COMM_INT32] = 4,   [COMM_INT16] = 2,   [COMM_INT8] = 1,    [COMM_UINT8] = 1,    [COMM_BOOL] = 1,
    };
    return bytes[dtype];
}
