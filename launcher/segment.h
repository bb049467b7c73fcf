/*
 * The shared memory of a job: board and communication area, in a memfd (config/board.h).
 *
 * A wrapper script may run two training programs one after the other: the k-th claim of each rank belongs to the k-th segment (generation),
 * so that the second program finds clean memory and never meets the first.
 */
#ifndef ACCEL_RUN_SEGMENT_H
#define ACCEL_RUN_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "../config/board.h"

struct segment {
    int memfd; /* owned; -1: none */
    size_t bytes;
    struct board *board; /* mapped, owned; NULL: released */
};

struct segments {
    uint32_t world_size;
    uint32_t hosts, host;            /* for the board; 0: one host */
    const struct board_host *places; /* borrowed: of all hosts */
    struct segment *list;            /* owned; index: generation */
    uint32_t count;
    uint32_t released; /* generations before this one are over */
};

/* A new memfd. Sealed: a rank that cut it short would take everybody along (SIGBUS). Returns it, or -1 with errno. */
int segment_memory(uint64_t bytes);

/* The segment of a generation, made when it is asked for first. NULL with errno when it cannot be made, or is over. Borrowed; moves when another is
 * made. */
struct segment *segments_get(struct segments *segments, uint32_t generation);
/* Nobody comes to the first generation that is left any more: its memory is given back when those who have it end. */
void segments_release(struct segments *segments);

/* Rank 0 was held up just now (board.h: held_ns): to the ranks of every generation. */
void segments_hold(struct segments *segments);
/* Tells every rank of every generation to stop. */
void segments_abort(struct segments *segments);
void segments_clear(struct segments *segments);

#endif
