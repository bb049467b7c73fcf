/*
 * Looks at the board: who makes no progress while others wait, who has left too early. Pure: snapshots in, one finding out.
 */
#ifndef ACCEL_RUN_WATCH_H
#define ACCEL_RUN_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../config/board.h"

struct watch_rank {
    /* filled by the caller before each look */
    bool has_ended;         /* the rank */
    bool trainer_has_ended; /* the process in it that claimed last; a shell around it may start the next generation's */
    uint32_t generation;    /* claims so far: progress is compared within the same one (segment.h); 0: none */
    uint32_t program;       /* which of a script's it is in: also before its claim, where it meets the others'; 0: not known */
    uint32_t phase;
    uint64_t step, collective; /* meetings count as collectives */
    uint64_t meetings;
    bool is_waiting, waits_for_turn;
    bool is_stopped; /* by a signal or a debugger */
    char where[BOARD_WHERE_CHARS];
    /* kept by watch_look */
    uint64_t mark; /* of the state above when it changed last */
    uint64_t since_ms;
    bool is_named;
    bool is_crossed; /* of rank 0: that all wait has been said */
    bool is_left;    /* it waited at the last look, and another one had gone on to its next program */
};

enum watch_finding {
    WATCH_NOTHING,
    WATCH_EARLY,   /* `rank` has ended, or is in a later program, `other` waits for it for ever */
    WATCH_STALLED, /* `rank` has made no progress for stall_ms, `other` (and maybe more) wait for it; waiting 0: all others have ended */
    WATCH_RESUMED, /* `rank`, named before, goes on */
    WATCH_CROSSED, /* all wait for a turn in one collective, and nobody is late: in each rank another thread waits. `rank`: 0 */
    WATCH_APART,   /* all wait, and nobody is late: some in a collective, others in a meeting to which those have not come. `rank`: 0 */
};

struct watch_result {
    enum watch_finding finding;
    uint32_t rank, other, waiting; /* waiting: how many wait */
    uint64_t still_ms;
};

/* stall_ms 0: never is too long, which leaves WATCH_EARLY. */
struct watch_result watch_look(struct watch_rank *ranks, uint32_t world_size, uint64_t now_ms, uint64_t stall_ms);

/* "in the backward pass of step 18 (linear)": for messages; text[size]. */
void watch_words(const struct watch_rank *rank, char *text, size_t size);

#endif
