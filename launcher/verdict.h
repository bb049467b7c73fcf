/*
 * How the run ended: an exit code and at most one paragraph. Pure.
 */
#ifndef ACCEL_RUN_VERDICT_H
#define ACCEL_RUN_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "problem.h"
#include "rank.h"

struct verdict_facts {
    const struct rank *ranks; /* all have ended, but for those that SIGKILL does not end */
    uint32_t world_size;
    const char *program;
    int first_failed;              /* the rank that failed first by itself; -1 none */
    const struct problem *problem; /* what the launcher or a shim stopped the run for; exit_code 0: nothing */
    int user_signal;               /* the last that the user sent and we forwarded; 0 none */
    bool out_of_memory;            /* the kernel has killed in our cgroup since the start */
    const char *where;             /* what the failed rank was doing, in words; "" unknown */
    uint64_t lost_bytes;           /* of the program's output that could not be written */
    uint32_t total;                /* ranks on all hosts; 0: no other host */
    const char *host;              /* this one, in a message; NULL: no other host */
    bool reader_is_gone;           /* of a pipe that rank 0 prints to */
};

struct verdict {
    int exit_code;
    bool is_silent;        /* nothing to say: success, or what the user did himself */
    uint32_t failed;       /* the rank that decides, where one has failed: its index */
    bool show_tail;        /* its last lines are not on the screen yet */
    struct problem report; /* id, what, cure */
};

void verdict_find(const struct verdict_facts *facts, struct verdict *verdict);

#define VERDICT_SIGNAL_CHARS 96

/* "SIGSEGV (invalid memory access)"; text[VERDICT_SIGNAL_CHARS]. */
const char *verdict_signal_words(int signal, char *text);

#endif
