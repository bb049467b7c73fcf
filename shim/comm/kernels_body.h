/*
 * The kernels themselves; included once per instruction set with KERNELS_TARGET (a target attribute), KERNELS_BYTES (of its registers) and
 * KERNELS_TABLE (the table's name). Written with the compilers' vector extensions. A vector is one register: of wider ones gcc 12 keeps the parts on the
 * stack (150 instructions for 256 bytes, where 30 do).
 *
 * Element types are unaligned and may alias: gradients come in spans of any size, and we know nothing of the types they were stored with.
 */
#define KERNELS_ANY __attribute__((aligned(1), may_alias))
typedef float any_f32 KERNELS_ANY;
typedef double any_f64 KERNELS_ANY;
typedef uint64_t any_u64 KERNELS_ANY; /* sums of integers are taken unsigned: they wrap, as libtorch's do, without undefined behaviour */
typedef int64_t any_i64 KERNELS_ANY;
typedef uint32_t any_u32 KERNELS_ANY;
typedef int32_t any_i32 KERNELS_ANY;
typedef uint16_t any_u16 KERNELS_ANY;
typedef int16_t any_i16 KERNELS_ANY;
typedef uint8_t any_u8 KERNELS_ANY;
typedef int8_t any_i8 KERNELS_ANY;

#define KERNELS_VECTOR(type, name) typedef type name __attribute__((vector_size(KERNELS_BYTES), aligned(1), may_alias))
KERNELS_VECTOR(float, vec_f32);
KERNELS_VECTOR(double, vec_f64);
KERNELS_VECTOR(uint64_t, vec_u64);
KERNELS_VECTOR(uint32_t, vec_u32);
KERNELS_VECTOR(uint16_t, vec_u16);
KERNELS_VECTOR(uint8_t, vec_u8);
typedef uint16_t half_u16 __attribute__((vector_size(KERNELS_BYTES / 2), aligned(1), may_alias)); /* as many lanes as a vec_u32 */

/* Four vectors at a time, so that the loop over the ranks is paid once for four registers; then single ones, of which small parameters mostly are. Own is read
   before anything is stored: a may be a source. */
#define KERNELS_COMBINE(suffix, scalar, vector, operator)                                                                                  \
    KERNELS_TARGET static void combine_##suffix(void *a, void *b, const void *const *sources, uint32_t ranks, size_t count) {              \
        enum { LANES = sizeof(vector) / sizeof(scalar) };                                                                                  \
        size_t i = 0;                                                                                                                      \
        for (; i + 4 * LANES <= count; i += 4 * LANES) {                                                                                   \
            const vector *from = (const vector *)((const scalar *)sources[0] + i);                                                         \
            vector v0 = from[0], v1 = from[1], v2 = from[2], v3 = from[3];                                                                 \
            for (uint32_t rank = 1; rank < ranks; rank++) {                                                                                \
                from = (const vector *)((const scalar *)sources[rank] + i);                                                                \
                v0 = v0 operator from[0];                                                                                                  \
                v1 = v1 operator from[1];                                                                                                  \
                v2 = v2 operator from[2];                                                                                                  \
                v3 = v3 operator from[3];                                                                                                  \
            }                                                                                                                              \
            vector *to = (vector *)((scalar *)a + i);                                                                                      \
            to[0] = v0, to[1] = v1, to[2] = v2, to[3] = v3;                                                                                \
            if (b) {                                                                                                                       \
                to = (vector *)((scalar *)b + i);                                                                                          \
                to[0] = v0, to[1] = v1, to[2] = v2, to[3] = v3;                                                                            \
            }                                                                                                                              \
        }                                                                                                                                  \
        for (; i + LANES <= count; i += LANES) {                                                                                           \
            vector v = *(const vector *)((const scalar *)sources[0] + i);                                                                  \
            for (uint32_t rank = 1; rank < ranks; rank++) {                                                                                \
                v = v operator *(const vector *)((const scalar *)sources[rank] + i);                                                        \
            }                                                                                                                              \
            *(vector *)((scalar *)a + i) = v;                                                                                              \
            if (b) {                                                                                                                       \
                *(vector *)((scalar *)b + i) = v;                                                                                          \
            }                                                                                                                              \
        }                                                                                                                                  \
        for (; i < count; i++) {                                                                                                           \
            scalar value = ((const scalar *)sources[0])[i];                                                                                \
            for (uint32_t rank = 1; rank < ranks; rank++) {                                                                                \
                value = (scalar)(value operator((const scalar *)sources[rank])[i]);                                                        \
            }                                                                                                                              \
            ((scalar *)a)[i] = value;                                                                                                      \
            if (b) {                                                                                                                       \
                ((scalar *)b)[i] = value;                                                                                                  \
            }                                                                                                                              \
        }                                                                                                                                  \
    }

KERNELS_COMBINE(sum_f32, any_f32, vec_f32, +)
KERNELS_COMBINE(sum_f64, any_f64, vec_f64, +)
KERNELS_COMBINE(sum_u64, any_u64, vec_u64, +)
KERNELS_COMBINE(sum_u32, any_u32, vec_u32, +)
KERNELS_COMBINE(sum_u16, any_u16, vec_u16, +)
KERNELS_COMBINE(sum_u8, any_u8, vec_u8, +)
KERNELS_COMBINE(or_u8, any_u8, vec_u8, |)
KERNELS_COMBINE(and_u8, any_u8, vec_u8, &)

/* Minimum and maximum are rare and small (flags, steps, norms): plain loops. value != value: a NaN met once stays. */
#define KERNELS_SELECT(suffix, scalar, operator)                                                                                           \
    KERNELS_TARGET static void select_##suffix(void *a, void *b, const void *const *sources, uint32_t ranks, size_t count) {               \
        for (size_t i = 0; i < count; i++) {                                                                                               \
            scalar value = ((const scalar *)sources[0])[i];                                                                                \
            for (uint32_t rank = 1; rank < ranks; rank++) {                                                                                \
                scalar other = ((const scalar *)sources[rank])[i];                                                                         \
                value = value operator other || value != value ? value : other;                                                            \
            }                                                                                                                              \
            ((scalar *)a)[i] = value;                                                                                                      \
            if (b) {                                                                                                                       \
                ((scalar *)b)[i] = value;                                                                                                  \
            }                                                                                                                              \
        }                                                                                                                                  \
    }

KERNELS_SELECT(min_f32, any_f32, <)
KERNELS_SELECT(max_f32, any_f32, >)
KERNELS_SELECT(min_f64, any_f64, <)
KERNELS_SELECT(max_f64, any_f64, >)
KERNELS_SELECT(min_i64, any_i64, <)
KERNELS_SELECT(max_i64, any_i64, >)
KERNELS_SELECT(min_i32, any_i32, <)
KERNELS_SELECT(max_i32, any_i32, >)
KERNELS_SELECT(min_i16, any_i16, <)
KERNELS_SELECT(max_i16, any_i16, >)
KERNELS_SELECT(min_i8, any_i8, <)
KERNELS_SELECT(max_i8, any_i8, >)
KERNELS_SELECT(min_u8, any_u8, <)
KERNELS_SELECT(max_u8, any_u8, >)

enum {
    KERNELS_BLOCK = 256,
    KERNELS_WORDS = KERNELS_BYTES / 4
}; /* elements widened at a time: three blocks of float32 stay in the first cache */

KERNELS_TARGET static void widen_bf16(float *to, const void *from, size_t count) {
    size_t i = 0;
    for (; i + KERNELS_WORDS <= count; i += KERNELS_WORDS) {
        vec_u32 wide = __builtin_convertvector(*(const half_u16 *)((const any_u16 *)from + i), vec_u32);
        *(vec_u32 *)(to + i) = wide << 16;
    }
    for (; i < count; i++) {
        *(any_u32 *)(to + i) = (uint32_t)((const any_u16 *)from)[i] << 16;
    }
}

/* To nearest even; a NaN stays one (its payload's lower half is lost, and may have been all there was of it: hence the quiet bit). */
KERNELS_TARGET static void narrow_bf16(void *to, const float *from, size_t count) {
    size_t i = 0;
    for (; i + KERNELS_WORDS <= count; i += KERNELS_WORDS) {
        vec_u32 bits = *(const vec_u32 *)(from + i);
        vec_u32 nan = (vec_u32)((bits & 0x7fffffffu) > 0x7f800000u);
        vec_u32 rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
        vec_u32 kept = (nan & (bits >> 16 | 0x40u)) | (~nan & rounded);
        *(half_u16 *)((any_u16 *)to + i) = __builtin_convertvector(kept, half_u16);
    }
    for (; i < count; i++) {
        uint32_t bits = *(const any_u32 *)(from + i);
        int nan = (bits & 0x7fffffffu) > 0x7f800000u;
        ((any_u16 *)to)[i] = (uint16_t)(nan ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    }
}

/* float16 by integers: the exponent is moved by 112. A subnormal's bits are put where the last of 0.5 are, and 0.5 is taken away: no float is subnormal on the
   way, which a thread that flushes those (torch.set_flush_denormal, -ffast-math) would take for zero. */
KERNELS_TARGET static void widen_f16(float *to, const void *from, size_t count) {
    const float half = 0.5f;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = ((const any_u16 *)from)[i];
        uint32_t magnitude = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16, placed = 0x3f000000u | magnitude >> 13;
        float value = *(const any_f32 *)&placed - half;
        uint32_t special = 0x7f800000u | magnitude | (magnitude & 0x7fffffu ? 0x400000u : 0);
        uint32_t normal = magnitude + 0x38000000u;
        uint32_t finite = magnitude < 0x00800000u ? *(const any_u32 *)&value : normal;
        *(any_u32 *)(to + i) = sign | (magnitude >= 0x0f800000u ? special : finite);
    }
}

KERNELS_TARGET static uint16_t round_f16(uint32_t bits) {
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    }
    if (magnitude >= 0x477ff000u) { /* 65520: the half-way point above the largest number rounds to infinity */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { /* subnormal: adding 0.5 puts the half's last bit in the float's last bit and lets the processor round */
        const float half = 0.5f;
        float value = *(const any_f32 *)&magnitude + half;
        return (uint16_t)(sign | (*(const any_u32 *)&value - 0x3f000000u));
    }
    return (uint16_t)(sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
}

KERNELS_TARGET static void narrow_f16(void *to, const float *from, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ((any_u16 *)to)[i] = round_f16(*(const any_u32 *)(from + i));
    }
}

/* Two-byte floats: widened, reduced in rank order by the float32 kernel, rounded once. */
#define KERNELS_WIDENED(suffix, format, float_kernel)                                                                                      \
    KERNELS_TARGET static void widened_##suffix(void *a, void *b, const void *const *sources, uint32_t ranks, size_t count) {              \
        float sum[KERNELS_BLOCK] __attribute__((aligned(64))), next[KERNELS_BLOCK] __attribute__((aligned(64)));                           \
        const void *const pair[2] = {sum, next};                                                                                           \
        for (size_t start = 0; start < count; start += KERNELS_BLOCK) {                                                                    \
            size_t length = count - start < KERNELS_BLOCK ? count - start : KERNELS_BLOCK;                                                 \
            widen_##format(sum, (const any_u16 *)sources[0] + start, length);                                                              \
            for (uint32_t rank = 1; rank < ranks; rank++) {                                                                                \
                widen_##format(next, (const any_u16 *)sources[rank] + start, length);                                                      \
                float_kernel(sum, NULL, pair, 2, length);                                                                                  \
            }                                                                                                                              \
            narrow_##format((any_u16 *)a + start, sum, length);                                                                            \
            if (b) {                                                                                                                       \
                narrow_##format((any_u16 *)b + start, sum, length);                                                                        \
            }                                                                                                                              \
        }                                                                                                                                  \
    }

KERNELS_WIDENED(sum_f16, f16, combine_sum_f32)
KERNELS_WIDENED(min_f16, f16, select_min_f32)
KERNELS_WIDENED(max_f16, f16, select_max_f32)
KERNELS_WIDENED(sum_bf16, bf16, combine_sum_f32)
KERNELS_WIDENED(min_bf16, bf16, select_min_f32)
KERNELS_WIDENED(max_bf16, bf16, select_max_f32)

const struct kernels KERNELS_TABLE = {{
    [COMM_FLOAT32] = {combine_sum_f32, select_min_f32, select_max_f32},
    [COMM_FLOAT64] = {combine_sum_f64, select_min_f64, select_max_f64},
    [COMM_FLOAT16] = {widened_sum_f16, widened_min_f16, widened_max_f16},
    [COMM_BFLOAT16] = {widened_sum_bf16, widened_min_bf16, widened_max_bf16},
    [COMM_INT64] = {combine_sum_u64, select_min_i64, select_max_i64},
    [COMM_INT32] = {combine_sum_u32, select_min_i32, select_max_i32},
    [COMM_INT16] = {combine_sum_u16, select_min_i16, select_max_i16},
    [COMM_INT8] = {combine_sum_u8, select_min_i8, select_max_i8},
    [COMM_UINT8] = {combine_sum_u8, select_min_u8, select_max_u8},
    [COMM_BOOL] = {combine_or_u8, combine_and_u8, combine_or_u8},
}};
