/*
 * stdin. All ranks run the same program, so all of them must read the same bytes.
 *
 *   a file          rank 0 has the launcher's own descriptor, the others have their own at the same position
 *   /dev/null       as it is
 *   closed          closed
 *   a pipe, socket  the launcher reads and gives every rank a copy through a pipe. (What is read ahead is lost for whoever would read
 *                   the same pipe after us, which is said at the end: AR-INPUT-TAKEN; with one rank the program has the pipe itself.)
 *   a terminal      the same, through a pseudo terminal per rank
 *
 * A program that asks for a password throws away what was typed before (TCSAFLUSH), and each rank comes there in its own time. What is typed once
 * rank 0 has done so is held back from a rank that has not yet, which would throw the answer away and wait for ever; for INPUT_HOLD_MS at most.
 *
 * A terminal that goes away is the end of input: each rank's is hung up when it has read what rank 0 may have read, which would be lost otherwise.
 *
 * A rank that does not read does not hold up the others until INPUT_QUEUE_MAX bytes wait for it.
 */
#ifndef ACCEL_RUN_INPUT_H
#define ACCEL_RUN_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "console.h"
#include "../loop.h"
#include "../problem.h"

#define INPUT_QUEUE_MAX (64u << 20)
#define INPUT_QUEUE_LOW 65536 /* reading goes on while some rank has less than this */
#define INPUT_HOLD_MS 5000
#define INPUT_LOOK_MS 200 /* after the end of a terminal, between looks at what ranks have read */

struct input_sink {
    int sink;    /* owned: our end; -1: none, or the rank reads no more */
    int slave;   /* owned until the rank is started: its end */
    char *queue; /* owned */
    size_t begin, end, capacity;
    uint64_t thrown_away;   /* how often the rank has thrown away what was typed */
    uint64_t held_since_ms; /* 0: nothing is held; otherwise since when, and from where in the queue */
    size_t held_from;
};

struct input {
    const struct console *console; /* borrowed; NULL where the source is not standard input */
    int source;                    /* 0, or another descriptor of the launcher's (inherited.h) */
    bool is_terminal, is_file;
    uint32_t world_size;
    bool is_copied;     /* we read and copy */
    bool is_shared;     /* standard input is the caller's, too: a loop around us ("while read") waits for what the program does not read */
    bool has_ended;     /* Ctrl-D at a terminal is not the end, it is passed on */
    uint64_t looked_ms; /* a terminal has ended: its end, or the last look at what ranks have read of it */
    bool has_gap;       /* there was no memory for what a rank was to be given: it must not read on */
    size_t lost;        /* bytes that rank 0 has been given and never read, known when it has gone */
    int rest;           /* owned: where they lie after the end of input; 0: none */
    struct input_sink *sinks; /* owned, per rank */
};

int input_open(struct input *input, const struct console *console, uint32_t world_size, struct problem *problem);
/* Another descriptor that the ranks read: a file, or a pipe, which is copied. So is a file that may not be opened again. */
int input_open_other(struct input *input, int source, bool is_file, uint32_t world_size, struct problem *problem);
/* What becomes the source's number of the rank; -1 for closed. */
int input_descriptor(const struct input *input, uint32_t rank);
void input_started(struct input *input, uint32_t rank);
void input_add(struct input *input, struct loop *loop);
/* When input_settle is to be called, in ms; -1: not at all. */
int input_holds(const struct input *input, uint64_t now_ms);
/* Is there a terminal that would be read, if we were not in its background? */
bool input_is_shut_out(const struct input *input);
void input_settle(struct input *input, uint64_t now_ms);
/* Bytes of a pipe that the caller reads, too, and that rank 0, which has ended, was given and did not read. */
size_t input_taken(const struct input *input);
/* The window has a new size. */
void input_copy_size(struct input *input);
void input_clear(struct input *input);

#endif
