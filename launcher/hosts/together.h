/*
 * A job over several hosts: what the launchers tell each other while it runs, and what they make of it.
 *
 * Rules
 *  - The first failure of the job counts, on all hosts: whoever sees it tells the first host, which tells all. Every host prints it and ends its ranks as if
 *    it had happened here.
 *  - A signal of the user goes to the ranks of all hosts, whichever accel-run or rank got it.
 *  - When nothing is left on any host, the first one says with which exit status all end.
 *  - What the program looks at on the disk is the first host's, where rank 0 writes (look.h).
 *  - What ranks write on the board and others must see goes along: their lines, and rank 0's answers in meetings (relay.c).
 *  - On one host (job->hosts is NULL) nothing here does anything.
 */
#ifndef ACCEL_RUN_TOGETHER_H
#define ACCEL_RUN_TOGETHER_H

#include <stdbool.h>
#include <stdint.h>

#include "hosts.h"
#include "../problem.h"

struct job;

/* The exit code is that of the job. A rank: the others have a moment to fail by themselves. Silent: what the user did himself, or what a program alone would do
   without a word. */
struct together_failure {
    struct problem problem;
    uint32_t is_rank, is_silent;
};

/* Who has got the signal: a host's accel-run, or one of its ranks. */
struct together_asked {
    int32_t signal;
    uint32_t host, is_of_rank;
};

/* What a rank was doing when its launcher looked last; other hosts' boards have the same. */
struct together_line {
    uint32_t rank, generation; /* 0: it has not claimed */
    int32_t pid;
    uint32_t phase, waiting, has_ended, trainer_has_ended;
    uint32_t beside; /* how many of its threads wait for another rank's beside its training */
    uint32_t held;   /* of rank 0: how often it was seen to be held up (../held.c) */
    uint32_t
        process; /* its state as in /proc/PID/stat: 'R' runs, 'S' sleeps, 'T' and 't' stopped...; 0: not looked at, because it makes progress */
    uint64_t step, collective, meetings, thrown;
    char where[BOARD_WHERE_CHARS], thrower[BOARD_THROWER_CHARS];
};

void together_begin(struct job *job);
/* It happened on this host: the others are told. */
void together_failed(struct job *job, const struct problem *problem, bool is_rank, bool is_silent);
/* This host's accel-run, or one of its ranks, has got it. */
void together_signal(struct job *job, int signal, bool is_of_rank);
/* Before this launcher is stopped (Ctrl-Z), and after. */
void together_pause(struct job *job);
void together_resume(struct job *job);
/* What comes from the other hosts; where there are several. */
void together_add(struct job *job, struct loop *loop);
void together_on_time(struct job *job, uint64_t now_ms);
/* Nothing is left here: waits for the other hosts. Returns the exit code of the job. */
int together_end(struct job *job, int code);

/* relay.c */
void relay_lines(struct job *job, bool is_last);
void relay_hear_lines(struct job *job, const char *body, uint32_t bytes);
/* A rank of this host says something about a meeting (struct protocol_meeting and its texts). */
void relay_meeting(struct job *job, uint32_t rank, const char *body, uint32_t bytes);
void relay_hear_meeting(struct job *job, uint32_t type, const char *body, uint32_t bytes);

#endif
