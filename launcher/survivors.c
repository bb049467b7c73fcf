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

bool survivors_has_failed(const struct rank *rank) {
    return rank->program_code || rank->program_signal;
}

/* It closes its connection before it is a zombie, and before its end can be asked for. One that was a zombie when its script ended has not outlived that. */
static bool is_exiting(const struct rank *rank, uint64_t since_ms) {
    char state = rank->has_claimed && since_ms < LIFECYCLE_MOMENT_MS ? process_state(rank->claimer, rank->claimer_started) : 0;
    return state && (rank->is_survived || state != 'Z');
}

/* A script that tells its program to end, and returns. */
static void forget_told(struct rank *rank, uint64_t now_ms) {
    if (now_ms - rank->survived_ms < LIFECYCLE_MOMENT_MS && (rank_is_asked_to_end(rank->program_signal) || rank->program_signal == SIGKILL))
        rank->program_signal = 0;
}

bool survivors_include(struct job *job, struct rank *rank, uint64_t now_ms) {
    bool is_script = rank->claimer != rank->pid;
    if (job->state > LIFECYCLE_ENDING || !is_script)
        return false;
    if (claims_is_granted(&job->claims, rank->number)) {
        rank->ended_ms = now_ms;
        return true;
    }
    forget_told(rank, now_ms);
    uint64_t since_ms = now_ms - rank->ended_ms;
    if (survivors_has_failed(rank) || is_exiting(rank, since_ms))
        return !survivors_has_failed(rank);
    if (rank->exit_code || rank->signal || signals_ask_to_end(job, now_ms))
        return false;
    return (since_ms < LIFECYCLE_MOMENT_MS && strays_reap(&job->strays)) || strays_may_train(&job->strays, rank, since_ms < IMPORT_MS);
}
