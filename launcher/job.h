/*
 * struct job: all that one run of accel-run knows, passed down; there is no other state.
 */
#ifndef ACCEL_RUN_JOB_H
#define ACCEL_RUN_JOB_H

#include <signal.h>
#include <sys/resource.h>

#include "../config/config.h"
#include "claims.h"
#include "clock.h"
#include "streams/console.h"
#include "commands/explain.h"
#include "guard.h"
#include "heard.h"
#include "streams/inherited.h"
#include "streams/input.h"
#include "lifecycle.h"
#include "loop.h"
#include "streams/notices.h"
#include "plan.h"
#include "program/preflight.h"
#include "rank.h"
#include "strays.h"
#include "streams/streams.h"
#include "hosts/together.h"
#include "watch.h"

/* What held.c has seen of rank 0. */
struct held {
    uint64_t wrote_ms; /* when rank 0 was last seen to write; 0: never */
    uint32_t times;    /* it was seen to be held up */
    uint64_t printed;  /* bytes, and could it print more, when held_by_reader() was asked last; how often they were read meanwhile: */
    bool was_blocked;
    uint32_t reads;
};

/* The last request to end. */
struct asked {
    int signal;
    uint32_t pid; /* who has sent it */
    uint64_t when_ms;
};

struct job {
    const struct config *config; /* borrowed */
    const struct plan *plan;     /* borrowed */
    const struct target *target; /* borrowed */
    char *const *environment;    /* borrowed: the launcher's */
    struct explain *explain;     /* borrowed; NULL: no `accel-run explain` */
    struct hosts *hosts;         /* borrowed; NULL: this one has all ranks */
    uint32_t first, local_size;  /* ranks of this host: [first, first + local_size). Arrays of ranks here are indexed from its first one */
    uint32_t world_size;         /* ranks of all hosts */

    struct console console;
    struct rank *ranks;          /* owned */
    struct watch_rank *watch;    /* owned; of all hosts' ranks, as far as they are known */
    struct together_line *lines; /* owned; the same: what they were doing, as it is told to other hosts */
    struct claims claims;
    struct writer files; /* standard output and error, where they are files */
    struct streams streams;
    struct input input;
    struct inherited inherited;
    struct notices notices;
    struct guard guard;
    struct strays strays;
    struct held held;
    struct loop loop;
    int signal_descriptor;    /* owned */
    sigset_t ignored;         /* when accel-run began */
    struct rlimit open_files; /* the ranks' */

    enum lifecycle_state state;
    uint64_t paused_ms;       /* so long was the job stopped: */
    uint64_t deadline_ms;     /* by job_clock_ms(), as all times when ranks and requests came and went; 0: none */
    uint64_t ending_ms;       /* when the first rank failed: since when the others have had time to end */
    uint64_t helpers_ms;      /* only strays that end by themselves were left; 0: not yet */
    uint64_t looked_ms;       /* last look at the board, and at what outlives scripts */
    uint64_t lines_ms;        /* it was told to the other hosts */
    bool has_told_of_script;  /* that is waited for in the background */
    struct heard heard[NSIG]; /* by a signal's number */
    uint32_t ended;           /* ranks */
    int first_failed;         /* -1: none */
    char failed_where[160];
    int interrupts;                          /* Ctrl-C, of one wish to end */
    uint64_t interrupted_ms, interrupted_at; /* the last one: when, and what board_progress() was */
    int requests_to_end;                     /* of the user: Ctrl-C counts one, SIGTERM, SIGHUP and SIGQUIT two */
    uint64_t requested_ms, requested_at;     /* the last one, to ranks that were not being ended: the same */
    struct asked asked;
    int kills;          /* rounds of SIGKILL that have left the same processes: */
    char unkilled[512]; /* names of those still there at the last round */
    bool lost_is_said, log_loss_is_said, child_has_trained, child_has_written;
    int user_signal;        /* last forwarded that asks to end; 0 none */
    struct problem problem; /* exit_code 0: none */
    struct problem kept;    /* likewise: rank 0's, while it says its last words (last_words.h); until: */
    uint64_t kept_until_ms;
    long long oom_kills; /* at the start */
};

/* What stands still while the job does (Ctrl-Z): nobody's time runs out meanwhile. */
static inline uint64_t job_clock_ms(const struct job *job) {
    return clock_ms() - job->paused_ms;
}

/* start.c: takes everything up and starts the ranks. Returns 0, or -1 with job->problem; clear in either case. */
int job_start(struct job *job);
void job_clear(struct job *job);

/* supervise.c: runs until nothing is left. */
void supervise_run(struct job *job);
/* Something happened: next state, actions. */
void supervise_event(struct job *job, enum lifecycle_event event);
/* Stops the job for a reason: prints it, keeps it for the verdict. Only the first counts. */
void supervise_problem(struct job *job, const struct problem *problem);

/* Waits until what accel-run itself has said was written. */
void supervise_last_words(struct job *job);

/* report.c: what a rank's failure comes to, for the other hosts; notices before the program's first word; while it runs, that output is
   lost; the verdict's paragraph at the end, which gives the exit code. */
void report_before(struct job *job);
void report_loss(struct job *job);
/* What ends the job, behind all that was said before. */
void report_problem(struct job *job, const struct problem *problem);
int report_end(struct job *job);
/* All ranks of all hosts have ended, with this exit code: have operators thrown on some of them alone? Returns the exit code. */
int report_thrown(struct job *job, int code);
void report_failure(struct job *job);

/* signals.c: process 1, a container's first, gets no signal that it does not handle: until signals_open() those that ask to end do end it. */
void signals_end_process_1(void (*end)(int signal));
/* Blocks what we handle and makes the descriptor. Returns 0 or -1 with errno. */
int signals_open(struct job *job);
void signals_add(struct job *job);
/* Is the job to end: as the user asks for it, and the program has not trained on for longer than it would have been waited for, or as something failed? */
bool signals_ask_to_end(struct job *job, uint64_t now_ms);
/* To the groups of all ranks of this host. */
void signals_send(struct job *job, int signal);

/* It came to the accel-run of another host. False: it was heard of before, here or elsewhere. */
bool signals_of_host(struct job *job, uint32_t host, int signal);
/* It came to a rank of this host alone, or to one of another host: the other ranks are to have it, too. To the job it is no request. */
void signals_of_rank(struct job *job, uint32_t rank, bool is_granted, int signal);
void signals_of_ranks(struct job *job, uint32_t host, int signal);

/* held.c: after board_look(): is rank 0 held up by what a plain program would wait for, too? Then no rank is late. Of a job's first host. */
void held_look(struct job *job, uint64_t now_ms);
/* After a rank's end with a code, asked each moment: does rank 0 wait for who reads its output? As long as that rests; once it is read again, a few moments. */
bool held_by_reader(struct job *job);
/* Rank 0 has written to a disk in the last seconds. */
bool held_is_writing(const struct job *job);

/* board.c: what the ranks write on the board → names, early leavers, stalls. */
enum { BOARD_LOOK_MS = 200 }; /* between looks */
void board_look(struct job *job, uint64_t now_ms);
/* What a rank is doing, in words; text[size]. rank: its number in the job. */
void board_words(struct job *job, uint32_t rank, char *text, size_t size);
/* A rank of this host, for the others. */
void board_line(struct job *job, uint32_t rank, struct together_line *line);
/* Goes up when ranks of this host do. */
uint64_t board_progress(struct job *job);
/* Has every rank of this host trained, and come as far as any, and waits for none in a collective? */
bool board_all_have_come(struct job *job);
/* Have ranks that ended well thrown in other operators than rank 0? Then the problem says which. */
bool board_threw_apart(struct job *job, struct problem *problem);
/* After a stop of the whole job (Ctrl-Z) nobody was slow. */
void board_forget_clocks(struct job *job);

#endif
