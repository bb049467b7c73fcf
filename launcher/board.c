#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "job.h"
#include "process.h"

/* A script looks for its program's end at once, and its own says more of it. */
enum { UNREAPED_MS = 1000 };
enum { GENERATION_SHIFT = 40 }; /* the next program of a script begins at step 0 */

/* Has the process that trained ended, while the rank's first process (a shell, or what works on before it looks) lives? */
static bool trainer_is_gone(const struct job *job, struct rank *rank) {
    char state = 'S';
    if (rank->has_claimed && rank->claimer != rank->pid && !claims_is_granted(&job->claims, rank->number))
        state = process_state(rank->claimer, rank->claimer_started);
    if (state != 'Z')
        rank->unreaped_ms = 0;
    else if (!rank->unreaped_ms)
        rank->unreaped_ms = clock_ms();
    return !state || (state == 'Z' && clock_ms() - rank->unreaped_ms >= UNREAPED_MS);
}

static bool is_same_place(const struct together_line *a, const struct together_line *b) {
    return a->generation == b->generation && a->phase == b->phase && a->step == b->step && a->collective == b->collective &&
           a->meetings == b->meetings && a->waiting == b->waiting;
}

/* As they are shown: they may be torn. */
static void take_words(char *words, const char *from, size_t room) {
    memcpy(words, from, room);
    words[room - 1] = 0;
    for (char *c = words; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = '?';
}

void board_line(struct job *job, uint32_t number, struct together_line *line) {
    struct rank *rank = &job->ranks[number - job->first];
    const struct board *board = rank->board;
    struct together_line before = *line;
    line->rank = number;
    line->generation = rank->generation;
    line->pid = rank->claimer > 0 ? rank->claimer : rank->pid;
    line->has_ended = rank->has_ended && !rank->is_survived; /* before what it did last: that is final then */
    line->trainer_has_ended = trainer_is_gone(job, rank);
    if (!board)
        return;
    const struct board_rank *shown = &board->ranks[number];
    line->phase = atomic_load_explicit(&shown->phase, memory_order_relaxed);
    line->step = atomic_load_explicit(&shown->step, memory_order_relaxed);
    line->collective = atomic_load_explicit(&shown->collective, memory_order_relaxed);
    line->meetings = atomic_load_explicit(&board->meetings.arrivals[number].number, memory_order_relaxed);
    line->waiting = atomic_load_explicit(&shown->waiting, memory_order_relaxed);
    line->thrown = atomic_load_explicit(&shown->thrown, memory_order_relaxed);
    line->held = number ? 0 : job->held.times;
    line->beside = atomic_load_explicit(&board->deeds[number].waiting, memory_order_relaxed);
    take_words(line->where, shown->where, sizeof line->where);
    take_words(line->thrower, shown->thrower, sizeof line->thrower);
    line->process = is_same_place(&before, line) ? (uint32_t)process_state(line->pid, 0) : 0;
}

/* Over several hosts programs are their claims. 0: what is known of the rank may be old, as its host is stopped, or is not heard. */
static uint32_t program_of(const struct job *job, uint32_t number) {
    if (claims_is_here(&job->claims, number))
        return job->ranks[number - job->first].segments;
    for (uint32_t host = 1; host < job->hosts->count; host++) {
        const struct hosts_peer *peer = &job->hosts->peers[host];
        if (number - job->hosts->list[host].first < job->hosts->list[host].count)
            return peer->is_paused || clock_ms() - peer->heard_ms > 2 * HOSTS_BEAT_MS ? 0 : job->lines[number].generation;
    }
    return 0;
}

/* Of another host's rank its launcher has told us. */
static void snapshot(struct job *job, uint32_t number) {
    struct watch_rank *seen = &job->watch[number];
    const struct together_line *line = &job->lines[number];
    if (claims_is_here(&job->claims, number))
        board_line(job, number, &job->lines[number]);
    seen->has_ended = line->has_ended;
    seen->trainer_has_ended = line->trainer_has_ended;
    seen->generation = line->generation;
    seen->program = program_of(job, number);
    seen->phase = line->phase;
    seen->step = line->step;
    seen->collective = line->collective + line->meetings; /* who has been to fewer is waited for */
    seen->meetings = line->meetings;
    seen->is_waiting = line->waiting != BOARD_WAITS_NOT;
    seen->waits_for_turn = line->waiting == BOARD_WAITS_FOR_TURN;
    seen->is_stopped = line->process == 'T' || line->process == 't';
    memcpy(seen->where, line->where, sizeof seen->where);
}

void board_words(struct job *job, uint32_t rank, char *text, size_t size) {
    snapshot(job, rank);
    watch_words(&job->watch[rank], text, size);
}

uint64_t board_progress(struct job *job) {
    uint64_t progress = 0;
    for (uint32_t i = job->first; i < job->first + job->local_size; i++) {
        const struct together_line *line = &job->lines[i];
        board_line(job, i, &job->lines[i]);
        progress += ((uint64_t)line->generation << GENERATION_SHIFT) + line->step + line->collective + line->meetings;
    }
    return progress;
}

bool board_all_have_come(struct job *job) {
    uint64_t most = 0;
    board_progress(job); /* reads the lines of this host */
    for (uint32_t i = 0; i < job->world_size; i++)
        most = job->lines[i].collective > most ? job->lines[i].collective : most;
    for (uint32_t i = 0; i < job->local_size; i++) {
        const struct together_line *line = &job->lines[job->first + i];
        bool is_here = job->ranks[i].has_claimed && line->generation == job->lines[job->first].generation && line->collective == most;
        if (!is_here || (line->waiting != BOARD_WAITS_NOT && !line->has_ended))
            return false;
    }
    return true;
}

static void early(struct job *job, const struct watch_result *result) {
    char words[160];
    struct problem problem;
    const struct watch_rank *gone = &job->watch[result->rank], *waiter = &job->watch[result->other];
    watch_words(waiter, words, sizeof words);
    if (waiter->program && gone->program > waiter->program)
        problem_set(&problem, EXIT_LAUNCHER, "AR-RANK-EARLY",
                    "was it killed there, or did it fail, and the script goes on all the same? 'set -e' ends it",
                    "rank %u has ended and begun the next program of its script: rank %u waits for it in the one before, %s", result->rank,
                    result->other, words);
    else
        problem_set(&problem, EXIT_LAUNCHER, "AR-RANK-EARLY",
                    "does the program end by its own clock, by chance or by what only one process sees? All ranks must end at the same "
                    "step",
                    "rank %u finished at step %llu, others did not: rank %u waits for it, %s", result->rank, (unsigned long long)gone->step,
                    result->other, words);
    supervise_problem(job, &problem);
}

static void stalled(struct job *job, const struct watch_result *result) {
    char words[160], others[64];
    const struct together_line *line = &job->lines[result->rank];
    struct problem problem;
    watch_words(&job->watch[result->rank], words, sizeof words);
    if (result->waiting)
        snprintf(others, sizeof others, "%u of %u ranks wait for it", result->waiting, job->world_size);
    else
        snprintf(others, sizeof others, "all other ranks have ended");
    problem_set(&problem, 0, "AR-RANK-STALLED", "'gdb -p' or 'py-spy dump' on that process shows where it is; accel-run goes on waiting",
                "rank %u (process %d) has made no progress for %llu s while %s: %s%s", result->rank, (int)line->pid,
                (unsigned long long)(result->still_ms / 1000), others, words,
                line->process == 'T'                                     ? "; it was stopped by a signal"
                : line->process == 't'                                   ? "; it was stopped by a debugger"
                : result->rank == 0 && streams_is_blocked(&job->streams) ? "; its output is not being read"
                : result->rank == 0 && held_is_writing(job)              ? "; it is writing to a disk"
                : line->process == 'R'                                   ? "; it is computing"
                : !claims_is_here(&job->claims, result->rank)            ? "; it is on another host"
                                                                         : "");
    notices_problem(&job->notices, "warning", &problem);
}

static void crossed(struct job *job, const struct watch_result *result, const char *cure, const char *where) {
    struct problem problem;
    problem_set(&problem, 0, "AR-RANK-STALLED", cure, "all %u ranks have waited for %llu s for the others: %s", result->waiting,
                (unsigned long long)(result->still_ms / 1000), where);
    notices_problem(&job->notices, "warning", &problem);
}

void board_look(struct job *job, uint64_t now_ms) {
    if (job->first) /* the first host looks at all ranks, and tells */
        return;
    for (uint32_t i = 0; i < job->world_size; i++)
        snapshot(job, i);
    struct watch_result result = watch_look(job->watch, job->world_size, now_ms, job->config->stall_timeout_ms);
    if (result.finding == WATCH_EARLY)
        early(job, &result);
    else if (result.finding == WATCH_STALLED)
        stalled(job, &result);
    else if (result.finding == WATCH_RESUMED)
        notices_say(&job->notices, "rank %u goes on", result.rank);
    else if (result.finding == WATCH_CROSSED)
        crossed(job, &result,
                "do threads take tasks from a queue, or a lock, in another order on each rank (docs/limits.md)? accel-run goes on waiting",
                "in each of them another thread has come");
    else if (result.finding == WATCH_APART)
        crossed(job, &result, "do some ranks alone change files (docs/limits.md)? accel-run goes on waiting",
                "some where a file is changed, the others in a collective");
}

bool board_threw_apart(struct job *job, struct problem *problem) {
    const struct together_line *zero = &job->lines[0];
    for (uint32_t i = 0; i < job->world_size; i++)
        snapshot(job, i);
    for (uint32_t i = 1; i < job->world_size; i++) {
        const struct together_line *line = &job->lines[i];
        if (line->thrown == zero->thrown || line->generation != zero->generation || !line->has_ended || !zero->has_ended)
            continue;
        problem_set(problem, EXIT_LAUNCHER, "AR-RANKS-PARTED", PROTOCOL_THROWN_CURE, PROTOCOL_THROWN_END, 0, board_thrower(zero->thrower),
                    i, board_thrower(line->thrower));
        return true;
    }
    return false;
}

void board_forget_clocks(struct job *job) {
    for (uint32_t i = 0; i < job->world_size; i++)
        job->watch[i].since_ms = 0;
    for (uint32_t i = 0; i < job->local_size; i++)
        job->ranks[i].unreaped_ms = 0;
}
