/*
 * Collectives between ranks on one host, through staging buffers in shared memory.
 *
 * Rules
 *  - The program's memory stays where it is. It passes through shared memory in chunks small enough that a chunk is still in the second-level
 *    cache when it is written back: main memory sees each gradient read once and written once, as a reduction in place would.
 *  - One barrier per chunk, which has a turn of the ring of its own (segment.h).
 *  - Over several hosts the stages of other hosts' ranks are filled by the leader before anybody looks (hosts.h): the code is the same.
 *  - The first barrier of every collective is agree_pass(). Geometry comes from what it compares (bytes, ranks) and from nothing else.
 */
#include "agree.h"
#include "all_reduce.h"
#include "barrier.h"
#include "hosts.h"
#include "segment.h"
#include "staging.h"

#include <string.h>

enum { CHUNK_BYTES = COMM_CHUNK_BYTES };

void comm_barrier(const char *label) {
    if (segment.options.world_size < 2) {
        return;
    }
    agree_enter(label, &(struct agree_call){.kind = KIND_BARRIER});
    agree_pass(NULL);
    agree_leave();
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

/* What each rank has of one chunk of its part. Filled on a leader of several hosts, who alone asks. */
static struct agree_stage stage_of(size_t *lengths, size_t blocks, const size_t *bytes, size_t chunk, size_t turn) {
    for (uint32_t rank = 0; segment_is_spread() && segment_is_leader() && rank < segment.options.world_size; rank++) {
        uint64_t whole = (uint64_t)blocks * bytes[rank], from = (uint64_t)chunk * CHUNK_BYTES;
        lengths[rank] = from >= whole ? 0 : whole - from < CHUNK_BYTES ? (size_t)(whole - from) : CHUNK_BYTES;
    }
    return (struct agree_stage){.turn = turn, .bytes = lengths};
}

static void gather(const char *label, const struct agree_call *call, void *full, size_t blocks, const size_t *bytes) {
    uint64_t longest;
    struct part own = part_of(full, blocks, bytes, segment.options.rank, &longest);
    size_t chunks = chunks_of(longest, CHUNK_BYTES), stride = 0, lengths[BOARD_RANKS_MAX];
    for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
        stride += bytes[rank];
    }
    agree_enter(label, call);
    size_t turn = segment_claim(longest < CHUNK_BYTES ? (size_t)longest : CHUNK_BYTES);
    copy_chunk(&own, 0, segment.options.rank, turn, 1);
    struct agree_stage stage = stage_of(lengths, blocks, bytes, 0, turn);
    agree_pass(&stage);
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        take_chunk(full, blocks, bytes, stride, chunk, turn);
        if (chunk + 1 < chunks) {
            turn = segment_claim(CHUNK_BYTES);
            copy_chunk(&own, chunk + 1, segment.options.rank, turn, 1);
            stage = stage_of(lengths, blocks, bytes, chunk + 1, turn);
            barrier_pass();
            hosts_bring(&stage);
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
    agree_pass(&(struct agree_stage){.turn = turn, .each = sizeof mine});
    for (uint32_t rank = 0; rank < ranks; rank++) {
        memcpy(&all[rank], segment_stage(rank, turn), sizeof mine);
    }
    agree_leave();
}

uint32_t comm_first_other(const uint64_t *all) {
    uint32_t rank = 1;
    while (rank < segment.options.world_size && all[rank] == all[0]) {
        rank++;
    }
    return rank;
}
