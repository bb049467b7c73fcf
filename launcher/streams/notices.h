/*
 * Everything accel-run itself says on stderr, as whole lines, once.
 *
 * Rules
 *  - A text that several ranks send is printed once, as the run's. One that only another rank than 0 sends carries its name: it waits
 *    NOTICES_WAIT_MS for rank 0 to say the same.
 *  - At most NOTICES_LINES_MAX differing lines of a rank's own output are shown; and none before the rank has begun to train: until then it
 * is a copy of rank 0 with other process numbers and clocks.
 */
#ifndef ACCEL_RUN_NOTICES_H
#define ACCEL_RUN_NOTICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "printer.h"
#include "../problem.h"

#define NOTICES_WAIT_MS 300
#define NOTICES_LINES_MAX 20
#define NOTICES_TEXTS_MAX 512

struct notices_text {
    uint64_t hash;
    uint32_t printed; /* times */
    uint32_t *sent;   /* owned, per rank: times */
};

struct notices_held {
    uint32_t rank;
    uint64_t since_ms;
    uint32_t text; /* index of notices_text */
    char *line;    /* owned; NULL: free */
};

struct notices_rank {
    uint32_t shown;                /* differing lines so far, held ones included */
    bool released;                 /* has begun to train */
    char *held[NOTICES_LINES_MAX]; /* owned */
    uint32_t held_count;
};

struct notices {
    uint32_t world_size;
    uint32_t first; /* number of the first rank here; ranks are counted from it */
    struct notices_text texts[NOTICES_TEXTS_MAX];
    uint32_t texts_count;
    struct notices_held held[64];
    struct notices_rank *ranks; /* owned */
    struct printer printer;
};

int notices_open(struct notices *notices, uint32_t world_size);
void notices_clear(struct notices *notices);

/* A line of our own: "accel-run: ...". */
void notices_say(struct notices *notices, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "accel-run: error ID: what" and "  what to do: cure". */
void notices_problem(struct notices *notices, const char *kind, const struct problem *problem);
/* A log line of a rank's shim. */
void notices_log(struct notices *notices, uint32_t rank, char level, const char *text, uint64_t now_ms);
/* A line of a rank's own output that rank 0 has not. */
void notices_line(struct notices *notices, uint32_t rank, const char *line, size_t bytes);
/* The rank has begun to train: its differing lines are worth showing. */
void notices_release(struct notices *notices, uint32_t rank);
/* Prints what has waited long enough; everything when `all`. */
void notices_settle(struct notices *notices, uint64_t now_ms, bool all);
bool notices_is_waiting(const struct notices *notices);

#endif
