/*
 * The all-reduce of a host's ranks, in chunks (all_reduce.c); that of several hosts is made of the same pieces (hosts_reduce.c).
 */
#ifndef ACCEL_SHIM_COMM_ALL_REDUCE_H
#define ACCEL_SHIM_COMM_ALL_REDUCE_H

#include "kernels.h"
#include "segment.h"
#include "stream.h"

enum {
    COMM_CHUNK_BYTES = 128 << 10, /* 64 to 256 KiB are equal within the noise of tests/bench/all_reduce.c */
    COMM_CACHE_LINE = 64,
};

static inline size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t chunks_of(uint64_t bytes, size_t chunk) {
    return (size_t)((bytes + chunk - 1) / chunk);
}

/* One all-reduce: places in the program's memory and the cut of a chunk into parts, one per rank. */
struct reduction {
    kernels_reduce_function *kernel;
    struct stream staged, reduced, finished; /* each walks the whole stream, one chunk behind the other */
    uint64_t bytes;
    size_t turns[3];             /* ring offset of chunk k at k % 3 */
    size_t sums[8];              /* over several hosts: ring offset of the leader's sum of chunk k at k % 8 */
    unsigned char *places[8];    /* over several hosts: where the program has chunk k, at k % 8, if it is summed there */
    size_t element, chunk, slot; /* bytes of an element, of a chunk, of a part (the last may be shorter) */
};

size_t reduction_chunk_length(const struct reduction *reduction, size_t chunk);

/* Bytes of the part with this index, where `length` bytes are cut into parts of `slot` bytes. */
static inline size_t reduction_part(size_t length, size_t slot, uint32_t index) {
    size_t start = index * slot;
    return start >= length ? 0 : smaller(length - start, slot);
}

/* The other ranks' parts of a chunk go to this rank's stage, each to its slot. Parts are numbered as the ranks of the host. */
void reduction_stage(struct reduction *reduction, size_t chunk);

#endif
