#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "job.h"

/* Has the process that trained ended, while the rank's first process (a shell) lives? */
static bool trainer_is_gone(const struct job *job, const struct rank *rank) {
    return rank->has_claimed && !claims_is_granted(&job->claims, rank->number) && kill(rank->claimer, 0) && errno == ESRCH;
}

static void snapshot(struct job *job, uint32_t number) {
    struct rank *rank = &job->ranks[number];
    struct watch_rank *seen = &job->watch[number];
    seen->has_ended = rank->has_ended;
    seen->trainer_has_ended = trainer_is_gone(job, rank);
    seen->generation = rank->generation;
    if (!rank->generation || rank->generation > job->claims.segments.count)
        return;
    struct board_rank *board = &job->claims.segments.list[rank->generation - 1].board->ranks[number];
    seen->phase = atomic_load_explicit(&board->phase, memory_order_relaxed);
    seen->step = atomic_load_explicit(&board->step, memory_order_relaxed);
    /* Collectives and meetings: who has been to fewer is waited for. */
    const struct board_meetings *meetings = &job->claims.segments.list[rank->generation - 1].board->meetings;
    seen->collective = atomic_load_explicit(&board->collective, memory_order_relaxed) +
                       atomic_load_explicit(&meetings->arrivals[number].number, memory_order_relaxed);
    seen->is_waiting = atomic_load_explicit(&board->waiting, memory_order_relaxed) != 0;
    memcpy(seen->where, board->where, sizeof seen->where);
    seen->where[BOARD_WHERE_CHARS - 1] = 0;
    for (char *c = seen->where; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = '?';
}

void board_words(struct job *job, uint32_t rank, char *text, size_t size) {
    snapshot(job, rank);
    watch_words(&job->watch[rank], text, size);
}

static void early(struct job *job, const struct watch_result *result) {
    char words[160];
    struct problem problem;
    watch_words(&job->watch[result->other], words, sizeof words);
    problem_set(&problem, EXIT_LAUNCHER, "AR-RANK-EARLY",
                "does the program end by its own clock, by chance or by what only one process sees? All ranks must end at the same step",
                "rank %u finished at step %llu, others did not: rank %u waits for it, %s", result->rank,
                (unsigned long long)job->watch[result->rank].step, result->other, words);
    supervise_problem(job, &problem);
}

/* State of the rank's process: 'R' runs, 'S' sleeps, 'T' stopped... from /proc; '?' unknown. */
static char process_state(pid_t pid) {
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    if (file)
        fclose(file);
    return state;
}

static void stalled(struct job *job, const struct watch_result *result) {
    char words[160];
    const struct rank *rank = &job->ranks[result->rank];
    pid_t pid = rank->claimer > 0 ? rank->claimer : rank->pid;
    char state = process_state(pid);
    struct problem problem;
    watch_words(&job->watch[result->rank], words, sizeof words);
    problem_set(&problem, 0, "AR-RANK-STALLED", "'gdb -p' or 'py-spy dump' on that process shows where it is; accel-run goes on waiting",
                "rank %u (process %d) has made no progress for %llu s while %u of %u ranks wait for it: %s%s", result->rank, (int)pid,
                (unsigned long long)(result->still_ms / 1000), result->waiting, job->world_size, words,
                state == 'T'                                             ? "; it was stopped by a signal"
                : result->rank == 0 && streams_is_blocked(&job->streams) ? "; its output is not being read"
                : state == 'R'                                           ? "; it is computing"
                                                                         : "");
    notices_problem(&job->notices, "warning", &problem);
}

void board_look(struct job *job, uint64_t now_ms) {
    for (uint32_t i = 0; i < job->world_size; i++)
        snapshot(job, i);
    struct watch_result result = watch_look(job->watch, job->world_size, now_ms, job->config->stall_timeout_ms);
    if (result.finding == WATCH_EARLY)
        early(job, &result);
    else if (result.finding == WATCH_STALLED)
        stalled(job, &result);
    else if (result.finding == WATCH_RESUMED)
        notices_say(&job->notices, "rank %u goes on", result.rank);
}

void board_forget_clocks(struct job *job) {
    for (uint32_t i = 0; i < job->world_size; i++)
        job->watch[i].since_ms = 0;
}
