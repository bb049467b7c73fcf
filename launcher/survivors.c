/*
 * A rank ends with the program that trains: a script dies of the signal at which that saves first (a terminal's hangup, timeout(1), a scheduler), or puts it
 * into the background and returns (nohup python train.py &), or the program makes a daemon of itself. A program that has not loaded libtorch yet may be it,
 * too, or the next one, and what has just been forked may be about to become one: where all goes well, and nobody has asked it to end. A script that has
 * run the rank's program is waited for as long as it takes, as one in the foreground is.
 */
#include "survivors.h"

#include <signal.h>

#include "process.h"
#include "strays.h"

#define IMPORT_MS 60000 /* for a program that a script has left in the background to load libtorch */
#define TOLD_MS 10000   /* between a script that tells its program to end, and that one's end: a device, and memory, take their time */
#define SCRIPT_MS 10000 /* after a program's end without the next one: its script is named, for whom may expect the end of it all */

/* A script tells its program to end, and returns. */
static bool was_told(const struct rank *rank) {
    uint64_t limit_ms = rank->program_signal == SIGKILL ? LIFECYCLE_MOMENT_MS : rank_is_asked_to_end(rank->program_signal) ? TOLD_MS : 0;
    return !rank->exit_code && !rank->signal && rank->program_ended_ms - rank->survived_ms < limit_ms;
}

bool survivors_has_failed(struct job *job, const struct rank *rank, uint64_t now_ms) {
    bool is_bad = rank->program_is_known && (rank->program_code || rank->program_signal);
    bool is_asked = job->requests_to_end && signals_ask_to_end(job, now_ms); /* what the script died of says how the rank ends, as alone */
    return is_bad && !is_asked && !was_told(rank);
}

/* It closes its connection before it is a zombie, and before its end can be asked for. One that was a zombie when its script ended has not outlived that. */
static bool is_exiting(struct rank *rank, uint64_t now_ms) {
    uint64_t since_ms = now_ms - rank->ended_ms;
    char state = rank->has_claimed && since_ms < TOLD_MS ? process_state(rank->claimer, rank->claimer_started) : 0;
    bool has_begun = state && state != 'Z' && rank->is_survived && process_is_exiting(rank->claimer);
    if (has_begun && !rank->program_ended_ms)
        rank->program_ended_ms = now_ms;
    return has_begun || (state && since_ms < LIFECYCLE_MOMENT_MS && (rank->is_survived || state != 'Z'));
}

/* Whoever thinks that the job is over would wait for it in vain. */
static void tell_of_script(struct job *job, const struct rank *rank, pid_t script) {
    char name[128] = "";
    job->has_told_of_script = true;
    strays_add_name(script, name, sizeof name);
    if (job->config->log_level >= CONFIG_LEVEL_WARN)
        notices_say(&job->notices, "rank %u's program has ended; the script that ran it in the background goes on, and is waited for: %s",
                    rank->number, name);
}

bool survivors_include(struct job *job, struct rank *rank, uint64_t now_ms) {
    bool is_script = rank->claimer != rank->pid;
    if (job->state > LIFECYCLE_ENDING || !is_script)
        return false;
    if (claims_is_granted(&job->claims, rank->number)) {
        rank->ended_ms = now_ms;
        return true;
    }
    if (rank->program_is_known && !rank->program_ended_ms)
        rank->program_ended_ms = now_ms;
    uint64_t since_ms = now_ms - rank->ended_ms;
    bool has_failed = survivors_has_failed(job, rank, now_ms);
    if (has_failed || is_exiting(rank, now_ms))
        return !has_failed;
    if (rank->exit_code || rank->signal || signals_ask_to_end(job, now_ms))
        return false;
    if (since_ms < LIFECYCLE_MOMENT_MS && strays_reap(&job->strays))
        return true;
    pid_t next = strays_find_trainer(&job->strays, rank, since_ms < IMPORT_MS);
    if (next && since_ms >= SCRIPT_MS && !job->has_told_of_script && strays_is_script(next, rank))
        tell_of_script(job, rank, next);
    return next;
}
