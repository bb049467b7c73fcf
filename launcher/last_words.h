/* What rank 0 prints before its problem is shown (last_words.c). */
#ifndef ACCEL_RUN_LAST_WORDS_H
#define ACCEL_RUN_LAST_WORDS_H

#include "job.h"

enum { LAST_WORDS_LOOK_MS = 5 };

/* Has a rank met this problem: now or in a moment it is the job's. */
void last_words_hear(struct job *job, uint32_t rank, const struct problem *problem);
/* The one that is kept comes before what else happens. */
void last_words_release(struct job *job);
/* Each round. */
void last_words_settle(struct job *job);

#endif
