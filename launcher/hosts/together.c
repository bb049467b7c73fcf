#define _GNU_SOURCE
#include "together.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "../clock.h"
#include "../job.h"
#include "../last_words.h"
#include "look.h"

void together_failed(struct job *job, const struct problem *problem, bool is_rank, bool is_silent) {
    struct together_failure failure = {*problem, is_rank, is_silent};
    if (!job->hosts)
        return;
    hosts_tell_all(job->hosts, -1, HOSTS_FAILED, &failure, sizeof failure);
}

/* Another host's failure, or the loss of one. Returns false when this host has one of its own, or is ending anyway. */
static bool take_failure(struct job *job, const struct together_failure *failure) {
    last_words_release(job);
    if (job->problem.exit_code || job->first_failed >= 0 || job->state == LIFECYCLE_STOPPING || job->state == LIFECYCLE_KILLING)
        return false;
    job->problem = failure->problem;
    if (failure->is_silent)
        notices_settle(&job->notices, clock_ms(), true);
    else
        report_problem(job, &failure->problem);
    supervise_event(job, failure->is_rank ? LIFECYCLE_RANK_FAILED : LIFECYCLE_PROBLEM);
    return true;
}

static void hear_failed(struct job *job, uint32_t host, const char *body, uint32_t bytes) {
    struct together_failure failure;
    if (bytes != sizeof failure)
        return;
    memcpy(&failure, body, sizeof failure);
    struct problem *problem = &failure.problem;
    problem->id[sizeof problem->id - 1] = problem->what[sizeof problem->what - 1] = problem->cure[sizeof problem->cure - 1] = 0;
    if (!problem->exit_code)
        problem->exit_code = EXIT_LAUNCHER;
    if (take_failure(job, &failure))
        hosts_tell_all(job->hosts, (int)host, HOSTS_FAILED, &failure, sizeof failure);
}

/* ---- signals of the user */

void together_signal(struct job *job, int signal, bool is_of_rank) {
    if (!job->hosts)
        return;
    struct together_asked asked = {signal, job->hosts->host, is_of_rank};
    hosts_tell_all(job->hosts, -1, HOSTS_SIGNAL, &asked, sizeof asked);
}

/* A user there, a scheduler, or another launcher that is being ended: news here. */
static void say_asked(struct job *job, const struct together_asked *asked) {
    struct problem problem;
    if (job->config->log_level < CONFIG_LEVEL_WARN)
        return;
    problem_set(&problem, 0, "AR-HOST-SIGNAL", "look there for who sent it: a user, a job scheduler, a launcher that was ended itself",
                "host %u (%s) was told to end by signal %d (%s): the job ends on all hosts", asked->host,
                job->hosts->list[asked->host].name, asked->signal, strsignal(asked->signal));
    notices_problem(&job->notices, "warning", &problem);
}

static void hear_signal(struct job *job, uint32_t host, const char *body, uint32_t bytes) {
    struct together_asked asked;
    if (bytes != sizeof asked)
        return;
    memcpy(&asked, body, sizeof asked);
    if (asked.host >= job->hosts->count)
        return;
    if (asked.is_of_rank)
        signals_of_ranks(job, asked.host, asked.signal);
    else if (signals_of_host(job, asked.host, asked.signal) && rank_is_asked_to_end(asked.signal))
        say_asked(job, &asked);
    hosts_tell_all(job->hosts, (int)host, HOSTS_SIGNAL, &asked, sizeof asked);
}

void together_pause(struct job *job) {
    if (!job->hosts)
        return;
    hosts_tell_all(job->hosts, -1, HOSTS_PAUSE, NULL, 0);
    hosts_flush(job->hosts);
}

void together_resume(struct job *job) {
    if (job->hosts)
        hosts_forget_clocks(job->hosts, clock_ms());
}

/* ---- a host is lost */

static void hear_gone(void *context, uint32_t host, const char *how) {
    struct job *job = context;
    const struct board_host *line = &job->hosts->list[host];
    struct together_failure failure = {.is_rank = false};
    char ranks[48];
    snprintf(ranks, sizeof ranks, line->count > 1 ? "ranks %u to %u" : "rank %u", line->first, line->first + line->count - 1);
    problem_set(&failure.problem, EXIT_LAUNCHER, "AR-HOST-GONE",
                "look there for who ended it: its network, its power, a job scheduler, too little memory ('dmesg | tail')",
                "host %u (%s, %s) is gone: %s", host, line->name, ranks, how);
    job->hosts->peers[host].is_done = job->hosts->peers[host].is_lost = true;
    job->hosts->peers[host].code = EXIT_LAUNCHER;
    if (take_failure(job, &failure))
        together_failed(job, &failure.problem, false, false);
    else if (job->hosts->peers[host].is_paused && job->config->log_level >= CONFIG_LEVEL_WARN) /* it does not know yet that the job ends */
        notices_problem(&job->notices, "warning", &failure.problem);
}

/* ---- the end */

static void hear_code(struct job *job, uint32_t host, const char *body, uint32_t bytes) {
    int32_t code;
    if (bytes != sizeof code)
        return;
    memcpy(&code, body, sizeof code);
    job->hosts->peers[host].is_done = true;
    job->hosts->peers[host].code = code;
}

static bool all_are_done(const struct job *job) {
    if (!hosts_is_first(job->hosts))
        return job->hosts->peers[0].is_done;
    for (uint32_t host = 1; host < job->hosts->count; host++)
        if (!job->hosts->peers[host].is_done)
            return false;
    return true;
}

void together_add(struct job *job, struct loop *loop) {
    hosts_add(job->hosts, loop);
    look_add(job, loop);
}

static void one_round(struct job *job) {
    together_add(job, &job->loop);
    printer_add(&job->notices.printer, &job->loop);
    signals_add(job);
    loop_round(&job->loop, HOSTS_BEAT_MS);
    together_on_time(job, clock_ms());
}

/* A host that has nothing left answers for a moment still: what was told must reach it. */
static bool is_flushed(const struct job *job) {
    for (uint32_t host = 0; host < job->hosts->count; host++)
        if (job->hosts->peers[host].descriptor >= 0 && job->hosts->peers[host].out_begin < job->hosts->peers[host].out_end)
            return false;
    return true;
}

/* What goes on may wait for a host that is stopped, what ends does not. */
static void end_patience(struct job *job, int code) {
    if (!job->hosts->ends_ms && (code || job->problem.exit_code || job->requests_to_end))
        job->hosts->ends_ms = clock_ms();
}

/* The first host's ranks have ended: others may wait for them. */
static void look_for_waiters(struct job *job, uint64_t now_ms) {
    if (job->problem.exit_code || now_ms - job->looked_ms < BOARD_LOOK_MS)
        return;
    job->looked_ms = now_ms;
    board_look(job, now_ms);
}

int together_end(struct job *job, int code) {
    int32_t said = code;
    if (!job->hosts)
        return report_thrown(job, code);
    if (!hosts_is_first(job->hosts)) {
        relay_lines(job, true);
        hosts_tell(job->hosts, 0, HOSTS_DONE, &said, sizeof said);
    }
    while (!all_are_done(job)) {
        end_patience(job, code);
        one_round(job);
        look_for_waiters(job, clock_ms());
    }
    if (!code)
        said = job->problem.exit_code;
    if (!hosts_is_first(job->hosts))
        return job->hosts->peers[0].is_lost ? said : job->hosts->peers[0].code; /* it may have ended since it has said so */
    for (uint32_t host = 1; host < job->hosts->count && !said; host++)
        said = job->hosts->peers[host].code;
    said = report_thrown(job, said);
    hosts_tell_all(job->hosts, 0, HOSTS_VERDICT, &said, sizeof said);
    for (uint64_t begin_ms = clock_ms(); !is_flushed(job) && clock_ms() - begin_ms < job->hosts->timeout_ms;)
        one_round(job);
    return said;
}

/* ---- the loop */

static void hear(void *context, uint32_t host, uint32_t type, const char *body, uint32_t bytes) {
    struct job *job = context;
    bool from_first = host == 0;
    if (type == HOSTS_LINES)
        relay_hear_lines(job, body, bytes);
    else if (type == HOSTS_COME ? !from_first : (type == HOSTS_ANSWER || type == HOSTS_END) && from_first)
        relay_hear_meeting(job, type, body, bytes);
    else if (type == HOSTS_LOOK && hosts_is_first(job->hosts))
        look_hear(job, body, bytes);
    else if (type == HOSTS_LOOKED && from_first)
        look_hear_answer(job, body, bytes);
    else if (type == HOSTS_FAILED)
        hear_failed(job, host, body, bytes);
    else if (type == HOSTS_SIGNAL)
        hear_signal(job, host, body, bytes);
    else if (type == (from_first ? HOSTS_VERDICT : HOSTS_DONE))
        hear_code(job, host, body, bytes);
}

void together_begin(struct job *job) {
    job->hosts->events = (struct hosts_events){hear, hear_gone, job};
    job->hosts->pause_ms = job->config->collective_timeout_ms; /* the ranks give up then, and say why */
    /* From its first word on it is expected to go on speaking; before that it may load the program from a cold disk. */
    hosts_forget_clocks(job->hosts, clock_ms() + job->config->start_timeout_ms);
}

void together_on_time(struct job *job, uint64_t now_ms) {
    if (!job->hosts)
        return;
    if (now_ms - job->lines_ms >= HOSTS_BEAT_MS) {
        job->lines_ms = now_ms;
        relay_lines(job, false);
    }
    hosts_on_time(job->hosts, now_ms);
}
