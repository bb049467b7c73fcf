/*
 * Real ranks for unit tests: N forked processes over one shared segment.
 *
 * A rank that fails in a collective (options.fail) leaves its message behind the segment and ends with status FAILED; a rank that got something
 * wrong says so and ends with status WRONG.
 */
#ifndef ACCEL_TESTS_RANKS_H
#define ACCEL_TESTS_RANKS_H

#include "unit.h"

#include "../../shim/comm/comm.h"

#include <math.h>
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
static int listener = -1; /* of a leader of several hosts (hosts.h) */
static void (*say)(const char *what);
static const char *secret = "0123456789abcdef0123456789abcdef";

__attribute__((noreturn)) static void fail(const char *id, const char *what) {
    snprintf(shared->reports[self].id, sizeof shared->reports[self].id, "%s", id);
    snprintf(shared->reports[self].text, sizeof shared->reports[self].text, "%s", what);
    _exit(FAILED);
}

#define RANK_EXPECT(condition)                                                                                                             \
    do {                                                                                                                                   \
        if (!(condition)) {                                                                                                                \
            printf("    %s:%d: rank %u of %u: expected %s\n", __FILE__, __LINE__, self, world, #condition);                                \
            fflush(stdout);                                                                                                                \
            _exit(WRONG);                                                                                                                  \
        }                                                                                                                                  \
    } while (0)

static size_t segment_bytes(uint32_t ranks) {
    return board_segment_bytes(ranks);
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
    struct comm_options options = {.rank = rank,
                                   .world_size = world,
                                   .cores = cores,
                                   .collective_timeout_ms = timeout_ms,
                                   .segment = board,
                                   .segment_bytes = segment_bytes(world),
                                   .listener = listener,
                                   .secret = secret,
                                   .say = say,
                                   .fail = fail};
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
__attribute__((unused)) static void run_ranks(uint32_t ranks, void (*body)(void), int expected) {
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

__attribute__((unused)) static void run_worlds(void (*body)(void)) {
    for (int index = 0; index < WORLDS; index++) {
        run_ranks(worlds[index], body, 0);
    }
}

/* ---- values that every rank can compute for every other ---- */

__attribute__((unused)) static uint64_t mixed(uint64_t rank, uint64_t index) {
    uint64_t value = (rank + 1) * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u;
    value ^= value >> 31;
    value *= 0xbf58476d1ce4e5b9u;
    return value ^ value >> 29;
}

/* Numbers of very different size, so that another order of summation gives other bits. */
__attribute__((unused)) static float float_value(uint32_t rank, size_t index) {
    uint64_t bits = mixed(rank, index);
    return ldexpf((float)(int32_t)(uint32_t)bits, (int)(bits >> 40 & 31) - 40);
}

#endif
