/* What the program has printed reaches its output before the job is stopped. */
#ifndef ACCEL_SHIM_LAST_WORDS_H
#define ACCEL_SHIM_LAST_WORDS_H

#include "../config/board.h"

/* On rank 0, whose output is the job's: empties the buffers in which libc, libstdc++ and Python keep it, where no other thread has them. Any thread. */
void last_words_say(struct board *board);
/* On the others, before the launcher hears of a problem and ends all: rank 0, which meets the same or sees the abort word, has a moment. */
void last_words_await(struct board *board);

#endif
