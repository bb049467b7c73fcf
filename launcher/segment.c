#define _GNU_SOURCE
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

int segment_memory(uint64_t bytes) {
    struct rlimit file_size; /* also of files without a name: to be longer would end a process that is to become a rank by a signal */
    if (getrlimit(RLIMIT_FSIZE, &file_size) == 0 && bytes > file_size.rlim_cur) {
        errno = EFBIG;
        return -1;
    }
    int memory = memfd_create("accel-run", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0)
        return -1;
    if (ftruncate(memory, (off_t)bytes) == 0 && fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return memory;
    int error = errno;
    close(memory);
    errno = error;
    return -1;
}

static int segment_make(struct segment *segment, const struct segments *job) {
    uint32_t world_size = job->world_size;
    segment->bytes = board_segment_bytes(world_size);
    segment->memfd = segment_memory(segment->bytes);
    if (segment->memfd < 0)
        return -1;
    /* Only the board is mapped here: the communication area is the ranks'. */
    void *memory = mmap(NULL, board_bytes(world_size), PROT_READ | PROT_WRITE, MAP_SHARED, segment->memfd, 0);
    if (memory != MAP_FAILED) {
        segment->board = memory;
        segment->board->magic = BOARD_MAGIC;
        segment->board->world_size = world_size;
        segment->board->hosts = job->hosts;
        segment->board->host = job->host;
        if (job->hosts)
            memcpy(segment->board->list, job->places, job->hosts * sizeof *job->places);
        return 0;
    }
    int error = errno;
    close(segment->memfd);
    segment->memfd = -1;
    errno = error;
    return -1;
}

struct segment *segments_get(struct segments *segments, uint32_t generation) {
    while (segments->count <= generation) {
        struct segment *list = realloc(segments->list, (segments->count + 1) * sizeof *list);
        if (!list)
            return NULL;
        segments->list = list;
        memset(&list[segments->count], 0, sizeof *list);
        if (segment_make(&list[segments->count], segments))
            return NULL;
        segments->count++;
    }
    if (segments->list[generation].board)
        return &segments->list[generation];
    errno = ESTALE;
    return NULL;
}

static void segment_clear(struct segment *segment, uint32_t world_size) {
    if (!segment->board)
        return;
    munmap(segment->board, board_bytes(world_size));
    close(segment->memfd);
    segment->board = NULL;
    segment->memfd = -1;
}

void segments_release(struct segments *segments) {
    segment_clear(&segments->list[segments->released++], segments->world_size);
}

void segments_hold(struct segments *segments) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (uint32_t i = segments->released; i < segments->count; i++)
        atomic_store(&segments->list[i].board->held_ns, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

void segments_abort(struct segments *segments) {
    for (uint32_t i = segments->released; i < segments->count; i++) {
        uint32_t running = 0;
        atomic_compare_exchange_strong(&segments->list[i].board->abort, &running, BOARD_ABORT_LAUNCHER);
    }
}

void segments_clear(struct segments *segments) {
    for (uint32_t i = 0; i < segments->count; i++)
        segment_clear(&segments->list[i], segments->world_size);
    free(segments->list);
    memset(segments, 0, sizeof *segments);
}
