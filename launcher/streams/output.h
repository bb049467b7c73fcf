/*
 * What the ranks print, line by line: rank 0's lines are the run's; a line of another rank is handed on only where rank 0 says something
 * else.
 *
 * Rules
 *  - Pure: bytes and a clock go in, differing lines come out. Nobody waits, nothing is read or written here.
 *  - Bounded: OUTPUT_LINE_MAX bytes of a line are kept, and of what one rank has printed and another has not yet OUTPUT_LINES lines of OUTPUT_BYTES: a model or
 *    a vocabulary that is printed at once. Many ranks share OUTPUT_BYTES_OF_ALL: behind a reader that rests all but rank 0 run on. A rank further ahead of
 *    rank 0 is judged early; one that is further behind is not compared with lines that are forgotten.
 *  - What rank 0 has said and nobody has read yet is not known: while it is held up, or when it was cut short, no other rank's line differs. Where it has died,
 *    and nobody has asked it to end, those differ in whose place it has said something else.
 *  - Lines are aligned as diff does it, a few lines forward: one line more on a rank (a warning) does not make all that follow differ.
 *  - Progress bars (text ended by \r) are not compared and not handed on (L20).
 */
#ifndef ACCEL_RUN_OUTPUT_H
#define ACCEL_RUN_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#define OUTPUT_LINE_MAX 65536
#define OUTPUT_LINES 32768
#define OUTPUT_BYTES (4u << 20)
#define OUTPUT_BYTES_OF_ALL (64u << 20)
#define OUTPUT_LOOK_AHEAD 16 /* lines of rank 0 among which a line may be found */
/* A line that differs waits this long for rank 0 to say it too: with 11 processes on two cores rank 0 was more than 2 s behind at its first line. */
#define OUTPUT_WAIT_MS 10000
#define OUTPUT_PAUSE_MS 2000 /* nobody has looked for so long: this process was stopped, or the machine was */
#define OUTPUT_MISSED 1024   /* lines that have waited too long are looked for among so many more of rank 0's at most */

/* line: without its line end; borrowed for the call. */
typedef void output_show(void *context, uint32_t rank, const char *line, size_t bytes);

/* What is known of rank 0. */
enum output_hold {
    OUTPUT_KNOWN, /* it is read, or has said all that it would */
    OUTPUT_HELD,  /* it is not read now, or was ended: nothing differs from what nobody has read */
    OUTPUT_CUT,   /* it died: another line than rank 0 has said at its place differs at the end, and none behind its last whole line */
};

struct output;

/* For one stream (stdout or stderr) of all ranks. NULL: out of memory. */
struct output *output_new(uint32_t world_size, output_show *show, void *context);
void output_free(struct output *output);

void output_feed(struct output *output, uint32_t rank, const char *bytes, size_t count, uint64_t now_ms);
/* The rank's stream has ended: what it began to print counts as a line, unless rank 0 is held up; to be said again when it is not. */
void output_end(struct output *output, uint32_t rank, uint64_t now_ms);
/* Nobody reads this stream any more: nothing of it differs from now on. */
void output_give_up(struct output *output);
/* output_feed(), output_end() and output_settle() do as was said last. */
void output_hold(struct output *output, enum output_hold hold);
/* Is the last that rank 0 has said half a line, and not a bar? */
int output_is_within_line(const struct output *output);
/* Judges lines that have waited long enough; all of them when `all`. */
void output_settle(struct output *output, uint64_t now_ms, int all);
/* Are there lines waiting? Then output_settle() is to be called more often than OUTPUT_PAUSE_MS apart. */
int output_is_waiting(const struct output *output);

#endif
