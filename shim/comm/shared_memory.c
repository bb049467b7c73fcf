/*
 * Collectives between ranks on one host, through staging buffers in shared memory.
 *
 * Rules
 *  - The program's memory stays where it is. It passes through shared memory in chunks small enough that a chunk is still in the second-level
 *    cache when it is written back: main memory sees each gradient read once and written once, as a reduction in place would.
 *  - A rank never stages its own part of a chunk: it reduces straight from the program's memory and writes the result back there.
 *  - One barrier per chunk. Between two barriers a rank takes the results of the chunk before, reduces its part of this one, stages the next one.
 *    Each chunk has a turn of the ring of its own (segment.h).
 *  - The first barrier of every collective is agree_pass(). Geometry comes from what it compares (bytes, ranks) and from nothing else.
 */
#include "agree.h"
#include "barrier.h"
#include "kernels.h"
#include "segment.h"
#include "staging.h"
#include "stream.h"

#include <string.h>

enum {
    FLAT_BYTES = 32 << 10,   /* up to here, over the ranks, each rank reads all of all ranks: one barrier instead of two */
    FLAT_PIECE_BYTES = 4096, /* of them at a time */
    CHUNK_BYTES = 128 << 10, /* 64 to 256 KiB are equal within the noise of tests/bench/all_reduce.c */
    CACHE_LINE = 64,
};

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t chunks_of(uint64_t bytes, size_t chunk) {
    return (size_t)((bytes + chunk - 1) / chunk);
}

void comm_barrier(const char *label) {
    if (segment.options.world_size < 2) {
        return;
    }
    agree_enter(label, &(struct agree_call){.kind = KIND_BARRIER});
    agree_pass();
    agree_leave();
}

/* ---- all-reduce ---- */

/* One all-reduce: places in the program's memory and the cut of a chunk into parts, one per rank. */
struct reduction {
    kernels_reduce_function *kernel;
    struct stream staged, reduced, finished; /* each walks the whole stream, one chunk behind the other */
    uint64_t bytes;
    size_t turns[3];             /* ring offset of chunk k at k % 3 */
    size_t element, chunk, slot; /* bytes of an element, of a chunk, of a part (the last may be shorter) */
};

static size_t chunk_length(const struct reduction *reduction, size_t chunk) {
    uint64_t start = (uint64_t)chunk * reduction->chunk;
    return (size_t)(reduction->bytes - start < reduction->chunk ? reduction->bytes - start : reduction->chunk);
}

static size_t part_length(const struct reduction *reduction, size_t length, uint32_t rank) {
    size_t start = rank * reduction->slot;
    return start >= length ? 0 : smaller(length - start, reduction->slot);
}

/* The other ranks' parts of a chunk go to this rank's stage, each to its slot. */
static void stage_chunk(struct reduction *reduction, size_t chunk) {
    size_t length = chunk_length(reduction, chunk);
    uint32_t self = segment.options.rank;
    size_t before = smaller(self * reduction->slot, length), own = part_length(reduction, length, self);
    reduction->turns[chunk % 3] = segment_claim(reduction->chunk);
    unsigned char *stage = segment_stage(self, reduction->turns[chunk % 3]);
    uint64_t start = staging_begin();
    stream_read(&reduction->staged, stage, before, staging_copy());
    stream_skip(&reduction->staged, own);
    stream_read(&reduction->staged, stage + before + own, length - before - own, staging_copy());
    staging_end(start, length - own);
}

/* This rank's part: all ranks' values into the program's memory and into this rank's own slot, where the others find it. */
static void reduce_part(struct reduction *reduction, size_t chunk) {
    uint32_t self = segment.options.rank, ranks = segment.options.world_size;
    size_t length = chunk_length(reduction, chunk), own = part_length(reduction, length, self), start = self * reduction->slot;
    const void *sources[BOARD_RANKS_MAX];
    if (!own) {
        stream_skip(&reduction->reduced, length);
        return;
    }
    stream_skip(&reduction->reduced, start);
    for (size_t done = 0, taken; done < own; done += taken) {
        unsigned char *data;
        taken = stream_take(&reduction->reduced, own - done, &data);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            sources[rank] = rank == self ? data : segment_stage(rank, reduction->turns[chunk % 3]) + start + done;
        }
        unsigned char *result = segment_stage(self, reduction->turns[chunk % 3]) + start + done;
        if (staging_streams()) {
            reduction->kernel(data, NULL, sources, ranks, taken / reduction->element);
            staging_copy()(result, data, taken);
        } else {
            reduction->kernel(data, result, sources, ranks, taken / reduction->element);
        }
    }
    stream_skip(&reduction->reduced, length - start - own);
}

/* The other ranks' results come to the program's memory. */
static void finish_chunk(struct reduction *reduction, size_t chunk) {
    size_t length = chunk_length(reduction, chunk);
    for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
        size_t part = part_length(reduction, length, rank);
        if (rank == segment.options.rank) {
            stream_skip(&reduction->finished, part);
        } else {
            stream_write(&reduction->finished, segment_stage(rank, reduction->turns[chunk % 3]) + rank * reduction->slot, part);
        }
    }
}

/* 0: the ranks' lists differ, nothing was changed. */
static int reduce_staged(struct reduction *reduction) {
    size_t chunks = chunks_of(reduction->bytes, reduction->chunk);
    stage_chunk(reduction, 0);
    agree_pass();
    if (!agree_same_list()) {
        return 0;
    }
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        if (chunk) {
            finish_chunk(reduction, chunk - 1);
        }
        reduce_part(reduction, chunk);
        if (chunk + 1 < chunks) {
            stage_chunk(reduction, chunk + 1);
        }
        barrier_pass();
    }
    finish_chunk(reduction, chunks - 1);
    return 1;
}

/* Small ones: everybody stages all and reduces all. Through a buffer of our own, so that the same instructions see the same bytes on all ranks. */
static int reduce_flat(struct reduction *reduction) {
    unsigned char result[FLAT_PIECE_BYTES] __attribute__((aligned(CACHE_LINE)));
    const void *sources[BOARD_RANKS_MAX];
    size_t bytes = (size_t)reduction->bytes, turn = segment_claim(bytes);
    stream_read(&reduction->staged, segment_stage(segment.options.rank, turn), bytes, memcpy);
    agree_pass();
    if (!agree_same_list()) {
        return 0;
    }
    for (size_t done = 0; done < bytes; done += FLAT_PIECE_BYTES) {
        size_t piece = smaller(bytes - done, FLAT_PIECE_BYTES);
        for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
            sources[rank] = segment_stage(rank, turn) + done;
        }
        reduction->kernel(result, NULL, sources, segment.options.world_size, piece / reduction->element);
        stream_write(&reduction->finished, result, piece);
    }
    return 1;
}

static int reduce_spans(const char *label, uint64_t list, const struct comm_span *spans, size_t count, enum comm_dtype dtype,
                        enum comm_op op) {
    uint32_t ranks = segment.options.world_size;
    if (ranks < 2) {
        return 1;
    }
    struct reduction reduction = {.kernel = kernels_reduce(dtype, op), .element = comm_dtype_bytes(dtype)};
    for (size_t index = 0; index < count; index++) {
        reduction.bytes += (uint64_t)spans[index].count * reduction.element;
    }
    reduction.staged = (struct stream){.spans = spans, .count = count, .element = reduction.element};
    reduction.reduced = reduction.finished = reduction.staged;
    reduction.slot = CHUNK_BYTES / ranks / CACHE_LINE * CACHE_LINE;
    if (reduction.bytes < reduction.slot * ranks) { /* a single chunk: cut it evenly */
        reduction.slot = ((size_t)reduction.bytes / ranks / CACHE_LINE + 1) * CACHE_LINE;
    }
    reduction.chunk = reduction.slot * ranks;
    agree_enter(label, &(struct agree_call){.kind = KIND_ALL_REDUCE, .dtype = dtype, .op = op, .bytes = reduction.bytes, .list = list});
    size_t turn_before = segment.ring_offset;
    int done = reduction.bytes <= FLAT_BYTES / ranks ? reduce_flat(&reduction) : reduce_staged(&reduction);
    if (!done) { /* turns of different sizes were claimed */
        segment.ring_offset = turn_before;
    }
    agree_leave();
    return done;
}

void comm_all_reduce(const char *label, const struct comm_span *spans, size_t count, enum comm_dtype dtype, enum comm_op op) {
    reduce_spans(label, 0, spans, count, dtype, op);
}

int comm_all_reduce_listed(const char *label, uint64_t list, const struct comm_span *spans, size_t count, enum comm_dtype dtype,
                           enum comm_op op) {
    return reduce_spans(label, list, spans, count, dtype, op);
}

/* ---- copies: all-gather and broadcast ---- */

/* A rank's part of all blocks, as one stream: block b has it at start + b * stride. */
struct part {
    unsigned char *start;
    size_t piece, stride; /* bytes of it in a block; bytes of a block */
    uint64_t bytes;       /* piece * blocks */
};

/* Bytes [from, from + bytes) of the part, to or from a stage. */
static void copy_part(const struct part *part, uint64_t from, size_t bytes, unsigned char *stage, int to_stage) {
    while (bytes) {
        size_t within = (size_t)(from % part->piece), length = smaller(part->piece - within, bytes);
        unsigned char *data = part->start + (size_t)(from / part->piece) * part->stride + within;
        if (to_stage) {
            staging_copy()(stage, data, length);
        } else {
            memcpy(data, stage, length);
        }
        stage += length;
        from += length;
        bytes -= length;
    }
}

static void copy_chunk(const struct part *part, size_t chunk, uint32_t rank, size_t turn, int to_stage) {
    uint64_t from = (uint64_t)chunk * CHUNK_BYTES;
    if (from < part->bytes) {
        size_t length = part->bytes - from < CHUNK_BYTES ? (size_t)(part->bytes - from) : CHUNK_BYTES;
        uint64_t start = staging_begin();
        copy_part(part, from, length, segment_stage(rank, turn), to_stage);
        if (to_stage) {
            staging_end(start, length);
        }
    }
}

/* The part of rank in full; sets *longest to the bytes of the longest part. */
static struct part part_of(void *full, size_t blocks, const size_t *bytes, uint32_t rank, uint64_t *longest) {
    struct part part = {.start = full};
    *longest = 0;
    for (uint32_t index = 0; index < segment.options.world_size; index++) {
        part.start += index < rank ? bytes[index] : 0;
        part.stride += bytes[index];
        *longest = (uint64_t)blocks * bytes[index] > *longest ? (uint64_t)blocks * bytes[index] : *longest;
    }
    part.piece = bytes[rank];
    part.bytes = (uint64_t)blocks * bytes[rank];
    if (part.piece == part.stride) { /* all blocks are this rank's: they touch */
        part.piece = part.stride = (size_t)part.bytes;
    }
    return part;
}

/* All ranks' parts of one chunk come from their stages; starts add up, so one pass over bytes is enough. */
static void take_chunk(void *full, size_t blocks, const size_t *bytes, size_t stride, size_t chunk, size_t turn) {
    unsigned char *start = full;
    for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
        struct part part = {.start = start, .piece = bytes[rank], .stride = stride, .bytes = (uint64_t)blocks * bytes[rank]};
        if (rank != segment.options.rank) {
            copy_chunk(&part, chunk, rank, turn, 0);
        }
        start += bytes[rank];
    }
}

static void gather(const char *label, const struct agree_call *call, void *full, size_t blocks, const size_t *bytes) {
    uint64_t longest;
    struct part own = part_of(full, blocks, bytes, segment.options.rank, &longest);
    size_t chunks = chunks_of(longest, CHUNK_BYTES), stride = 0;
    for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
        stride += bytes[rank];
    }
    agree_enter(label, call);
    size_t turn = segment_claim(longest < CHUNK_BYTES ? (size_t)longest : CHUNK_BYTES);
    copy_chunk(&own, 0, segment.options.rank, turn, 1);
    agree_pass();
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        take_chunk(full, blocks, bytes, stride, chunk, turn);
        if (chunk + 1 < chunks) {
            turn = segment_claim(CHUNK_BYTES);
            copy_chunk(&own, chunk + 1, segment.options.rank, turn, 1);
            barrier_pass();
        }
    }
    agree_leave();
}

void comm_all_gather(const char *label, void *full, size_t blocks, const size_t *bytes) {
    uint64_t shape = 0, total = 0;
    if (segment.options.world_size < 2) {
        return;
    }
    for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
        shape = agree_mix(shape, bytes[rank]);
        total += (uint64_t)blocks * bytes[rank];
    }
    gather(label, &(struct agree_call){.kind = KIND_ALL_GATHER, .bytes = total, .blocks = blocks, .shape = shape}, full, blocks, bytes);
}

void comm_broadcast(const char *label, void *data, size_t bytes, uint32_t root) {
    size_t parts[BOARD_RANKS_MAX] = {0};
    if (segment.options.world_size < 2) {
        return;
    }
    parts[root] = bytes; /* a gather where only the root has anything */
    gather(label, &(struct agree_call){.kind = KIND_BROADCAST, .bytes = bytes, .root = root}, data, 1, parts);
}

void comm_all_gather_words(const char *label, uint64_t mine, uint64_t *all) {
    uint32_t ranks = segment.options.world_size, self = segment.options.rank;
    if (ranks < 2) {
        all[0] = mine;
        return;
    }
    agree_enter(label, &(struct agree_call){.kind = KIND_ALL_GATHER_WORDS, .bytes = (uint64_t)ranks * sizeof mine});
    size_t turn = segment_claim(sizeof mine);
    memcpy(segment_stage(self, turn), &mine, sizeof mine);
    agree_pass();
    for (uint32_t rank = 0; rank < ranks; rank++) {
        memcpy(&all[rank], segment_stage(rank, turn), sizeof mine);
    }
    agree_leave();
}
