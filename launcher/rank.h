/*
 * One rank: its process, its group, its ends. No decisions here.
 */
#ifndef ACCEL_RUN_RANK_H
#define ACCEL_RUN_RANK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../config/board.h"
#include "rivals.h"

/* What it writes there (held.c). */
struct disk {
    uint64_t written;  /* bytes, at the last time that a piece more was counted */
    uint64_t switches; /* of its process, where it waited for a disk at the last look; 0: it did not */
};

#define RANK_ABOVE_MAX 4

struct rank_ancestor {
    pid_t pid;        /* 0: none */
    uint64_t started; /* process_started() */
};

struct rank {
    uint32_t number;
    struct disk disk;
    pid_t pid; /* also its process group; stays a zombie until the end, so that neither number is given away (L6) */
    int pidfd; /* owned; -1 once the end was seen */
    bool has_ended;
    int exit_code;                              /* of an ended rank that exited */
    int signal;                                 /* of an ended rank that was killed; 0: it exited */
    bool ended_by_us;                           /* after we asked it to stop, or unseen: no evidence against it (L17) */
    bool is_survived;                           /* its first process has ended; the program that it has started goes on, or begins */
    uint64_t survived_ms;                       /* when that process had ended; 0: it was never so */
    uint64_t ended_ms;                          /* since when it has neither that process nor one that has claimed */
    bool has_claimed;                           /* ever */
    pid_t claimer;                              /* the process that claimed last; the rank's own or one that it started */
    uint64_t claimer_started;                   /* process_started() */
    int program_code;                           /* as exit_code and signal: of that process, or a script that has waited for it, */
    int program_signal;                         /* where it was an orphan that has outlived the first process: */
    bool program_is_known;                      /* how it has ended is known */
    uint64_t program_ended_ms;                  /* when its end was first seen to have begun; 0: not yet */
    struct rank_ancestor above[RANK_ABOVE_MAX]; /* its parent, that one's parent... : shells that wait for it */
    uint64_t released;    /* when its connection was closed, as process_started() counts, or a moment before; 0: never */
    uint64_t unreaped_ms; /* since when the claimer has been seen to be a zombie; 0: it is none */
    uint32_t generation;  /* claims granted so far */
    uint32_t segments;    /* passed so far, to claims and to a first process that may claim: the k-th of every rank is the same */
    struct rivals rivals;
    const struct board *board; /* of the program that it runs now, or ran last; NULL: none */
};

/* Sends a signal to the rank's whole group, whether or not its leader still lives. Refuses pid <= 1, which would be everybody (L6).
   Returns 0 or -1 with errno. */
int rank_signal(const struct rank *rank, int signal);

/* The same for its first process alone. */
void rank_signal_first(const struct rank *rank, int signal);

/* By this signal, unless the program makes something else of it. */
bool rank_is_asked_to_end(int signal);

/* After pidfd became readable: stores exit_code and signal; does not reap. */
void rank_store_end(struct rank *rank);

#endif
