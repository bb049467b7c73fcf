// sources: shim/comm/segment.c shim/comm/barrier.c shim/comm/agree.c shim/comm/stream.c shim/comm/staging.c shim/comm/kernels.c shim/comm/kernels_avx2.c shim/comm/kernels_avx512.c shim/comm/shared_memory.c
/*
 * Collectives between real processes: every test forks N ranks over one shared segment and looks at what each of them got.
 *
 * A rank that fails in a collective (options.fail) leaves its message in the segment's tail and ends with status FAILED; a rank that got
 * something wrong ends with status WRONG.
 */
#include "unit.h"

#include "../../shim/comm/comm.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

enum { FAILED = 3, WRONG = 4, RANKS_MAX = 8, REPORT_CHARS = 1024 };

struct report {
    char id[64], text[REPORT_CHARS];
};

/* Behind the segment: what the test's ranks tell their parent and each other. */
struct shared {
    struct report reports[RANKS_MAX];
    unsigned char digest[RANKS_MAX][64];
    _Atomic int gate;
};

static struct shared *shared;
static struct board *board;
static uint32_t self, world, cores = 2, timeout_ms = 20000;

__attribute__((noreturn)) static void fail(const char *id, const char *what) {
    snprintf(shared->reports[self].id, sizeof shared->reports[self].id, "%s", id);
    snprintf(shared->reports[self].text, sizeof shared->reports[self].text, "%s", what);
    _exit(FAILED);
}

#define RANK_EXPECT(condition)                                                                                                              \
    do {                                                                                                                                    \
        if (!(condition)) {                                                                                                                 \
            printf("    %s:%d: rank %u of %u: expected %s\n", __FILE__, __LINE__, self, world, #condition);                                \
            fflush(stdout);                                                                                                                 \
            _exit(WRONG);                                                                                                                   \
        }                                                                                                                                   \
    } while (0)

static size_t segment_bytes(uint32_t ranks) {
    return board_bytes() + board_comm_bytes(ranks);
}

static void make_segment(uint32_t ranks) {
    void *memory = mmap(NULL, segment_bytes(ranks) + sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    board = memory;
    board->magic = BOARD_MAGIC;
    board->world_size = ranks;
    shared = (struct shared *)((char *)memory + segment_bytes(ranks));
    world = ranks;
}

static void attach(uint32_t rank) {
    const char *problem = NULL;
    self = rank;
    struct comm_options options = {.rank = rank, .world_size = world, .cores = cores, .collective_timeout_ms = timeout_ms, .segment = board,
                                   .segment_bytes = segment_bytes(world), .fail = fail};
    RANK_EXPECT(comm_open(&options, &problem) == 0 && !problem);
}

static pid_t start_rank(uint32_t rank, void (*body)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(50);
        attach(rank);
        body();
        fflush(stdout);
        _exit(0);
    }
    return pid;
}

static int end_of(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs body on every rank; EXPECTs that each ends with status expected. */
static void run_ranks(uint32_t ranks, void (*body)(void), int expected) {
    pid_t pids[RANKS_MAX];
    make_segment(ranks);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        pids[rank] = start_rank(rank, body);
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        int ended = end_of(pids[rank]);
        if (ended != expected) {
            printf("    rank %u of %u ended with %d: %s %s\n", rank, ranks, ended, shared->reports[rank].id, shared->reports[rank].text);
        }
        EXPECT(ended == expected);
    }
    for (uint32_t rank = 1; rank < ranks && expected == 0; rank++) {
        EXPECT(!memcmp(shared->digest[rank], shared->digest[0], sizeof shared->digest[0]));
    }
    munmap(board, segment_bytes(ranks) + sizeof *shared);
}

static const uint32_t worlds[] = {1, 2, 3, 4, 7};
enum { WORLDS = sizeof worlds / sizeof worlds[0] };

static void run_worlds(void (*body)(void)) {
    for (int index = 0; index < WORLDS; index++) {
        run_ranks(worlds[index], body, 0);
    }
}

static int mentions(uint32_t rank, const char *words) {
    if (strstr(shared->reports[rank].text, words)) {
        return 1;
    }
    printf("    rank %u said \"%s\", without \"%s\"\n", rank, shared->reports[rank].text, words);
    return 0;
}

/* ---- values that every rank can compute for every other ---- */

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

static void digest_add(const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        unsigned char *cell = &shared->digest[self][i % 61];
        *cell = (unsigned char)(*cell * 31 + ((const unsigned char *)data)[i]);
    }
}

static void reduce_floats(size_t count, size_t shift) {
    char *memory = malloc(count * sizeof(float) + shift + 1);
    float *data = (float *)(void *)(memory + shift);
    for (size_t i = 0; i < count; i++) {
        float value = float_value(self, i);
        memcpy((char *)data + i * sizeof value, &value, sizeof value);
    }
    struct comm_span span = {data, count};
    comm_all_reduce("floats", &span, 1, COMM_FLOAT32, COMM_SUM);
    for (size_t i = 0; i < count; i++) {
        float sum = float_value(0, i), got;
        for (uint32_t rank = 1; rank < world; rank++) {
            sum += float_value(rank, i);
        }
        memcpy(&got, (char *)data + i * sizeof got, sizeof got);
        RANK_EXPECT(!memcmp(&sum, &got, sizeof sum));
    }
    digest_add(data, count * sizeof(float));
    free(memory);
}

static void all_sizes(void) {
    static const size_t counts[] = {0,     1,     2,     15,    16,    17,    63,    64,     65,     1000,   1023,   1024,   1025,
                                    2047,  4096,  16383, 16384, 16385, 65535, 65536, 65537,  131072, 131073, 200000, 262144, 300001};
    for (size_t index = 0; index < sizeof counts / sizeof counts[0]; index++) {
        reduce_floats(counts[index], 0);
    }
}

TEST("float32 sums of any size equal the plain sum in rank order, bit by bit, on all ranks") {
    run_worlds(all_sizes);
}

TEST("the same with more ranks than cores") {
    cores = 1;
    run_worlds(all_sizes);
}

static void shifted(void) {
    for (size_t shift = 0; shift < 8; shift++) {
        reduce_floats(70001, shift * 4);
    }
    reduce_floats(70001, 1); /* not even aligned to an element */
    reduce_floats(300, 3);
}

TEST("spans may begin anywhere") {
    run_worlds(shifted);
}

/* ---- many spans ---- */

enum { SPANS = 3000 };

static void reduce_spans(size_t scale) {
    static struct comm_span spans[SPANS];
    size_t first = 0;
    for (size_t index = 0; index < SPANS; index++) {
        spans[index].count = mixed(99, index) % scale;
        spans[index].data = spans[index].count ? malloc(spans[index].count * sizeof(float)) : NULL;
        for (size_t i = 0; i < spans[index].count; i++) {
            ((float *)spans[index].data)[i] = float_value(self, first + i);
        }
        first += spans[index].count;
    }
    comm_all_reduce("spans", spans, SPANS, COMM_FLOAT32, COMM_SUM);
    first = 0;
    for (size_t index = 0; index < SPANS; index++) {
        for (size_t i = 0; i < spans[index].count; i++) {
            float sum = float_value(0, first + i);
            for (uint32_t rank = 1; rank < world; rank++) {
                sum += float_value(rank, first + i);
            }
            RANK_EXPECT(!memcmp(&sum, &((float *)spans[index].data)[i], sizeof sum));
        }
        digest_add(spans[index].data, spans[index].count * sizeof(float));
        first += spans[index].count;
        free(spans[index].data);
    }
}

static void many_spans(void) {
    reduce_spans(2);
    reduce_spans(5);
    reduce_spans(300);
    comm_all_reduce("nothing", NULL, 0, COMM_FLOAT32, COMM_SUM);
}

TEST("thousands of small spans, empty ones among them, are one stream across all chunk borders") {
    run_worlds(many_spans);
}

static void cut_differently(void) {
    enum { COUNT = 150001 };
    float *whole = malloc(COUNT * sizeof *whole), *pieces = malloc(COUNT * sizeof *pieces);
    struct comm_span spans[COUNT / 1000 + 1];
    for (size_t i = 0; i < COUNT; i++) {
        whole[i] = pieces[i] = float_value(self, i);
    }
    for (size_t index = 0; index <= COUNT / 1000; index++) {
        spans[index] = (struct comm_span){pieces + index * 1000, index < COUNT / 1000 ? 1000 : COUNT % 1000};
    }
    comm_all_reduce("whole", &(struct comm_span){whole, COUNT}, 1, COMM_FLOAT32, COMM_SUM);
    comm_all_reduce("one first", &(struct comm_span){pieces, 1}, 1, COMM_FLOAT32, COMM_SUM);
    spans[0].data = pieces + 1;
    spans[0].count = 999;
    comm_all_reduce("the rest", spans, COUNT / 1000 + 1, COMM_FLOAT32, COMM_SUM);
    RANK_EXPECT(!memcmp(whole, pieces, COUNT * sizeof *whole));
    free(whole);
    free(pieces);
}

TEST("an element's sum does not depend on where it lies in a collective") {
    run_worlds(cut_differently);
}

/* ---- all types and operations ---- */

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
    double below = half_to_double(low, bfloat), above = high == infinity ? 2 * half_to_double((uint16_t)(low), bfloat) - half_to_double((uint16_t)(low - 1), bfloat)
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
        element.half = (uint16_t)bits; /* any pattern: infinities, NaNs and subnormals too */
        element.half &= dtype == COMM_BFLOAT16 ? 0xbfff : 0xffff; /* no overflow inside float32 */
    } else if (dtype == COMM_BOOL) {
        element.u8 = bits % 5 == 0;
    } else {
        element.i64 = (int64_t)bits;
    }
    return element;
}

#define COMBINE(field, type)                                                                                                                \
    (op == COMM_SUM ? (type)(a.field + b.field)                                                                                             \
     : a.field != a.field || b.field != b.field ? (type)(a.field + b.field)                                                                 \
     : op == COMM_MIN ? (a.field < b.field ? a.field : b.field) : (a.field > b.field ? a.field : b.field))

static union element combined(enum comm_dtype dtype, enum comm_op op, union element a, union element b) {
    union element result = {.i64 = 0};
    switch (dtype) {
    case COMM_FLOAT32: result.f32 = COMBINE(f32, float); break;
    case COMM_FLOAT64: result.f64 = COMBINE(f64, double); break;
    case COMM_INT64: result.i64 = op == COMM_SUM ? (int64_t)((uint64_t)a.i64 + (uint64_t)b.i64) : (a.i64 < b.i64) == (op == COMM_MIN) ? a.i64 : b.i64; break;
    case COMM_INT32: result.i32 = op == COMM_SUM ? (int32_t)((uint32_t)a.i32 + (uint32_t)b.i32) : (a.i32 < b.i32) == (op == COMM_MIN) ? a.i32 : b.i32; break;
    case COMM_INT16: result.i16 = COMBINE(i16, int16_t); break;
    case COMM_INT8: result.i8 = COMBINE(i8, int8_t); break;
    case COMM_UINT8: result.u8 = COMBINE(u8, uint8_t); break;
    case COMM_BOOL: result.u8 = op == COMM_MIN ? a.u8 & b.u8 : a.u8 | b.u8; break;
    default: abort();
    }
    return result;
}

static union element expected_element(enum comm_dtype dtype, enum comm_op op, size_t index) {
    int half = dtype == COMM_FLOAT16 || dtype == COMM_BFLOAT16, bfloat = dtype == COMM_BFLOAT16;
    union element sum = element_value(dtype, 0, index);
    if (half) {
        sum.f32 = (float)half_to_double(sum.half, bfloat);
    }
    for (uint32_t rank = 1; rank < world; rank++) {
        union element next = element_value(dtype, rank, index);
        if (half) {
            next.f32 = (float)half_to_double(next.half, bfloat);
        }
        sum = combined(half ? COMM_FLOAT32 : dtype, op, sum, next);
    }
    if (half && world > 1) {
        sum.half = double_to_half((double)sum.f32, bfloat);
    } else if (half) {
        sum = element_value(dtype, 0, index);
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

static void reduce_type(enum comm_dtype dtype, enum comm_op op, size_t count) {
    size_t element = comm_dtype_bytes(dtype);
    unsigned char *data = malloc(count * element);
    for (size_t i = 0; i < count; i++) {
        union element value = element_value(dtype, self, i);
        memcpy(data + i * element, &value, element);
    }
    comm_all_reduce("types", &(struct comm_span){data, count}, 1, dtype, op);
    for (size_t i = 0; i < count; i++) {
        union element expected = expected_element(dtype, op, i), got = {.i64 = 0};
        memcpy(&got, data + i * element, element);
        if (!same_element(dtype, &expected, &got)) {
            printf("    type %d operation %d element %zu: %llx, expected %llx\n", (int)dtype, (int)op, i, (unsigned long long)got.i64, (unsigned long long)expected.i64);
        }
        RANK_EXPECT(same_element(dtype, &expected, &got));
    }
    digest_add(data, count * element);
    free(data);
}

static void all_types(void) {
    for (int dtype = 0; dtype < COMM_DTYPES; dtype++) {
        for (int op = 0; op < COMM_OPS; op++) {
            reduce_type((enum comm_dtype)dtype, (enum comm_op)op, 333);
            reduce_type((enum comm_dtype)dtype, (enum comm_op)op, 9001);
        }
    }
}

TEST("every type and operation equals the plain reduction in rank order; halves are rounded once; NaN and infinity come through") {
    run_worlds(all_types);
}

/* ---- all-gather, broadcast, words ---- */

static void gather_parts(size_t blocks, const size_t *bytes) {
    size_t stride = 0, before = 0;
    for (uint32_t rank = 0; rank < world; rank++) {
        stride += bytes[rank];
        before += rank < self ? bytes[rank] : 0;
    }
    unsigned char *full = calloc(blocks * stride + 1, 1);
    for (size_t i = 0; i < blocks * bytes[self]; i++) {
        full[i / bytes[self] * stride + before + i % bytes[self]] = (unsigned char)mixed(self, i);
    }
    comm_all_gather("parts", full, blocks, bytes);
    size_t start = 0;
    for (uint32_t rank = 0; rank < world; start += bytes[rank++]) {
        for (size_t i = 0; i < blocks * bytes[rank]; i++) {
            RANK_EXPECT(full[i / bytes[rank] * stride + start + i % bytes[rank]] == (unsigned char)mixed(rank, i));
        }
    }
    RANK_EXPECT(full[blocks * stride] == 0);
    digest_add(full, blocks * stride);
    free(full);
}

static void gathers(void) {
    size_t even[RANKS_MAX], uneven[RANKS_MAX], one[RANKS_MAX] = {0}, none[RANKS_MAX] = {0}, large[RANKS_MAX];
    for (uint32_t rank = 0; rank < world; rank++) {
        even[rank] = 16;
        uneven[rank] = rank % 3 == 1 ? 0 : 5 + 7 * rank;
        large[rank] = rank % 2 ? 0 : 300000 + 1000 * rank;
    }
    one[world - 1] = 40;
    gather_parts(1, even);
    gather_parts(20000, even);
    gather_parts(7, uneven);
    gather_parts(70000, uneven);
    gather_parts(3, one);
    gather_parts(3, large);
    gather_parts(5, none);
    gather_parts(0, even);
}

TEST("all-gather of even, uneven, empty and large parts in many blocks") {
    run_worlds(gathers);
}

static void broadcasts(void) {
    static const size_t sizes[] = {0, 1, 100, 262144, 262145, 900001};
    for (uint32_t root = 0; root < world; root++) {
        for (size_t index = 0; index < sizeof sizes / sizeof sizes[0]; index++) {
            unsigned char *data = calloc(sizes[index] + 1, 1);
            for (size_t i = 0; i < sizes[index] && self == root; i++) {
                data[i] = (unsigned char)mixed(root, i);
            }
            comm_broadcast("from root", data, sizes[index], root);
            for (size_t i = 0; i < sizes[index]; i++) {
                RANK_EXPECT(data[i] == (unsigned char)mixed(root, i));
            }
            free(data);
        }
    }
}

TEST("broadcast from every root") {
    run_worlds(broadcasts);
}

static void mixture(void) {
    uint64_t words[RANKS_MAX];
    for (size_t round = 0; round < 300; round++) {
        comm_note("round", round);
        comm_all_gather_words("words", mixed(self, round), words);
        for (uint32_t rank = 0; rank < world; rank++) {
            RANK_EXPECT(words[rank] == mixed(rank, round));
        }
        reduce_floats(mixed(5, round) % 3000, 0);
        if (round % 10 == 0) {
            reduce_floats(60000 + mixed(6, round) % 90000, 0);
            size_t bytes[RANKS_MAX] = {round, 3, 0, round * 100, 1, 2, 3};
            gather_parts(20, bytes);
        }
        for (uint64_t notes = mixed(7, round) % 200; notes > 0; notes--) {
            comm_note("one of many", notes);
        }
        comm_barrier("end of round");
    }
    RANK_EXPECT(comm_statistics().collectives >= 900 || world == 1);
    RANK_EXPECT(board->ranks[self].waiting == 0);
}

TEST("all kinds in turn, hundreds of them, never see each other's staging memory") {
    run_worlds(mixture);
}

TEST("the same with more ranks than cores, in turn") {
    cores = 1;
    run_worlds(mixture);
}

/* ---- ranks that part ---- */

static void other_label(void) {
    comm_barrier("together");
    comm_barrier(self == 1 ? "loss" : "gradients");
}

static void other_count(void) {
    float data[20] = {0};
    comm_all_reduce("gradients", &(struct comm_span){data, self == world - 1 ? 12 : 11}, 1, COMM_FLOAT32, COMM_SUM);
}

static void other_kind(void) {
    float data = 0;
    if (self == 0) {
        comm_all_reduce("x", &(struct comm_span){&data, 1}, 1, COMM_FLOAT32, COMM_SUM);
    } else {
        comm_broadcast("x", &data, sizeof data, 0);
    }
}

static void other_note(void) {
    comm_barrier("start");
    comm_note("epoch", 3);
    comm_note("batch", self == 1 ? 0xbad : 0x900d);
    comm_note("learning rate", 5);
    comm_barrier("step");
}

static void missing_note(void) {
    comm_note("batch", 7);
    if (self == 1) {
        comm_note("labels", 8);
    }
    comm_barrier("step");
}

static void early_note(void) {
    for (uint64_t index = 0; index < 500; index++) {
        comm_note("parameter", index == 3 && self == 1);
    }
    comm_barrier("step");
}

static void expect_parted(uint32_t ranks, void (*body)(void), const char *first, const char *second) {
    pid_t pids[RANKS_MAX];
    make_segment(ranks);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        pids[rank] = start_rank(rank, body);
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        EXPECT(end_of(pids[rank]) == FAILED);
        EXPECT_TEXT(shared->reports[rank].id, "AR-RANKS-PARTED");
        EXPECT(mentions(rank, first));
        EXPECT(mentions(rank, second));
        EXPECT_TEXT(shared->reports[rank].text, shared->reports[0].text);
    }
}

TEST("ranks with different labels are named with both") {
    expect_parted(2, other_label, "rank 0 is in its collective 2, barrier \"gradients\"", "rank 1 is in its collective 2, barrier \"loss\"");
    expect_parted(4, other_label, "barrier \"gradients\"", "rank 1 is in its collective 2, barrier \"loss\"");
}

TEST("ranks that reduce different counts are named with both") {
    expect_parted(3, other_count, "rank 0 is in its collective 1, all-reduce \"gradients\" (sum of 44 bytes of float32)",
                  "rank 2 is in its collective 1, all-reduce \"gradients\" (sum of 48 bytes of float32)");
}

TEST("ranks in different kinds of collective are named with both") {
    expect_parted(2, other_kind, "all-reduce \"x\"", "broadcast \"x\" (4 bytes from rank 0)");
}

TEST("a rank with another batch is named, and only the batch is blamed") {
    expect_parted(2, other_note, "rank 1 has another batch than rank 0", "noticed in \"step\"");
    expect_parted(3, other_note, "rank 1 has another batch than rank 0", "0000000000000bad");
}

TEST("a fact that only one rank has noted is named") {
    expect_parted(2, missing_note, "rank 1 has \"labels\"", "rank 0 has not");
}

TEST("a difference before the facts that are kept is still found") {
    expect_parted(2, early_note, "ranks 0 and 1 differ", "noted before");
}

/* ---- ranks that do not come ---- */

static void two_collectives(void) {
    comm_barrier("first");
    atomic_store(&board->ranks[self].phase, BOARD_BACKWARD);
    atomic_store(&board->ranks[self].step, 17);
    if (self == 1) {
        _exit(0);
    }
    comm_barrier("second");
}

TEST("at the deadline the rank that did not come is named, with what it was doing") {
    timeout_ms = 150;
    for (cores = 1; cores <= 4; cores += 3) {
        pid_t pids[3];
        make_segment(3);
        for (uint32_t rank = 0; rank < 3; rank++) {
            pids[rank] = start_rank(rank, two_collectives);
        }
        EXPECT(end_of(pids[1]) == 0);
        for (uint32_t rank = 0; rank < 3; rank += 2) {
            EXPECT(end_of(pids[rank]) == FAILED);
            EXPECT_TEXT(shared->reports[rank].id, "AR-COLLECTIVE-TIMEOUT");
            EXPECT(mentions(rank, "rank 1 has not come (backward, step 17, last seen in \"first\")"));
            EXPECT(mentions(rank, "in \"second\" (collective 2)"));
            EXPECT(!strstr(shared->reports[rank].text, "rank 2 has not come"));
        }
    }
}

static void wait_for_ever(void) {
    if (self == 0) {
        comm_barrier("never");
    }
    for (;;) {
        pause();
    }
}

TEST("the launcher's abort ends a waiting rank, and is given as the reason") {
    make_segment(2);
    pid_t waiting = start_rank(0, wait_for_ever);
    while (!atomic_load(&board->ranks[0].waiting)) {
        sched_yield();
    }
    atomic_store(&board->abort, BOARD_ABORT_LAUNCHER);
    EXPECT(end_of(waiting) == FAILED);
    EXPECT_TEXT(shared->reports[0].id, "AR-ABORTED");
    EXPECT(mentions(0, "the launcher is stopping the job"));
}

static void reduce_until_stopped(void) {
    static float data[200000];
    for (;;) {
        comm_all_reduce("gradients", &(struct comm_span){data, 200000}, 1, COMM_FLOAT32, COMM_SUM);
        atomic_fetch_add(&shared->gate, 1);
    }
}

TEST("a rank killed in the middle of a large all-reduce does not hang the others once the job is aborted") {
    for (cores = 1; cores <= 4; cores += 3) {
        pid_t pids[3];
        make_segment(3);
        for (uint32_t rank = 0; rank < 3; rank++) {
            pids[rank] = start_rank(rank, reduce_until_stopped);
        }
        while (atomic_load(&shared->gate) < 30) {
            sched_yield();
        }
        kill(pids[1], SIGKILL);
        EXPECT(end_of(pids[1]) == 128 + SIGKILL);
        atomic_store(&board->abort, 2);
        EXPECT(end_of(pids[0]) == FAILED);
        EXPECT(end_of(pids[2]) == FAILED);
        EXPECT_TEXT(shared->reports[0].id, "AR-ABORTED");
        EXPECT(mentions(2, "rank 1 has stopped the job"));
    }
}

/* ---- opening ---- */

TEST("a segment that does not fit is refused with a reason") {
    const char *problem = NULL;
    make_segment(2);
    struct comm_options options = {.rank = 0, .world_size = 2, .cores = 2, .collective_timeout_ms = 1000, .segment = board,
                                   .segment_bytes = segment_bytes(2) - 1, .fail = fail};
    EXPECT(comm_open(&options, &problem) == -1 && strstr(problem, "smaller"));
    options.segment_bytes++;
    options.rank = 2;
    EXPECT(comm_open(&options, &problem) == -1 && strstr(problem, "out of range"));
    options.rank = 1;
    board->magic = 0;
    EXPECT(comm_open(&options, &problem) == -1 && strstr(problem, "board"));
    board->magic = BOARD_MAGIC;
    EXPECT(comm_open(&options, &problem) == 0 && !problem);
    EXPECT(comm_rank() == 1 && comm_world_size() == 2);
    EXPECT(comm_open(&options, &problem) == -1 && strstr(problem, "already"));
    comm_forget();
    EXPECT(comm_world_size() == 0);
    EXPECT(comm_open(&options, &problem) == 0);
}
