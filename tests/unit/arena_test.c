// sources: shim/comm/segment.c shim/comm/barrier.c shim/comm/agree.c shim/comm/turn.c shim/comm/stream.c shim/comm/staging.c shim/comm/kernels.c shim/comm/kernels_avx2.c shim/comm/kernels_avx512.c shim/comm/shared_memory.c shim/comm/all_reduce.c shim/comm/in_place.c shim/comm/arena.c shim/comm/arena_share.c shim/comm/arena_fork.c shim/comm/hosts.c shim/comm/hosts_reduce.c shim/comm/network.c shim/comm/network_connect.c shim/comm/own.c
// Runs alone: its ranks keep both cores busy.
/*
 * Memory that all ranks see: sums in place, blocks, and doing without.
 */
#define _GNU_SOURCE
#include "arena_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* What a span, or what its sum is added to, holds at first. */
static float first_value(uint32_t rank, size_t span, size_t index) {
    return float_value(rank + 16 * (uint32_t)span, index);
}

static void give(float *memory) {
    if (!arena_give(memory)) {
        free(memory);
    }
}

/* is_shared, is_onto_shared: bits of the spans that lie in this rank's arena; is_onto: those whose sum is added to something. */
static void sum_spans(unsigned is_shared, unsigned is_onto, unsigned is_onto_shared) {
    struct comm_span spans[SPANS];
    void *onto[SPANS];
    for (size_t span = 0; span < SPANS; span++) {
        int large = counts[span] * sizeof(float) >= ARENA_LEAST_BYTES;
        float *data = memory_of(counts[span], large && (is_shared >> span & 1)),
              *before = is_onto >> span & 1 ? memory_of(counts[span], large && (is_onto_shared >> span & 1)) : NULL;
        for (size_t i = 0; i < counts[span]; i++) {
            data[i] = first_value(self, span, i);
            if (before) {
                before[i] = first_value(9, span, i);
            }
        }
        spans[span] = (struct comm_span){data, counts[span]};
        onto[span] = before;
    }
    comm_all_reduce_in_place("spans", spans, onto, SPANS, COMM_FLOAT32, COMM_SUM);
    for (size_t span = 0; span < SPANS; span++) {
        const float *result = onto[span] ? onto[span] : spans[span].data;
        for (size_t i = 0; i < counts[span]; i++) {
            float sum = first_value(0, span, i);
            for (uint32_t rank = 1; rank < world; rank++) {
                sum += first_value(rank, span, i);
            }
            sum = onto[span] ? first_value(9, span, i) + sum : sum;
            RANK_EXPECT(!memcmp(&sum, &result[i], sizeof sum));
        }
        give(spans[span].data);
        if (onto[span]) {
            give(onto[span]);
        }
    }
}

static void in_place(void) {
    open_arena(8 << 20);
    for (unsigned round = 0; round < 3; round++) {
        sum_spans(~0u, 0, 0);
        sum_spans(~0u, 0x2b, ~0u);
        sum_spans(~0u, 0x2b, 0x21);
        sum_spans(0, 0x2b, ~0u);
    }
}

TEST("sums in place, and those added to what was there, equal the plain sum in rank order, bit by bit, on all ranks") {
    run_several(in_place);
}

static void some_in_place(void) {
    open_arena(8 << 20);
    for (unsigned round = 0; round < 8; round++) {
        unsigned bits = (unsigned)mixed(self, round);
        sum_spans(bits, 0x2b, bits >> 8);
        sum_spans(bits >> 16, self == 1 ? 0 : 0x2b, bits >> 24); /* one rank has nothing to add to */
    }
}

TEST("spans that lie in the memory of some ranks only are summed all the same") {
    run_several(some_in_place);
}

/* ---- memory */

static void blocks(void) {
    size_t bytes = counts[1] * sizeof(float);
    open_arena(4 * bytes);
    RANK_EXPECT(!arena_take(12345) && !arena_take(5 << 20));
    char *taken[16];
    int count = 0;
    while (count < 16 && (taken[count] = arena_take(bytes))) {
        RANK_EXPECT(arena_holds(taken[count], bytes) && !arena_holds(taken[count], 2 * bytes));
        memset(taken[count], count + 1, bytes);
        count++;
    }
    RANK_EXPECT(count >= 3 && count < 16);
    for (int i = 0; i < count; i++) {
        RANK_EXPECT(taken[i][0] == i + 1 && taken[i][bytes - 1] == i + 1);
    }
    RANK_EXPECT(!arena_give(taken[0] + 64) && !arena_give(&count));
    RANK_EXPECT(arena_give(taken[1]) && !arena_give(taken[1]) && !arena_holds(taken[1], bytes));
    RANK_EXPECT(arena_take(bytes - 3) == taken[1] && !arena_take(bytes));
    arena_reserve(6 * bytes); /* a model more */
    RANK_EXPECT(arena_take(bytes));
}

TEST("blocks are handed out for known sizes until there is no room, taken back once, and used again") {
    run_ranks(2, blocks, 0);
}

/* The second model finds what it has asked for, whatever the first region has lost to the places. */
static void all_that_was_asked_for(void) {
    int taken = 0;
    open_arena(4 << 20);
    arena_add_size(1 << 20);
    arena_reserve(8 << 20);
    while (arena_take(1 << 20)) {
        taken++;
    }
    RANK_EXPECT(taken >= 8);
}

TEST("what is reserved can be taken, all of it") {
    run_ranks(2, all_that_was_asked_for, 0);
}

static char said[256];

static void keep_said(const char *what) {
    snprintf(said, sizeof said, "%s", what);
}

static void limit_files(rlim_t bytes) {
    struct rlimit limit = {bytes, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void no_large_files(void) {
    limit_files(self ? RLIM_INFINITY : 1 << 20);
    arena_add_size(8 << 20);
    RANK_EXPECT(!arena_reserve(8 << 20) && !arena_is_open() && !arena_take(8 << 20));
    RANK_EXPECT(self ? !*said : strstr(said, "rank 0 cannot make the memory of rank 0") && strstr(said, "too large"));
    int tries = 2;
    while (!arena_reserve(9 << 20)) {
        RANK_EXPECT(!arena_is_open() && ++tries < 10);
    }
    limit_files(RLIM_INFINITY);
    RANK_EXPECT(arena_reserve(9 << 20) && !arena_is_open());
}

TEST("where one rank cannot have such memory, none has, that one says why, and nobody dies of it, or tries for ever") {
    say = keep_said;
    run_ranks(3, no_large_files, 0);
}

static void no_large_files_yet(void) {
    limit_files(self ? RLIM_INFINITY : 1 << 20);
    arena_reserve(8 << 20);
    RANK_EXPECT(!arena_is_open());
    limit_files(RLIM_INFINITY);
    open_arena(8 << 20);
    sum_spans(~0u, 0, 0);
}

TEST("a rank that cannot have such memory at first has it later, and so have all") {
    run_ranks(3, no_large_files_yet, 0);
}

/* As the library's hooks do when they have something to do for the program's files: */
static bool files_are_the_programs;

int open(const char *path, int flags, ...) {
    errno = EACCES;
    return files_are_the_programs ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
}

int stat(const char *path, struct stat *status) {
    errno = ENOENT;
    return files_are_the_programs ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, 0);
}

int fstat(int descriptor, struct stat *status) {
    errno = EBADF;
    return files_are_the_programs ? -1 : (int)syscall(SYS_fstat, descriptor, status);
}

static void beside_the_programs_files(void) {
    files_are_the_programs = true;
    open_arena(8 << 20);
    files_are_the_programs = false;
    sum_spans(~0u, 0, 0);
}

TEST("what stands in the way of the program's files does not stand in the way of the ranks' memory") {
    run_ranks(2, beside_the_programs_files, 0);
}
