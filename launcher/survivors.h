/*
 * Ranks whose first process has ended, and not their program.
 */
#ifndef ACCEL_RUN_SURVIVORS_H
#define ACCEL_RUN_SURVIVORS_H

#include "job.h"

/* Asked when its first process has ended, and from then on again and again: does the rank go on? now_ms: job_clock_ms() */
bool survivors_include(struct job *job, struct rank *rank, uint64_t now_ms);
/* How its program has ended is known: it has not ended well, and neither the user nor its script has asked it to end. */
bool survivors_has_failed(struct job *job, const struct rank *rank, uint64_t now_ms);

#endif
