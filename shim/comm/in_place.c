/*
 * All-reduce where the data lies: each rank reads its part of all ranks' memory and writes the sum to all of them. 2 * ranks * bytes pass through memory,
 * and nothing less is possible.
 *
 *  - Each rank publishes where its spans lie before the first barrier; after it all ranks see the same places, so they choose the same spans.
 *  - Nobody may read or write the program's memory before the last barrier.
 *  - What a sum is added to takes part likewise, where it lies in all ranks' arenas; else each rank adds on its own.
 */
#include "all_reduce.h"

#include "agree.h"
#include "arena_blocks.h"
#include "barrier.h"
#include "staging.h"

#include <string.h>

enum {
    BLOCK_BYTES = 4 << 10, /* what is copied to a third rank and on, or added to something, is still in the first cache */
    SPANS_MAX = ARENA_PLACES_MAX / 2,
};

struct in_place {
    const struct comm_span *spans;
    void *const *onto;
    size_t count, element;
    kernels_reduce_function *sum, *add;
    uint64_t bytes; /* of the spans that lie in all ranks' arenas */
};

/* A rank that is through with a call may publish for the next one while others still look at this one's places. */
static unsigned turn;

/* Of the span, and of what its sum is added to. */
static uint64_t *places_of(uint32_t rank, size_t index) {
    return &arena_places(rank, turn % 2)[2 * index];
}

static void publish_places(const struct in_place *call) {
    for (size_t i = 0; i < call->count && i < SPANS_MAX; i++) {
        size_t bytes = call->spans[i].count * call->element;
        uint64_t *places = places_of(segment.options.rank, i);
        places[0] = arena_place(call->spans[i].data, bytes);
        places[1] = call->onto[i] ? arena_place(call->onto[i], bytes) : 0;
    }
}

/* Has every rank a place, which: 0 or 1, for this span? The same answer on all ranks. */
static bool is_placed(size_t index, int which) {
    for (uint32_t rank = 0; rank < segment.options.world_size && index < SPANS_MAX; rank++) {
        if (!places_of(rank, index)[which]) {
            return false;
        }
    }
    return index < SPANS_MAX;
}

/* Where all ranks have the bytes from `from` on. */
static void find_views(size_t index, int which, size_t from, unsigned char **views) {
    for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
        views[rank] = arena_view(rank, places_of(rank, index)[which]) + from;
    }
}

/* The sum in the spans' place: two ranks' as the kernel goes along, the others' from the cache. */
static void write_sums(const struct in_place *call, unsigned char *const *views, const void *const *sources, size_t at, size_t bytes) {
    call->sum(views[0] + at, views[1] + at, sources, segment.options.world_size, bytes / call->element);
    for (uint32_t rank = 2; rank < segment.options.world_size; rank++) {
        memcpy(views[rank] + at, views[0] + at, bytes);
    }
}

/* The sum added to what was there. What the others have of it is not read, so it is written past the cache: 7.8 ms instead of 11 for 100 MiB. */
static void add_sums(const struct in_place *call, unsigned char *const *onto, const void *const *sources, size_t at, size_t bytes) {
    unsigned char sum[BLOCK_BYTES] __attribute__((aligned(COMM_CACHE_LINE))), *own = onto[segment.options.rank] + at;
    size_t count = bytes / call->element;
    call->sum(sum, NULL, sources, segment.options.world_size, count);
    call->add(own, sum, (const void *[]){own, sum}, 2, count);
    for (uint32_t rank = 0; rank < segment.options.world_size; rank++) {
        if (rank != segment.options.rank) {
            staging_stream(onto[rank] + at, sum, bytes);
        }
    }
}

/* Bytes [from, from + bytes) of a span. */
static void sum_piece(const struct in_place *call, size_t index, size_t from, size_t bytes) {
    uint32_t ranks = segment.options.world_size;
    bool is_added = is_placed(index, 1);
    size_t block = ranks == 2 && !is_added ? bytes : BLOCK_BYTES;
    unsigned char *views[BOARD_RANKS_MAX], *onto[BOARD_RANKS_MAX];
    const void *sources[BOARD_RANKS_MAX];
    find_views(index, 0, from, views);
    if (is_added) {
        find_views(index, 1, from, onto);
    }
    for (size_t at = 0; at < bytes; at += block) {
        for (uint32_t rank = 0; rank < ranks; rank++) {
            sources[rank] = views[rank] + at;
        }
        if (is_added) {
            add_sums(call, onto, sources, at, smaller(bytes - at, block));
        } else {
            write_sums(call, views, sources, at, smaller(bytes - at, block));
        }
    }
}

/* This rank's part of the placed spans, taken as one stream of bytes that is cut evenly. */
static void sum_own_part(const struct in_place *call) {
    uint64_t ranks = segment.options.world_size, self = segment.options.rank, lines = call->bytes / COMM_CACHE_LINE;
    uint64_t begin = lines * self / ranks * COMM_CACHE_LINE, at = 0;
    uint64_t end = self + 1 == ranks ? call->bytes : lines * (self + 1) / ranks * COMM_CACHE_LINE;
    for (size_t i = 0; i < call->count && at < end; i++) {
        uint64_t bytes = call->spans[i].count * call->element;
        if (!is_placed(i, 0)) {
            continue;
        }
        uint64_t from = begin > at ? begin - at : 0, to = end - at < bytes ? end - at : bytes;
        if (from < to) {
            sum_piece(call, i, (size_t)from, (size_t)(to - from));
        }
        at += bytes;
    }
}

/* What the rings and this rank have to do besides. */
static void finish_span(const char *label, const struct in_place *call, size_t index, enum comm_dtype dtype, enum comm_op op) {
    const struct comm_span *span = &call->spans[index];
    void *onto = call->onto[index];
    bool in_place = is_placed(index, 0);
    if (!in_place) {
        comm_all_reduce(label, span, 1, dtype, op);
    }
    if (onto && !(in_place && is_placed(index, 1))) {
        call->add(onto, NULL, (const void *[]){onto, span->data}, 2, span->count);
    }
}

static void sum_placed(const char *label, struct in_place *call, const struct agree_call *what) {
    ARENA_SCOPE(&arena.sharing);
    turn++;
    publish_places(call);
    agree_enter(label, what);
    agree_pass(NULL);
    for (size_t i = 0; i < call->count; i++) {
        call->bytes += is_placed(i, 0) ? (uint64_t)call->spans[i].count * call->element : 0;
    }
    sum_own_part(call);
    segment.statistics.in_place += call->bytes;
    barrier_pass();
    agree_leave();
}

void comm_all_reduce_in_place(const char *label, const struct comm_span *spans, void *const *onto, size_t count, enum comm_dtype dtype,
                              enum comm_op op) {
    struct agree_call what = {.kind = KIND_ALL_REDUCE, .dtype = dtype, .op = op, .blocks = count};
    struct in_place call = {.spans = spans,
                            .onto = onto,
                            .count = count,
                            .element = comm_dtype_bytes(dtype),
                            .sum = kernels_reduce(dtype, op),
                            .add = kernels_reduce(dtype, COMM_SUM)};
    for (size_t i = 0; i < count; i++) {
        what.bytes += (uint64_t)spans[i].count * call.element;
    }
    sum_placed(label, &call, &what);
    for (size_t i = 0; i < count; i++) {
        finish_span(label, &call, i, dtype, op);
    }
}
