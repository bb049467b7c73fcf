/*
 * The supervisor: one poll loop; what happens becomes an event of lifecycle.c's table, whose actions are carried out here.
 *
 * Order within a round: the ranks' messages, their output, input, our signals, and the ends of processes last, so that what a rank said
 * before it died is known when it is judged (L9).
 */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "job.h"
#include "last_words.h"
#include "process.h"
#include "strays.h"
#include "streams/known.h"
#include "survivors.h"

#define READER_MS 2000  /* for who reads our output, once a signal of the user's has ended the program */
#define HELPERS_MS 5000 /* for strays that end by themselves, behind the time that all strays have */
#define KILLS_MAX 5     /* rounds of SIGKILL, LIFECYCLE_MOMENT_MS each, before what is still there is left behind */

static void warn_of_strays(struct job *job, const char *id, const char *cure, const char *what, const char *names) {
    struct problem problem;
    problem_set(&problem, 0, id, cure, "%s: %s", what, names);
    if (job->config->log_level >= CONFIG_LEVEL_WARN)
        notices_problem(&job->notices, "warning", &problem);
}

static void stop_strays(struct job *job, int signal) {
    char names[512];
    strays_names(&job->strays, signal, names, sizeof names);
    strays_signal(&job->strays, signal);
    if (*names && signal == SIGTERM)
        warn_of_strays(job, "AR-STRAY", "let the program end what it starts; a service is started before accel-run, outside of it",
                       "processes that outlived the program are ended", names);
}

/* Another user's process, or one that hangs in the kernel: no signal will end it. Returns whether it is time to leave it behind. */
static bool give_up_killing(struct job *job) {
    char names[512];
    strays_names(&job->strays, SIGKILL, names, sizeof names);
    if (strcmp(names, job->unkilled)) { /* others than last time: killing one orphans the next */
        memcpy(job->unkilled, names, sizeof names);
        job->kills = 0;
    }
    if (++job->kills <= KILLS_MAX)
        return false;
    warn_of_strays(job, "AR-UNKILLABLE",
                   "end them yourself (sudo kill -9); one that hangs in the kernel waits for a device or a network disk",
                   "processes that SIGKILL does not end are left behind", names);
    job->state = LIFECYCLE_DONE;
    return true;
}

static void arm(struct job *job, unsigned actions) {
    uint64_t delay = actions & LIFECYCLE_MOMENT  ? LIFECYCLE_MOMENT_MS
                     : actions & LIFECYCLE_SHORT ? LIFECYCLE_SHORT_MS
                                                 : job->config->grace_ms;
    bool has_failed = job->first_failed >= 0 || job->problem.exit_code;
    if ((actions & LIFECYCLE_GRACE) && has_failed && !job->requests_to_end && LIFECYCLE_SHORT_MS < delay)
        delay = LIFECYCLE_SHORT_MS; /* nobody has asked for more: what the dead have left behind is no reason to wait */
    if ((actions & LIFECYCLE_SHORT) && job->config->grace_ms < delay)
        delay = job->config->grace_ms;
    job->deadline_ms = job_clock_ms(job) + delay + 1;
}

void supervise_event(struct job *job, enum lifecycle_event event) {
    struct lifecycle_step step = lifecycle_next(job->state, event);
    if (step.next != job->state && !(step.actions & LIFECYCLE_ARM))
        job->deadline_ms = 0;
    if (step.next == LIFECYCLE_ENDING && job->state != LIFECYCLE_ENDING)
        job->ending_ms = job_clock_ms(job);
    job->state = step.next;
    /* Only what time has brought is a round: the impatient kill as often as they like. */
    if (event == LIFECYCLE_DEADLINE && (step.actions & (LIFECYCLE_KILL | LIFECYCLE_STRAYS_KILL)) && give_up_killing(job))
        return;
    if (step.actions & LIFECYCLE_ABORT)
        segments_abort(&job->claims.segments);
    if (step.actions & LIFECYCLE_TERM)
        signals_send(job, SIGTERM);
    if (step.actions & LIFECYCLE_KILL)
        signals_send(job, SIGKILL);
    if (step.actions & LIFECYCLE_STRAYS_TERM)
        stop_strays(job, SIGTERM);
    if (step.actions & LIFECYCLE_STRAYS_KILL)
        stop_strays(job, SIGKILL);
    if (step.actions & LIFECYCLE_ARM)
        arm(job, step.actions);
}

void supervise_problem(struct job *job, const struct problem *problem) {
    last_words_release(job);
    bool is_over_here = job->hosts && job->state == LIFECYCLE_DONE;
    /* What the other ranks say after the first failure are its consequences. */
    if (job->problem.exit_code || job->first_failed >= 0 || (job->state >= LIFECYCLE_STOPPING && !is_over_here))
        return;
    job->problem = *problem;
    report_problem(job, problem);
    if (!is_over_here)
        supervise_event(job, LIFECYCLE_PROBLEM);
    together_failed(job, problem, false, false);
}

static void count_end(struct job *job) {
    if (++job->ended == job->local_size)
        supervise_event(job, LIFECYCLE_RANKS_GONE);
}

static bool has_ended_badly(const struct rank *rank) {
    return rank->exit_code || rank->signal;
}

static void rank_ended(struct job *job, size_t index) {
    last_words_release(job);
    struct rank *rank = &job->ranks[index];
    rank->ended_by_us = job->state >= LIFECYCLE_STOPPING;
    bool failed = has_ended_badly(rank);
    if (failed && !rank->ended_by_us && job->first_failed < 0) {
        job->first_failed = (int)index;
        if (rank->has_claimed)
            board_words(job, rank->number, job->failed_where, sizeof job->failed_where);
        report_failure(job);
    }
    if (failed)
        supervise_event(job, LIFECYCLE_RANK_FAILED);
    count_end(job);
}

static void rank_ready(void *context, size_t index, short events) {
    struct job *job = context;
    struct rank *rank = &job->ranks[index];
    claims_drain(&job->claims);
    rank_store_end(rank);
    if (!rank->has_ended)
        return;
    rank->ended_ms = job_clock_ms(job);
    rank->is_survived = survivors_include(job, rank, rank->ended_ms);
    if (rank->is_survived)
        rank->survived_ms = rank->ended_ms;
    else
        rank_ended(job, index);
}

static bool some_rank(const struct job *job, bool (*is_such)(const struct rank *rank)) {
    for (uint32_t i = 0; i < job->local_size; i++)
        if (is_such(&job->ranks[i]))
            return true;
    return false;
}

static bool is_awaited(const struct rank *rank) {
    return rank->is_survived;
}

/* Those of which only the script had ended. When the job ends, they are what it has left behind; how they have ended then nobody has seen. */
static void settle_survivors(struct job *job) {
    if (some_rank(job, is_awaited))
        strays_reap(&job->strays);
    for (uint32_t i = 0; i < job->local_size; i++) {
        struct rank *rank = &job->ranks[i];
        if (!rank->is_survived || survivors_include(job, rank, job_clock_ms(job)))
            continue;
        rank->is_survived = false;
        if (survivors_has_failed(job, rank, job_clock_ms(job))) {
            if (!has_ended_badly(rank)) {
                rank->exit_code = rank->program_code;
                rank->signal = rank->program_signal;
            }
            rank_ended(job, i);
        } else {
            rank->ended_by_us = job->state >= LIFECYCLE_STOPPING;
            count_end(job);
        }
    }
}

static bool has_board(const struct rank *rank) {
    return rank->board;
}

/* -1: until something happens. */
static int round_timeout(const struct job *job, uint64_t now_ms) {
    uint64_t timeout = UINT64_MAX, job_ms = job_clock_ms(job);
    if (job->deadline_ms)
        timeout = job->deadline_ms > job_ms ? job->deadline_ms - job_ms : 0;
    bool looking = job->world_size > 1 && job->state <= LIFECYCLE_INTERRUPTED && some_rank(job, has_board);
    bool awaiting = some_rank(job, is_awaited);
    bool waiting =
        notices_is_waiting(&job->notices) || output_is_waiting(job->streams.outputs[0]) || output_is_waiting(job->streams.outputs[1]);
    /* Nobody says when a job of a shell's background has become that of the foreground, nor how much of a long wait a frozen machine has slept through. */
    bool is_brief = looking || waiting || awaiting || job->deadline_ms || input_is_shut_out(&job->input);
    if (is_brief && timeout > BOARD_LOOK_MS)
        timeout = BOARD_LOOK_MS;
    if (job->hosts && timeout > HOSTS_BEAT_MS)
        timeout = HOSTS_BEAT_MS;
    if (job->kept.exit_code && timeout > LAST_WORDS_LOOK_MS)
        timeout = LAST_WORDS_LOOK_MS;
    int held = input_holds(&job->input, now_ms);
    if (held >= 0 && timeout > (uint64_t)held)
        timeout = (uint64_t)held;
    return timeout == UINT64_MAX ? -1 : (int)timeout;
}

static void release_lines(struct job *job) {
    for (uint32_t i = 0; i < job->local_size; i++)
        if (job->ranks[i].has_claimed && !job->notices.ranks[i].released)
            notices_release(&job->notices, i);
}

/* The ranks would read different input. */
static void look_for_gap(struct job *job) {
    struct problem problem;
    if (!job->input.has_gap && !inherited_has_gap(&job->inherited))
        return;
    problem_set(&problem, EXIT_LAUNCHER, "AR-MEMORY",
                "free some memory, or let the ranks read a file: what they have not read yet need not be kept then",
                "out of memory for the input that ranks are to read");
    supervise_problem(job, &problem);
}

/* All may end with a code, and rank 0 be the last: the others' output is drained by us, its own waits for a reader, as the program alone would. */
static bool waits_for_reader(struct job *job) {
    bool has_exited = job->first_failed >= 0 && job->ranks[job->first_failed].exit_code;
    return job->state == LIFECYCLE_ENDING && has_exited && !job->requests_to_end && !job->first && !job->ranks[0].has_ended &&
           held_by_reader(job);
}

/* What comes behind the training (a report by network, atexit, a script's next command) takes another time on each rank: who ends with a code first is not the
   only one that fails. As the program alone would, all may come to their ends that are where he was, and wait for nobody. */
static bool waits_for_ends(struct job *job) {
    bool is_by_code = job->first_failed >= 0 ? job->ranks[job->first_failed].exit_code : !strcmp(job->problem.id, "AR-RANK-FAILED");
    return job->state == LIFECYCLE_ENDING && is_by_code && job_clock_ms(job) - job->ending_ms < job->config->grace_ms &&
           board_all_have_come(job);
}

static bool waits_for_helpers(struct job *job) {
    bool may_wait = job->state == LIFECYCLE_SWEEPING || job->state == LIFECYCLE_SWEEP_TERM;
    if (!may_wait || !strays_end_by_themselves(&job->strays))
        return false;
    if (!job->helpers_ms)
        job->helpers_ms = job_clock_ms(job);
    return job_clock_ms(job) - job->helpers_ms < HELPERS_MS;
}

/* Has rank 0 been cut short? By a signal, or by us. One that has ended by itself when the user asked it to may have said at last what it had to say: not if
   with a code, or in the midst of a line. Where we have ended it since something has failed, the others' last words are shown: they say why. */
static enum streams_zero look_at_zero(const struct job *job) {
    const struct rank *zero = &job->ranks[0];
    if (!zero->has_ended && known_is_open(&job->streams) && process_is_exiting(zero->pid))
        return STREAMS_CUT; /* until its end is known */
    if (!zero->has_ended || zero->is_survived)
        return STREAMS_LIVES;
    if (zero->ended_by_us)
        return job->requests_to_end ? STREAMS_CUT : STREAMS_WHOLE;
    bool is_asked =
        job->requests_to_end && zero->ended_ms >= job->requested_ms && zero->ended_ms - job->requested_ms < job->config->grace_ms;
    /* Of a script that has ended before its program, that one's end. */
    bool is_programs = zero->survived_ms && zero->program_is_known;
    int code = is_programs ? zero->program_code : zero->exit_code, signal = is_programs ? zero->program_signal : zero->signal;
    if (!is_asked)
        return signal ? STREAMS_DIED : STREAMS_WHOLE;
    return code || signal ? STREAMS_CUT : STREAMS_ANSWERED;
}

static void on_time(struct job *job, uint64_t now_ms) {
    bool is_time = now_ms - job->looked_ms >= BOARD_LOOK_MS;
    look_for_gap(job);
    last_words_settle(job);
    if (is_time || job->state > LIFECYCLE_ENDING)
        settle_survivors(job); /* first: how a rank has ended says more than that it has */
    if (job->deadline_ms && job_clock_ms(job) >= job->deadline_ms) {
        job->deadline_ms = 0;
        if (waits_for_reader(job) || waits_for_ends(job) || waits_for_helpers(job))
            arm(job, LIFECYCLE_MOMENT);
        else
            supervise_event(job, LIFECYCLE_DEADLINE);
    }
    if (is_time && job->state <= LIFECYCLE_INTERRUPTED && job->world_size > 1) {
        board_look(job, now_ms);
        if (!job->first)
            held_look(job, now_ms);
    }
    if (is_time)
        job->looked_ms = now_ms;
    together_on_time(job, now_ms);
    input_settle(&job->input, now_ms);
    release_lines(job);
    report_loss(job);
    notices_settle(&job->notices, now_ms, false);
    streams_settle(&job->streams, look_at_zero(job), now_ms);
}

/* The job was suspended, or the machine paused: nobody was late meanwhile. Returns for how long. */
static uint64_t note_pause(struct job *job, uint64_t begin_ms, int timeout_ms) {
    uint64_t took_ms = job_clock_ms(job) - begin_ms; /* but for Ctrl-Z's stop, which is known */
    if (timeout_ms < 0 || took_ms < (uint64_t)timeout_ms + CLOCK_PAUSE_MS)
        return 0;
    together_resume(job);
    board_forget_clocks(job);
    return took_ms - (uint64_t)timeout_ms;
}

/* What was waited for comes after the pause, by the job's clock, too. From a pause amid the calls it is not taken back: they have noted times by it. */
static void wait_for_events(struct job *job, int timeout_ms) {
    uint64_t begin_ms = job_clock_ms(job);
    loop_wait(&job->loop, timeout_ms);
    job->paused_ms += note_pause(job, begin_ms, timeout_ms);
    begin_ms = job_clock_ms(job);
    loop_call(&job->loop);
    note_pause(job, begin_ms, 0);
}

static void one_round(struct job *job) {
    claims_add(&job->claims, &job->loop);
    streams_add(&job->streams, &job->loop);
    input_add(&job->input, &job->loop);
    inherited_add(&job->inherited, &job->loop);
    printer_add(&job->notices.printer, &job->loop);
    signals_add(job);
    if (job->hosts)
        together_add(job, &job->loop);
    for (uint32_t i = 0; i < job->local_size; i++)
        loop_add(&job->loop, job->ranks[i].pidfd, POLLIN, rank_ready, job, i);
    wait_for_events(job, round_timeout(job, clock_ms()));
    on_time(job, clock_ms());
    if (job->state >= LIFECYCLE_SWEEPING && job->state < LIFECYCLE_DONE) {
        if (strays_reap(&job->strays) == 0)
            supervise_event(job, LIFECYCLE_NOTHING_LEFT);
        else if (job->state == LIFECYCLE_SWEEP_KILL)
            strays_signal(&job->strays, SIGKILL); /* those whose parents have just died */
    }
}

/* Waits for a slow reader as the program would: also one that has heard the user, days ago or to save what it has, and ended well. READER_MS at most where it
   has ended otherwise, or the user asks now, and not at all when he asks again. Logs are our own: for their disk, or who reads one that is a pipe, nobody waits
   as long after a failure. */
static void hand_on(struct job *job, bool (*is_done)(struct job *job)) {
    int limit = job->requests_to_end + 2;
    bool has_ended_well = !some_rank(job, has_ended_badly), has_failed = !has_ended_well || job->problem.exit_code;
    int heard = has_ended_well ? job->requests_to_end : 0;
    uint64_t begin_ms = job_clock_ms(job);
    while (!is_done(job) && job->requests_to_end < limit && (job->requests_to_end <= heard || job_clock_ms(job) - begin_ms < READER_MS)) {
        streams_add(&job->streams, &job->loop);
        printer_add(&job->notices.printer, &job->loop);
        signals_add(job);
        if (job->hosts)
            together_add(job, &job->loop);
        bool logs_wait = streams_logs_wait(&job->streams);
        wait_for_events(job, job->requests_to_end || job->hosts || logs_wait ? BOARD_LOOK_MS : -1);
        together_on_time(job, clock_ms());
        if (logs_wait && has_failed && job_clock_ms(job) - begin_ms >= READER_MS)
            streams_give_logs_up(&job->streams);
    }
}

static bool output_is_done(struct job *job) {
    return streams_drain(&job->streams) && !streams_logs_wait(&job->streams);
}

static bool printer_is_done(struct job *job) {
    return !printer_is_waiting(&job->notices.printer);
}

static void finish_output(struct job *job) {
    hand_on(job, output_is_done);
    streams_give_logs_up(&job->streams);
    streams_end(&job->streams, look_at_zero(job), clock_ms());
    release_lines(job);
    report_loss(job);
    notices_settle(&job->notices, clock_ms(), true);
}

void supervise_last_words(struct job *job) {
    hand_on(job, printer_is_done);
}

void supervise_run(struct job *job) {
    while (job->state != LIFECYCLE_DONE)
        one_round(job);
    finish_output(job);
}
