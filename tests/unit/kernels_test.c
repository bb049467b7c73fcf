// sources: shim/comm/kernels.c shim/comm/kernels_avx2.c shim/comm/kernels_avx512.c shim/comm/staging.c shim/comm/barrier.c shim/comm/segment.c shim/comm/network.c shim/comm/network_connect.c shim/comm/own.c
/*
 * The arithmetic of the collectives, for each instruction set this machine has: every type and operation against a plain loop.
 */
#include "unit.h"

#include "../../shim/comm/kernels.h"
#include "../../shim/comm/staging.h"

#include <math.h>

enum { SOURCES = 5, LONGEST = 1500 };

static uint64_t mixed(uint64_t rank, uint64_t index) {
    uint64_t value = (rank + 1) * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u;
    value ^= value >> 31;
    value *= 0xbf58476d1ce4e5b9u;
    return value ^ value >> 29;
}

/* Numbers of very different size, so that another order of summation gives other bits. */
static float float_value(uint32_t rank, size_t index) {
    uint64_t bits = mixed(rank, index);
    return ldexpf((float)(int32_t)(uint32_t)bits, (int)(bits >> 40 & 31) - 40);
}

static double half_to_double(uint16_t half, int bfloat) {
    int mantissa_bits = bfloat ? 7 : 10, bias = bfloat ? 127 : 15;
    int exponent = half >> mantissa_bits & (bfloat ? 255 : 31), mantissa = half & ((1 << mantissa_bits) - 1);
    double value;
    if (exponent == (bfloat ? 255 : 31)) {
        value = mantissa ? NAN : INFINITY;
    } else if (exponent) {
        value = ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
    } else {
        value = ldexp(mantissa, 1 - bias - mantissa_bits);
    }
    return half >> 15 ? -value : value;
}

/* The nearest of all 65536 halves, ties to even; slow and plain. Between two neighbours only, found by bisection over the positive ones. */
static uint16_t double_to_half(double value, int bfloat) {
    uint16_t sign = signbit(value) ? 0x8000 : 0, infinity = bfloat ? 0x7f80 : 0x7c00;
    value = fabs(value);
    if (isnan(value)) {
        return 0x7fff;
    }
    uint16_t low = 0, high = infinity;
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        *(half_to_double(middle, bfloat) <= value ? &low : &high) = middle;
    }
    double below = half_to_double(low, bfloat),
           above = high == infinity ? 2 * half_to_double((uint16_t)(low), bfloat) - half_to_double((uint16_t)(low - 1), bfloat)
                                    : half_to_double(high, bfloat);
    if (value == INFINITY || value - below > above - value || (value - below == above - value && (high & 1) == 0)) {
        low = high;
    }
    return (uint16_t)(sign | low);
}

union element {
    float f32;
    double f64;
    uint16_t half;
    int64_t i64;
    int32_t i32;
    int16_t i16;
    int8_t i8;
    uint8_t u8;
};

static union element element_value(enum comm_dtype dtype, uint32_t rank, size_t index) {
    union element element = {.i64 = 0};
    uint64_t bits = mixed(rank, index * 7 + dtype);
    if (dtype == COMM_FLOAT32) {
        element.f32 = index % 97 == 5 ? (index & 1 ? INFINITY : NAN) : float_value(rank, index);
    } else if (dtype == COMM_FLOAT64) {
        element.f64 = ldexp((double)(int64_t)bits, (int)(bits >> 8 & 63) - 60);
    } else if (dtype == COMM_FLOAT16 || dtype == COMM_BFLOAT16) {
        element.half = (uint16_t)bits;                            /* any pattern: infinities, NaNs and subnormals too */
        element.half &= dtype == COMM_BFLOAT16 ? 0xbfff : 0xffff; /* no overflow inside float32 */
    } else if (dtype == COMM_BOOL) {
        element.u8 = bits % 5 == 0;
    } else {
        element.i64 = (int64_t)bits;
    }
    return element;
}

#define COMBINE(field, type)                                                                                                               \
    (op == COMM_SUM                             ? (type)(a.field + b.field)                                                                \
     : a.field != a.field || b.field != b.field ? (type)(a.field + b.field)                                                                \
     : op == COMM_MIN                           ? (a.field < b.field ? a.field : b.field)                                                  \
                                                : (a.field > b.field ? a.field : b.field))

static union element combined(enum comm_dtype dtype, enum comm_op op, union element a, union element b) {
    union element result = {.i64 = 0};
    switch (dtype) {
    case COMM_FLOAT32:
        result.f32 = COMBINE(f32, float);
        break;
    case COMM_FLOAT64:
        result.f64 = COMBINE(f64, double);
        break;
    case COMM_INT64:
        result.i64 = op == COMM_SUM ? (int64_t)((uint64_t)a.i64 + (uint64_t)b.i64) : (a.i64 < b.i64) == (op == COMM_MIN) ? a.i64 : b.i64;
        break;
    case COMM_INT32:
        result.i32 = op == COMM_SUM ? (int32_t)((uint32_t)a.i32 + (uint32_t)b.i32) : (a.i32 < b.i32) == (op == COMM_MIN) ? a.i32 : b.i32;
        break;
    case COMM_INT16:
        result.i16 = COMBINE(i16, int16_t);
        break;
    case COMM_INT8:
        result.i8 = COMBINE(i8, int8_t);
        break;
    case COMM_UINT8:
        result.u8 = COMBINE(u8, uint8_t);
        break;
    case COMM_BOOL:
        result.u8 = op == COMM_MIN ? a.u8 & b.u8 : a.u8 | b.u8;
        break;
    default:
        abort();
    }
    return result;
}

static union element expected_element(enum comm_dtype dtype, enum comm_op op, uint32_t ranks, size_t index) {
    int half = dtype == COMM_FLOAT16 || dtype == COMM_BFLOAT16, bfloat = dtype == COMM_BFLOAT16;
    union element sum = element_value(dtype, 0, index);
    if (half) {
        sum.f32 = (float)half_to_double(sum.half, bfloat);
    }
    for (uint32_t rank = 1; rank < ranks; rank++) {
        union element next = element_value(dtype, rank, index);
        if (half) {
            next.f32 = (float)half_to_double(next.half, bfloat);
        }
        sum = combined(half ? COMM_FLOAT32 : dtype, op, sum, next);
    }
    if (half) {
        sum.half = double_to_half((double)sum.f32, bfloat);
    }
    return sum;
}

static int same_element(enum comm_dtype dtype, const union element *a, const union element *b) {
    if (dtype == COMM_FLOAT32 && isnan(a->f32)) {
        return isnan(b->f32);
    }
    if (dtype == COMM_FLOAT16 || dtype == COMM_BFLOAT16) {
        int bfloat = dtype == COMM_BFLOAT16;
        return a->half == b->half || (isnan(half_to_double(a->half, bfloat)) && isnan(half_to_double(b->half, bfloat)));
    }
    return !memcmp(a, b, comm_dtype_bytes(dtype));
}

/* One call: sources at odd offsets, the result in the middle source (as a rank's own memory is) and in a second place. */
static int kernel_is_right(kernels_reduce_function *kernel, enum comm_dtype dtype, enum comm_op op, uint32_t ranks, size_t count,
                           size_t shift) {
    size_t bytes = comm_dtype_bytes(dtype), right = 1;
    unsigned char *memory[SOURCES], *second = malloc(count * bytes + shift + 1);
    const void *sources[SOURCES];
    for (uint32_t rank = 0; rank < ranks; rank++) {
        memory[rank] = malloc(count * bytes + shift + 1);
        sources[rank] = memory[rank] + shift;
        for (size_t i = 0; i < count; i++) {
            union element value = element_value(dtype, rank, i);
            memcpy(memory[rank] + shift + i * bytes, &value, bytes);
        }
    }
    unsigned char *own = memory[ranks / 2] + shift;
    second[count * bytes + shift] = 0x5a;
    kernel(own, second + shift, sources, ranks, count);
    for (size_t i = 0; i < count && right; i++) {
        union element expected = expected_element(dtype, op, ranks, i), got = {.i64 = 0};
        memcpy(&got, own + i * bytes, bytes);
        right = same_element(dtype, &expected, &got) && !memcmp(own + i * bytes, second + shift + i * bytes, bytes);
        if (!right) {
            printf("    type %d operation %d, %u ranks, element %zu of %zu: %llx, expected %llx\n", (int)dtype, (int)op, ranks, i, count,
                   (unsigned long long)got.i64, (unsigned long long)expected.i64);
        }
    }
    right = right && second[count * bytes + shift] == 0x5a;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        free(memory[rank]);
    }
    free(second);
    return (int)right;
}

static void whole_table(const struct kernels *kernels) {
    static const size_t counts[] = {0, 1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, LONGEST};
    for (int dtype = 0; dtype < COMM_DTYPES; dtype++) {
        for (int op = 0; op < COMM_OPS; op++) {
            for (size_t index = 0; index < sizeof counts / sizeof counts[0]; index++) {
                uint32_t ranks = 1 + (uint32_t)(index + (size_t)dtype) % SOURCES;
                EXPECT(
                    kernel_is_right(kernels->reduce[dtype][op], (enum comm_dtype)dtype, (enum comm_op)op, ranks, counts[index], index % 9));
            }
        }
    }
}

TEST("every type and operation: rank order, halves rounded once to nearest even, NaN and infinity kept") {
    whole_table(&kernels_base);
}

#if defined(__x86_64__)
TEST("the same with AVX2, where the processor has it") {
    if (__builtin_cpu_supports("avx2")) {
        whole_table(&kernels_avx2);
    }
}

TEST("the same with AVX-512, where the processor has it") {
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        whole_table(&kernels_avx512);
    }
}
#endif

static void every_half(enum comm_dtype dtype) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t zero = 0x8000, half = (uint16_t)bits, got; /* x + -0 is x for every x */
        const void *sources[2] = {&half, &zero};
        kernels_reduce(dtype, COMM_SUM)(&got, NULL, sources, 2, 1);
        union element a = {.half = half}, b = {.half = got};
        EXPECT(same_element(dtype, &a, &b));
    }
}

TEST("all 65536 float16 and bfloat16 numbers survive widening and rounding") {
    every_half(COMM_FLOAT16);
    every_half(COMM_BFLOAT16);
}

#if defined(__x86_64__)
TEST("float16's subnormal numbers survive in a thread that flushes float32's to zero") {
    enum { DENORMALS_ARE_ZERO = 1 << 6, FLUSH_TO_ZERO = 1 << 15 };
    unsigned modes = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(modes | DENORMALS_ARE_ZERO | FLUSH_TO_ZERO);
    every_half(COMM_FLOAT16);
    __builtin_ia32_ldmxcsr(modes);
}
#endif

TEST("stores past the cache copy every byte and no other, from and to any address") {
    static unsigned char from[3000], to[3000];
    for (int chunk = 0; chunk < 3; chunk++) {
        EXPECT(!staging_streams());
        staging_end(staging_begin() - 1000000000u, 100000);
    }
    EXPECT(staging_streams() && staging_copy() != (staging_copy_function *)memcpy);
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (unsigned char)mixed(1, i);
    }
    for (size_t bytes = 0; bytes < 2800; bytes += 1 + bytes / 9) {
        for (size_t shift = 0; shift < 70; shift += 7) {
            memset(to, 0, sizeof to);
            staging_copy()(to + shift, from + 64 - shift % 64, bytes);
            EXPECT(!memcmp(to + shift, from + 64 - shift % 64, bytes) && !to[shift + bytes]);
            EXPECT(shift == 0 || !to[shift - 1]);
        }
    }
}

TEST("a single slow chunk, an interruption, changes nothing; and streaming ends with another try") {
    for (int chunk = 0; chunk < 20; chunk++) {
        staging_end(staging_begin() - 1000000000u, 100000);
        staging_end(staging_begin(), 1000000000u);
        EXPECT(!staging_streams());
    }
    for (int chunk = 0; chunk < 3; chunk++) {
        staging_end(staging_begin() - 1000000000u, 100000);
    }
    EXPECT(staging_streams());
    for (int chunk = 0; chunk < 10000 && staging_streams(); chunk++) {
        staging_end(staging_begin(), 1000000000u);
    }
    EXPECT(!staging_streams());
}
