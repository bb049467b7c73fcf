// sources: shim/comm/segment.c shim/comm/barrier.c shim/comm/agree.c shim/comm/turn.c shim/comm/stream.c shim/comm/staging.c shim/comm/kernels.c shim/comm/kernels_avx2.c shim/comm/kernels_avx512.c shim/comm/shared_memory.c shim/comm/all_reduce.c shim/comm/hosts.c shim/comm/hosts_reduce.c shim/comm/network.c shim/comm/network_connect.c shim/comm/own.c
// Runs alone: its ranks keep both cores busy.
/*
 * Collectives between real processes: what each rank gets, bit by bit, and what a segment must be to be opened. Ranks that fail: comm_failure_test.c.
 */
#include "ranks.h"

#include "../../shim/comm/staging.h"

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
    static const size_t counts[] = {0,    1,    2,     15,    16,    17,    63,    64,    65,     1000,   1023,   1024,   1025,
                                    2047, 4096, 16383, 16384, 16385, 65535, 65536, 65537, 131072, 131073, 200000, 262144, 300001};
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

/* ---- lists ---- */

/* Rank 1 has a list, a type and a size of its own; afterwards the ranks are still in step. */
static void other_list(void) {
    static float data[40000];
    for (size_t round = 0; round < 3 && world > 1; round++) {
        size_t count = self == 1 ? 40000 : round * 1000;
        data[0] = 7;
        struct comm_span span = {data, count};
        RANK_EXPECT(!comm_all_reduce_listed("listed", self == 1 ? 5 : 6, &span, 1, self == 1 ? COMM_INT32 : COMM_FLOAT32, COMM_SUM));
        RANK_EXPECT(data[0] == 7);
        reduce_floats(50000, 0);
    }
}

static void same_list(void) {
    float value = (float)self + 1;
    RANK_EXPECT(comm_all_reduce_listed("listed", 9, &(struct comm_span){&value, 1}, 1, COMM_FLOAT32, COMM_SUM));
    RANK_EXPECT(value == (float)(world * (world + 1)) / 2);
    RANK_EXPECT(comm_all_reduce_listed("listed", 9, NULL, 0, COMM_FLOAT32, COMM_SUM));
}

TEST("ranks with different lists are told so, nothing is reduced, and the next collective is right") {
    run_worlds(other_list);
}

TEST("ranks with one list reduce it") {
    run_worlds(same_list);
}

/* As on a machine where plain stores are slow, whichever this one is: three chunks that took a second each. */
static void meet_slow_stores(void) {
    for (int chunk = 0; chunk < 3; chunk++) {
        staging_end(staging_begin() - 1000000000u, 100000);
    }
    RANK_EXPECT(staging_streams());
}

static void past_the_cache(void) {
    static const size_t counts[] = {1025, 4097, 65537, 300001};
    for (size_t index = 0; index < sizeof counts / sizeof counts[0]; index++) {
        if (self % 2 == 0) { /* not all ranks: each decides for itself */
            meet_slow_stores();
        }
        reduce_floats(counts[index], 0);
        reduce_floats(counts[index], 4);
        reduce_floats(counts[index], 3);
    }
    meet_slow_stores();
    many_spans();
}

TEST("the same when some ranks store past the cache") {
    run_worlds(past_the_cache);
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

/* ---- types other than float32 (their arithmetic: kernels_test.c) ---- */

static void other_types(void) {
    enum { COUNT = 90001 };
    double *wide = malloc(COUNT * sizeof *wide);
    uint8_t *flags = malloc(COUNT);
    int64_t low[3] = {(int64_t)self, -(int64_t)self, 7}, high[3] = {(int64_t)self, -(int64_t)self, 7};
    for (size_t i = 0; i < COUNT; i++) {
        wide[i] = float_value(self, i);
        flags[i] = mixed(self, i) % 5 == 0;
    }
    comm_all_reduce("wide", &(struct comm_span){wide, COUNT}, 1, COMM_FLOAT64, COMM_SUM);
    comm_all_reduce("flags", &(struct comm_span){flags, COUNT}, 1, COMM_BOOL, COMM_SUM);
    comm_all_reduce("low", &(struct comm_span){low, 3}, 1, COMM_INT64, COMM_MIN);
    comm_all_reduce("high", &(struct comm_span){high, 3}, 1, COMM_INT64, COMM_MAX);
    for (size_t i = 0; i < COUNT; i++) {
        double sum = float_value(0, i);
        int any = mixed(0, i) % 5 == 0;
        for (uint32_t rank = 1; rank < world; rank++) {
            sum += (double)float_value(rank, i);
            any |= mixed(rank, i) % 5 == 0;
        }
        RANK_EXPECT(wide[i] == sum && flags[i] == any);
    }
    RANK_EXPECT(low[0] == 0 && low[1] == 1 - (int64_t)world && low[2] == 7);
    RANK_EXPECT(high[0] == (int64_t)world - 1 && high[1] == 0 && high[2] == 7);
    free(wide);
    free(flags);
}

TEST("float64, bool, minimum and maximum") {
    run_worlds(other_types);
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

static void wish(void) {
    enum { ONE = 1, OTHER = 4 };
    comm_wish(ONE, 0);
    if (self == world - 1) {
        comm_wish(OTHER, 0);
    }
    RANK_EXPECT(comm_granted() == 0);
    comm_barrier("all wish for one");
    RANK_EXPECT(comm_granted() == (world > 1 ? ONE : 0));
    RANK_EXPECT(comm_granted() == 0);
    comm_barrier("nobody else wishes for the other");
    RANK_EXPECT(comm_granted() == 0);
    comm_wish(OTHER, 0);
    comm_barrier("all do");
    RANK_EXPECT(comm_granted() == (world > 1 ? OTHER : 0));
    comm_wish(ONE | OTHER, 0);
    comm_wish_no_more(ONE);
    comm_barrier("for one no more");
    RANK_EXPECT(comm_granted() == (world > 1 ? OTHER : 0));
}

TEST("a wish is granted between the same two collectives, when all ranks have it") {
    run_worlds(wish);
}

/* ---- opening ---- */

TEST("a segment that does not fit is refused with a reason") {
    const char *problem = NULL;
    make_segment(2);
    struct comm_options options = {.rank = 0,
                                   .world_size = 2,
                                   .cores = 2,
                                   .collective_timeout_ms = 1000,
                                   .segment = board,
                                   .segment_bytes = segment_bytes(2) - 1,
                                   .fail = fail};
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
