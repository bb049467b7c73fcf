/*
 * All-reduce between ranks on one host.
 *
 *  - A rank never stages its own part of a chunk: it reduces straight from the program's memory and writes the result back there.
 *  - Between two barriers a rank takes the results of the chunk before, reduces its part of this one, stages the next one.
 */
#include "all_reduce.h"

#include "agree.h"
#include "barrier.h"
#include "hosts.h"
#include "staging.h"

#include <string.h>

enum {
    FLAT_BYTES = 32 << 10,   /* up to here, over the ranks, each rank reads all of all ranks: one barrier instead of two */
    FLAT_PIECE_BYTES = 4096, /* of them at a time */
    CHUNK_BYTES = COMM_CHUNK_BYTES,
    HOST_CHUNK_BYTES = SEGMENT_TURN_MAX, /* on one host fewer barriers count: 4 MiB take 187 us instead of 210 */
    PIECE_BYTES = 4096,                  /* is still in the first cache when it is written once more */
    CACHE_LINE = COMM_CACHE_LINE,
};

size_t reduction_chunk_length(const struct reduction *reduction, size_t chunk) {
    uint64_t start = (uint64_t)chunk * reduction->chunk;
    return (size_t)(reduction->bytes - start < reduction->chunk ? reduction->bytes - start : reduction->chunk);
}

void reduction_stage(struct reduction *reduction, size_t chunk) {
    size_t length = reduction_chunk_length(reduction, chunk);
    uint32_t self = segment.options.rank, index = self - segment.first;
    size_t before = smaller(index * reduction->slot, length), own = reduction_part(length, reduction->slot, index);
    reduction->turns[chunk % 3] = segment_claim(reduction->chunk);
    unsigned char *stage = segment_stage(self, reduction->turns[chunk % 3]);
    uint64_t start = staging_begin();
    stream_read(&reduction->staged, stage, before, staging_copy());
    stream_skip(&reduction->staged, own);
    stream_read(&reduction->staged, stage + before + own, length - before - own, staging_copy());
    staging_end(start, length - own);
}

/* The result is written past the cache while it is still in the first one. sources: changed. */
static void reduce_past_cache(struct reduction *reduction, unsigned char *data, unsigned char *result, const void **sources, size_t bytes) {
    uint32_t ranks = segment.options.world_size;
    for (size_t at = 0, piece; at < bytes; at += piece) {
        piece = smaller(bytes - at, PIECE_BYTES);
        reduction->kernel(data + at, NULL, sources, ranks, piece / reduction->element);
        staging_copy()(result + at, data + at, piece);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            sources[rank] = (const unsigned char *)sources[rank] + piece;
        }
    }
}

/* This rank's part: all ranks' values into the program's memory and into this rank's own slot, where the others find it. */
static void reduce_part(struct reduction *reduction, size_t chunk) {
    uint32_t self = segment.options.rank, ranks = segment.options.world_size;
    size_t length = reduction_chunk_length(reduction, chunk), own = reduction_part(length, reduction->slot, self),
           start = self * reduction->slot;
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
            reduce_past_cache(reduction, data, result, sources, taken);
        } else {
            reduction->kernel(data, result, sources, ranks, taken / reduction->element);
        }
    }
    stream_skip(&reduction->reduced, length - start - own);
}

/* The other ranks' results come to the program's memory. */
static void finish_chunk(struct reduction *reduction, size_t chunk) {
    size_t length = reduction_chunk_length(reduction, chunk);
    for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
        size_t part = reduction_part(length, reduction->slot, rank);
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
    reduction_stage(reduction, 0);
    agree_pass(NULL);
    if (!agree_same_list()) {
        return 0;
    }
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        if (chunk) {
            finish_chunk(reduction, chunk - 1);
        }
        reduce_part(reduction, chunk);
        if (chunk + 1 < chunks) {
            reduction_stage(reduction, chunk + 1);
        }
        barrier_pass();
    }
    finish_chunk(reduction, chunks - 1);
    return 1;
}

/* Small ones: everybody stages all and reduces all, also of other hosts. Through a buffer of our own, so that
   the same instructions see the same bytes on all ranks. */
static int reduce_flat(struct reduction *reduction) {
    unsigned char result[FLAT_PIECE_BYTES] __attribute__((aligned(CACHE_LINE)));
    const void *sources[BOARD_RANKS_MAX];
    size_t bytes = (size_t)reduction->bytes, turn = segment_claim(bytes);
    stream_read(&reduction->staged, segment_stage(segment.options.rank, turn), bytes, memcpy);
    agree_pass(&(struct agree_stage){.turn = turn, .each = bytes});
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

/* From the number of bytes and of ranks alone. Hosts may have different numbers of ranks: their chunks are the same all the same. */
static void cut_chunks(struct reduction *reduction) {
    uint32_t parts = segment.last - segment.first;
    if (segment_is_spread()) {
        reduction->chunk =
            smaller((reduction->bytes < CHUNK_BYTES ? (size_t)reduction->bytes : CHUNK_BYTES) + CACHE_LINE - 1, CHUNK_BYTES) / CACHE_LINE *
            CACHE_LINE;
        reduction->slot = (reduction->chunk / parts / CACHE_LINE + 1) * CACHE_LINE;
        return;
    }
    reduction->slot = HOST_CHUNK_BYTES / parts / CACHE_LINE * CACHE_LINE;
    if (reduction->bytes < reduction->slot * parts) { /* a single chunk: cut it evenly */
        reduction->slot = ((size_t)reduction->bytes / parts / CACHE_LINE + 1) * CACHE_LINE;
    }
    reduction->chunk = reduction->slot * parts;
}

static int reduce_all(struct reduction *reduction) {
    if (reduction->bytes <= FLAT_BYTES / segment.options.world_size) {
        return reduce_flat(reduction);
    }
    return segment_is_spread() ? hosts_reduce(reduction) : reduce_staged(reduction);
}

static int reduce_spans(const char *label, uint64_t list, const struct comm_span *spans, size_t count, enum comm_dtype dtype,
                        enum comm_op op) {
    if (segment.options.world_size < 2) {
        return 1;
    }
    struct reduction reduction = {.kernel = kernels_reduce(dtype, op), .element = comm_dtype_bytes(dtype)};
    for (size_t index = 0; index < count; index++) {
        reduction.bytes += (uint64_t)spans[index].count * reduction.element;
    }
    reduction.staged = (struct stream){.spans = spans, .count = count, .element = reduction.element};
    reduction.reduced = reduction.finished = reduction.staged;
    cut_chunks(&reduction);
    agree_enter(label, &(struct agree_call){.kind = KIND_ALL_REDUCE, .dtype = dtype, .op = op, .bytes = reduction.bytes, .list = list});
    size_t turn_before = segment.ring_offset;
    int done = reduce_all(&reduction);
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
