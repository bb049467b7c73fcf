// sources: shim/comm/segment.c shim/comm/barrier.c shim/comm/agree.c shim/comm/turn.c shim/comm/stream.c shim/comm/staging.c shim/comm/kernels.c shim/comm/kernels_avx2.c shim/comm/kernels_avx512.c shim/comm/shared_memory.c shim/comm/all_reduce.c shim/comm/hosts.c shim/comm/hosts_reduce.c shim/comm/network.c shim/comm/network_connect.c shim/comm/own.c
/*
 * All-reduce of float32 between two hosts of one rank each, over TCP on the loopback device. Prints bytes and the best time in microseconds, a line a size, as
 * gloo.py does: tests/bench/network runs both in turn.
 *
 *     hosts [bytes...]      (64 KiB, 1, 4, 25 MiB)
 */
#define _GNU_SOURCE
#include "../../shim/comm/comm.h"
#include "../unit/loopback.h"
#include "bench.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { HOSTS = 2 };

static struct board_host list[HOSTS];
static int listeners[HOSTS];

/* Of one size: the best of many. */
static double best_of(float *buffer, size_t bytes) {
    int rounds = bytes <= 1 << 20 ? 200 : 20;
    double best = 1e9;
    struct comm_span span = {buffer, bytes / sizeof *buffer};
    memset(buffer, 0, bytes);
    for (int round = 0; round < rounds; round++) {
        comm_barrier("bench");
        double begin = seconds();
        comm_all_reduce("bench", &span, 1, COMM_FLOAT32, COMM_SUM);
        double taken = seconds() - begin;
        best = taken < best ? taken : best;
    }
    return best;
}

static void run_host(uint32_t host, const size_t *sizes, int count) {
    size_t bytes = board_segment_bytes(HOSTS);
    const char *problem = NULL;
    struct board *board = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        fail("mmap", "out of memory");
    }
    board->magic = BOARD_MAGIC;
    board->world_size = board->hosts = HOSTS;
    board->host = host;
    memcpy(board->list, list, sizeof list);
    struct comm_options options = {.rank = host,
                                   .world_size = HOSTS,
                                   .cores = 1,
                                   .collective_timeout_ms = 60000,
                                   .segment = board,
                                   .segment_bytes = bytes,
                                   .listener = listeners[host],
                                   .secret = "of no job",
                                   .fail = fail};
    if (comm_open(&options, &problem)) {
        fail("open", problem);
    }
    for (int index = 0; index < count; index++) {
        float *buffer = malloc(sizes[index]);
        if (!buffer) {
            fail("malloc", "out of memory");
        }
        double best = best_of(buffer, sizes[index]);
        free(buffer);
        if (!host) {
            printf("%zu %.1f\n", sizes[index], best * 1e6);
            fflush(stdout);
        }
    }
    comm_barrier("end");
}

int main(int argc, char **argv) {
    size_t sizes[16] = {64 << 10, 1 << 20, 4 << 20, 25 << 20};
    int count = argc > 1 ? 0 : 4, failed = 0;
    for (int i = 1; i < argc && count < 16; i++) {
        sizes[count++] = (size_t)atol(argv[i]);
    }
    for (uint32_t host = 0; host < HOSTS; host++) {
        list[host].first = host;
        list[host].count = 1;
        listeners[host] = loopback_listen(&list[host]);
    }
    for (uint32_t host = 0; host < HOSTS; host++) {
        if (fork() == 0) {
            run_host(host, sizes, count);
            _exit(0);
        }
    }
    for (uint32_t host = 0; host < HOSTS; host++) {
        int status;
        wait(&status);
        failed |= status;
    }
    return failed != 0;
}
