// sources: shim/comm/segment.c shim/comm/barrier.c shim/comm/agree.c shim/comm/turn.c shim/comm/stream.c shim/comm/staging.c shim/comm/kernels.c shim/comm/kernels_avx2.c shim/comm/kernels_avx512.c shim/comm/shared_memory.c shim/comm/all_reduce.c shim/comm/in_place.c shim/comm/arena.c shim/comm/arena_share.c shim/comm/arena_fork.c shim/comm/hosts.c shim/comm/hosts_reduce.c shim/comm/network.c shim/comm/network_connect.c shim/comm/own.c
/*
 * How fast is our all-reduce, as a share of what the machine can do?
 *
 *     all_reduce [ranks] [cores] [bytes]      (2 ranks, all cores, all sizes)
 *
 * float32 sums. Private: of the ranks' own memory, through the rings. Shared: of memory that all ranks see, as large gradients are; onto: the same, added to what
 * was there before. Limit: buffers in shared memory are reduced in place, each rank its part of all (2 * ranks * size bytes pass through memory, nothing less is
 * possible), with one barrier at the end. All alternate within each repeat, so that a busy machine hits all; the best repeat counts, the median shows the noise.
 *
 * Before each timed call the ranks write their memory, as a backward does, but for the limit: there each rank meets the same part again and again, and below
 * some MiB no byte goes from core to core; only 25 MiB and more compare with it fairly.
 */
#define _GNU_SOURCE
#include "../../shim/comm/arena.h"
#include "../../shim/comm/comm.h"
#include "../../shim/comm/kernels.h"
#include "bench.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { RANKS_MAX = 64, REPEATS_MAX = 256, BLOCK = 16 << 10 };

static const size_t sizes[] = {4, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 25 << 20, 100 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

struct timing {
    double best, median;
};

static unsigned char *shared;          /* one buffer of the current size per rank */
static float *private, *seen, *before; /* the latter two in memory that all ranks see */

static void ours(size_t bytes) {
    comm_all_reduce("bench", &(struct comm_span){private, bytes / sizeof(float)}, 1, COMM_FLOAT32, COMM_SUM);
}

static void ours_in_place(size_t bytes) {
    comm_all_reduce_in_place("bench", &(struct comm_span){seen, bytes / sizeof(float)}, (void *[]){NULL}, 1, COMM_FLOAT32, COMM_SUM);
}

static void ours_onto(size_t bytes) {
    comm_all_reduce_in_place("bench", &(struct comm_span){seen, bytes / sizeof(float)}, (void *[]){before}, 1, COMM_FLOAT32, COMM_SUM);
}

static void in_place(size_t bytes) {
    uint32_t ranks = comm_world_size();
    size_t part = bytes / ranks / 64 * 64, start = comm_rank() * part, end = comm_rank() + 1 == ranks ? bytes : start + part;
    size_t block = ranks == 2 ? bytes : BLOCK;
    kernels_reduce_function *kernel = kernels_reduce(COMM_FLOAT32, COMM_SUM);
    for (size_t at = start; at < end; at += block) {
        size_t length = end - at < block ? end - at : block;
        const void *sources[RANKS_MAX];
        for (uint32_t rank = 0; rank < ranks; rank++) {
            sources[rank] = shared + rank * bytes + at;
        }
        kernel(shared + at, ranks > 1 ? shared + bytes + at : NULL, sources, ranks, length / sizeof(float));
        for (uint32_t rank = 2; rank < ranks; rank++) {
            memcpy(shared + rank * bytes + at, shared + at, length);
        }
    }
    comm_barrier("bench");
}

/* Sums to 0 and stays there: no infinities, no subnormals. */
static void fill(float *memory, size_t bytes) {
    float value = comm_rank() ? -1.0f : (float)comm_world_size() - 1;
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        memory[i] = value;
    }
}

static void expect_zeros(const float *memory, size_t bytes) {
    if (memory[0] != 0 || memory[bytes / sizeof(float) - 1] != 0) {
        fail("wrong", "the sum is not 0");
    }
}

static const struct way {
    const char *name;
    void (*body)(size_t bytes);
    float **memory; /* written before each call; NULL: none */
    float **result;
    size_t least;
} ways[] = {
    {"private", ours, &private, &private, 0},
    {"shared", ours_in_place, &seen, &seen, ARENA_LEAST_BYTES},
    {"onto", ours_onto, &seen, &before, ARENA_LEAST_BYTES},
    {"limit", in_place, NULL, NULL, 0},
};
enum { WAYS = sizeof ways / sizeof ways[0], LIMIT = WAYS - 1 };

static double timed(const struct way *way, size_t bytes, int iterations) {
    double taken = 0;
    for (int i = 0; i < iterations; i++) {
        if (way->memory) {
            fill(*way->memory, bytes);
        }
        comm_barrier("start");
        double start = seconds();
        way->body(bytes);
        taken += seconds() - start;
        if (way->result) {
            expect_zeros(*way->result, bytes);
        }
        comm_barrier("end");
    }
    return taken / iterations;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct timing summary(double *times, int count) {
    qsort(times, (size_t)count, sizeof *times, ascending);
    return (struct timing){times[0], times[count / 2]};
}

static void print_row(size_t bytes, double (*times)[REPEATS_MAX], int repeats) {
    char size[32];
    double limit = summary(times[LIMIT], repeats).best;
    snprintf(size, sizeof size,
             bytes < 1024      ? "%zu B"
             : bytes < 1 << 20 ? "%zu KiB"
                               : "%zu MiB",
             bytes < 1024      ? bytes
             : bytes < 1 << 20 ? bytes >> 10
                               : bytes >> 20);
    printf("%-8s", size);
    for (int way = 0; way < WAYS; way++) {
        struct timing timing = summary(times[way], repeats);
        if (bytes < ways[way].least) {
            printf("%30s", "");
        } else {
            printf("%11.2f%11.2f%6.0f %%", timing.best * 1e6, timing.median * 1e6, 100 * limit / timing.best);
        }
    }
    printf("\n");
    fflush(stdout);
}

static void bench_size(size_t bytes) {
    static double times[WAYS][REPEATS_MAX];
    int iterations = bytes <= 4096 ? 2000 : bytes <= 64 << 10 ? 500 : bytes <= 4 << 20 ? 10 : 1;
    int repeats = bytes >= 100 << 20 ? 30 : 120;
    memset(shared + comm_rank() * bytes, 0, bytes);
    in_place(bytes);
    arena_add_size(bytes);
    arena_reserve(2 * sizes[SIZES - 1] + 4 * bytes);
    seen = arena_take(bytes);
    before = arena_take(bytes);
    if (bytes >= ARENA_LEAST_BYTES && (!seen || !before)) {
        fail("wrong", "no shared memory");
    }
    if (before) {
        memset(before, 0, bytes);
    }
    for (int repeat = 0; repeat < repeats; repeat++) {
        for (int way = 0; way < WAYS; way++) {
            times[way][repeat] = bytes < ways[way].least ? 0 : timed(&ways[way], bytes, iterations);
        }
    }
    arena_give(seen);
    arena_give(before);
    if (comm_rank() == 0) {
        print_row(bytes, times, repeats);
    }
}

/* A core for each rank, where there are enough: the scheduler would do the same, but not at once, and the difference is larger than ours. */
static void pin(uint32_t rank, uint32_t ranks, uint32_t cores) {
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(rank, &own);
    if (ranks <= cores) {
        sched_setaffinity(0, sizeof own, &own);
    }
}

static void run_rank(uint32_t rank, uint32_t ranks, uint32_t cores, size_t only, void *segment) {
    const char *problem = NULL;
    struct comm_options options = {.rank = rank,
                                   .world_size = ranks,
                                   .cores = cores,
                                   .collective_timeout_ms = 60000,
                                   .segment = segment,
                                   .segment_bytes = board_segment_bytes(ranks),
                                   .fail = fail};
    if (comm_open(&options, &problem) || posix_memalign((void **)&private, 64, sizes[SIZES - 1])) {
        fail("open", problem ? problem : "out of memory");
    }
    pin(rank, ranks, cores);
    for (int index = 0; index < SIZES; index++) {
        if (!only || sizes[index] == only) {
            bench_size(sizes[index]);
        }
    }
}

static void *shared_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return memory;
}

int main(int argc, char **argv) {
    uint32_t ranks = argc > 1 ? (uint32_t)atoi(argv[1]) : 2,
             cores = argc > 2 ? (uint32_t)atoi(argv[2]) : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    size_t only = argc > 3 ? (size_t)atol(argv[3]) : 0;
    if (ranks < 2 || ranks > RANKS_MAX) {
        fprintf(stderr, "all_reduce [ranks: 2 to %d] [cores] [bytes, one of the sizes below]\n", RANKS_MAX);
        return 2;
    }
    struct board *board = shared_memory(board_segment_bytes(ranks));
    board->magic = BOARD_MAGIC;
    board->world_size = ranks;
    shared = shared_memory(ranks * sizes[SIZES - 1]);
    printf(
        "all-reduce, float32 sum, %u ranks on %u cores; microseconds: best and median of repeats, and the limit's share of the best\n%8s",
        ranks, cores, "");
    for (int way = 0; way < WAYS; way++) {
        printf("%30s", ways[way].name);
    }
    printf("\n");
    fflush(stdout);
    int failed = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (fork() == 0) {
            run_rank(rank, ranks, cores, only, board);
            _exit(0);
        }
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        int status;
        wait(&status);
        failed |= status;
    }
    return failed != 0;
}
