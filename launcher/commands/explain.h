/*
 * `accel-run explain [-n N] [--steps K] program arguments`: an ordinary run that ends after some steps, and the list of what rank 0's library has met.
 * The program's own output goes to stderr; the explanation, text or JSON, is all that is on stdout.
 */
#ifndef ACCEL_RUN_EXPLAIN_H
#define ACCEL_RUN_EXPLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "../../config/config.h"
#include "../plan.h"
#include "../problem.h"

struct explain_note {
    const char *kind; /* of explain.c's table */
    unsigned long long count;
    char *name, *detail; /* owned by `text` */
    char *text;          /* owned */
};

struct explain {
    bool is_asked, json;
    uint32_t steps;
    int output; /* owned: what stdout was */
    bool is_over;
    unsigned long long steps_made;
    char why[160];             /* it ended */
    struct explain_note *list; /* owned */
    int count;
};

/* Takes "explain" and its own options out of the command line. Returns 0 (also when it is not asked for), or -1 with *problem. */
int explain_take(struct explain *explain, int *argc, char ***argv, struct problem *problem);

/* Before the run: at least two ranks; stdout becomes stderr. Returns 0, or -1 with *problem. */
int explain_begin(struct explain *explain, struct config *config, struct problem *problem);

/* A line of rank 0's library. Returns true when the ranks wait to be ended. */
bool explain_hear(struct explain *explain, const char *text);

/* Prints the explanation and frees all. problem: what stopped the run; exit_code 0: nothing. code: the run's exit code. Returns the exit code. */
int explain_finish(struct explain *explain, const struct plan *plan, const struct problem *problem, int code);

#endif
