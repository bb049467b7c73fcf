/*
 * Rank 0 has met a problem. What its program has printed until then is to stand before it, and lies in buffers of the program's, which the library empties
 * (shim/last_words.c). That runs code of the program's, which may wait for a lock for ever: so the library says first what has happened, and here it is
 * kept for a moment.
 */
#include "last_words.h"

enum { MOMENT_MS = 500 };

/* Nothing is to come where somebody else says it of rank 0: the launcher itself, or a child. */
static bool are_said(const struct job *job) {
    const struct board *board = job->first ? NULL : job->ranks[0].board;
    return !board || atomic_load(&board->abort) != 1 || atomic_load(&board->last_words);
}

void last_words_hear(struct job *job, uint32_t rank, const struct problem *problem) {
    if (rank || are_said(job) || job->kept.exit_code) {
        supervise_problem(job, problem);
        return;
    }
    job->kept = *problem;
    job->kept_until_ms = job_clock_ms(job) + MOMENT_MS;
}

void last_words_release(struct job *job) {
    struct problem problem = job->kept;
    job->kept.exit_code = 0;
    if (problem.exit_code)
        supervise_problem(job, &problem);
}

void last_words_settle(struct job *job) {
    if (job->kept.exit_code && (are_said(job) || job_clock_ms(job) >= job->kept_until_ms))
        last_words_release(job);
}
