// sources: shim/comm/segment.c shim/comm/barrier.c shim/comm/agree.c shim/comm/stream.c shim/comm/staging.c shim/comm/kernels.c shim/comm/kernels_avx2.c shim/comm/kernels_avx512.c shim/comm/shared_memory.c shim/comm/all_reduce.c shim/comm/hosts.c shim/comm/hosts_reduce.c shim/comm/network.c shim/comm/network_connect.c shim/comm/own.c
/*
 * How fast is our all-reduce, as a share of what the machine can do?
 *
 *     all_reduce [ranks] [cores] [bytes]      (2 ranks, all cores, all sizes)
 *
 * Ours: float32 sum of private buffers, as gradients are. Limit: the same ranks reduce buffers that lie in shared memory, each rank its part of all
 * buffers, in place (2 * ranks * size bytes pass through memory, nothing less is possible), with one barrier at the end. Both alternate within each
 * repeat, so that a busy machine hits both; the best repeat counts, the median shows the noise. Below some MiB the limit is one of caches that are
 * never shared: each rank meets the same part again and again, and no byte goes from core to core; only 25 MiB and more compare with it fairly.
 */
#define _GNU_SOURCE
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

static unsigned char *shared; /* one buffer of the current size per rank */
static float *private;

static void ours(size_t bytes) {
    comm_all_reduce("bench", &(struct comm_span){private, bytes / sizeof(float)}, 1, COMM_FLOAT32, COMM_SUM);
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

static double timed(void (*body)(size_t), size_t bytes, int iterations) {
    comm_barrier("start");
    double start = seconds();
    for (int i = 0; i < iterations; i++) {
        body(bytes);
    }
    double taken = seconds() - start;
    comm_barrier("end");
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

static void print_row(size_t bytes, struct timing mine, struct timing limit) {
    char size[32];
    snprintf(size, sizeof size,
             bytes < 1024      ? "%zu B"
             : bytes < 1 << 20 ? "%zu KiB"
                               : "%zu MiB",
             bytes < 1024      ? bytes
             : bytes < 1 << 20 ? bytes >> 10
                               : bytes >> 20);
    printf("%-8s %12.2f %12.2f %9.2f %12.2f %12.2f %8.0f %%\n", size, mine.best * 1e6, mine.median * 1e6, (double)bytes / mine.best * 1e-9,
           limit.best * 1e6, limit.median * 1e6, 100 * limit.best / mine.best);
    fflush(stdout);
}

static void bench_size(size_t bytes) {
    double mine[REPEATS_MAX], limit[REPEATS_MAX];
    int iterations = bytes <= 4096 ? 2000 : bytes <= 64 << 10 ? 500 : bytes <= 4 << 20 ? 10 : 1;
    int repeats = bytes >= 100 << 20 ? 30 : 120;
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        private[i] = comm_rank() ? -1.0f : (float)comm_world_size() - 1; /* sums to 0 and stays there: no infinities, no subnormals */
    }
    memset(shared + comm_rank() * bytes, 0, bytes);
    ours(bytes);
    if (private[0] != 0 || private[bytes / sizeof(float) - 1] != 0) {
        fail("wrong", "the sum is not 0");
    }
    in_place(bytes);
    for (int repeat = 0; repeat < repeats; repeat++) {
        limit[repeat] = timed(in_place, bytes, iterations);
        mine[repeat] = timed(ours, bytes, iterations);
    }
    if (comm_rank() == 0) {
        print_row(bytes, summary(mine, repeats), summary(limit, repeats));
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
                                   .segment_bytes = board_bytes() + board_comm_bytes(ranks),
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
    struct board *board = shared_memory(board_bytes() + board_comm_bytes(ranks));
    board->magic = BOARD_MAGIC;
    board->world_size = ranks;
    shared = shared_memory(ranks * sizes[SIZES - 1]);
    printf("all-reduce, float32 sum, %u ranks on %u cores; microseconds; GB/s of the buffer's size; best and median of repeats\n", ranks,
           cores);
    printf("%-8s %12s %12s %9s %12s %12s %10s\n", "size", "ours best", "median", "GB/s", "limit best", "median", "of limit");
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
