/*
 * A problem: what stops a run, in the words the user will read. Filled by whoever detects it; printed only by main.c and by notices.c.
 * Every id has an entry in docs/troubleshooting.md.
 */
#ifndef ACCEL_RUN_PROBLEM_H
#define ACCEL_RUN_PROBLEM_H

#define EXIT_LAUNCHER 125
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127

struct problem {
    int exit_code; /* 0: no problem */
    char id[32];
    char what[2048];
    char cure[1024];
};

/* Fills *problem; `what` is a printf format. Returns -1, so that a detector can say: return problem_set(...). */
int problem_set(struct problem *problem, int exit_code, const char *id, const char *cure, const char *what, ...)
    __attribute__((format(printf, 5, 6)));

#endif
