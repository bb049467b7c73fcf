/*
 * What accel-run says of its own accord at the beginning and at the end of a run.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "placement/cgroup.h"
#include "program/interpret.h"
#include "job.h"
#include "verdict.h"

static void warn(struct job *job, const char *id, const char *cure, const char *format, ...) __attribute__((format(printf, 4, 5)));
static void warn(struct job *job, const char *id, const char *cure, const char *format, ...) {
    struct problem problem;
    char what[sizeof problem.what];
    va_list list;
    if (job->config->log_level < CONFIG_LEVEL_WARN)
        return;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    problem_set(&problem, 0, id, cure, "%s", what);
    notices_problem(&job->notices, "warning", &problem);
}

void report_before(struct job *job) {
    const struct plan *plan = job->plan;
    char list[1024] = "";
    struct problem advice[PLAN_ADVICE_MAX];
    uint32_t count =
        job->config->log_level < CONFIG_LEVEL_WARN ? 0 : plan_advice(job->config, job->environment, plan->ranks, plan->cores, advice);
    for (uint32_t i = 0; i < count; i++)
        notices_problem(&job->notices, "warning", &advice[i]);
    preflight_advise(job->target, &advice[0]);
    if (*advice[0].id && job->world_size > 1 && job->config->log_level >= CONFIG_LEVEL_WARN)
        notices_problem(&job->notices, "warning", &advice[0]);
    for (uint32_t i = 0; i < plan->removed_count && strlen(list) < sizeof list - 100; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.60s", i ? ", " : "", strtok(strdupa(plan->removed[i]), "="));
    bool is_followed = plan->engine && plan->engine->mode == ENGINE_NODE; /* they have said how many hosts there are: no news */
    const char *ignored = plan->engine ? plan->engine->ignored : "";
    if (plan->removed_count && !is_followed)
        warn(job, "AR-ENV-REMOVED", "unset them, or start accel-run outside of the other launcher",
             "another launcher's variables are kept from the ranks: %s%s%s", list, *ignored ? "; not followed: " : "", ignored);
    if (plan->placement->wanted > CONFIG_BIND_AUTO && !plan->placement->sets && plan->ranks > 1)
        warn(job, "AR-BIND", "leave --bind out, or run fewer ranks", "--bind %s binds nothing: %s",
             config_bind_name(plan->placement->wanted), plan->placement->why);
}

void report_loss(struct job *job) {
    const struct streams *streams = &job->streams;
    if (streams->lost_error && !job->lost_is_said)
        warn(job, "AR-OUTPUT", "make room, or raise 'ulimit -f'; what is saved to the same disk may be lost, too",
             "the program's output cannot be written: %s. It goes on, and what it prints is lost", strerror(streams->lost_error));
    if (streams->log_error && !job->log_loss_is_said)
        warn(job, "AR-LOG-DIR", "make room, or raise 'ulimit -f'", "a file of --log-dir ends here: %s", strerror(streams->log_error));
    job->lost_is_said = streams->lost_error;
    job->log_loss_is_said = streams->log_error;
}

static bool reader_is_gone(void) {
    struct pollfd outputs[] = {{STDOUT_FILENO, POLLOUT, 0}, {STDERR_FILENO, POLLOUT, 0}};
    return poll(outputs, 2, 0) > 0 && (outputs[0].revents | outputs[1].revents) & (POLLERR | POLLHUP); /* a pipe's; a socket's */
}

static struct verdict_facts facts_of(const struct job *job) {
    return (struct verdict_facts){job->ranks,
                                  job->local_size,
                                  interpret_shown(job->plan->arguments),
                                  job->first_failed,
                                  &job->problem,
                                  job->user_signal,
                                  cgroup_oom_kills("") > job->oom_kills,
                                  job->failed_where,
                                  job->streams.lost_bytes,
                                  job->world_size,
                                  job->hosts ? job->hosts->list[job->hosts->host].name : NULL,
                                  reader_is_gone()};
}

void report_problem(struct job *job, const struct problem *problem) {
    streams_catch_up(&job->streams);
    notices_settle(&job->notices, clock_ms(), true);
    notices_problem(&job->notices, "error", problem);
}

void report_failure(struct job *job) {
    struct verdict_facts facts = facts_of(job);
    struct verdict verdict;
    if (!job->hosts || job->problem.exit_code)
        return;
    verdict_find(&facts, &verdict);
    verdict.report.exit_code = verdict.exit_code;
    together_failed(job, &verdict.report, true, verdict.is_silent);
}

int report_thrown(struct job *job, int code) {
    struct problem problem;
    if (code || !board_threw_apart(job, &problem))
        return code;
    report_problem(job, &problem);
    return problem.exit_code;
}

/* A loop around us ends early, or lines are missing in it. */
static void report_input(struct job *job) {
    struct problem problem;
    size_t taken = input_taken(&job->input);
    if (!taken || job->config->log_level < CONFIG_LEVEL_WARN)
        return;
    problem_set(
        &problem, 0, "AR-INPUT-TAKEN", "where the program reads no input: accel-run ... </dev/null",
        "%zu bytes of standard input went to the program, which did not read them: the process that has started accel-run has the same "
        "pipe as its input ('while read'), and does not get them",
        taken);
    notices_problem(&job->notices, "warning", &problem);
}

int report_end(struct job *job) {
    struct verdict verdict;
    char tail[STREAMS_TAIL_BYTES];
    struct verdict_facts facts = facts_of(job);
    verdict_find(&facts, &verdict);
    report_input(job);
    if (verdict.is_silent || (!verdict.exit_code && job->config->log_level < CONFIG_LEVEL_WARN))
        return verdict.exit_code;
    if (verdict.show_tail) {
        streams_tail(&job->streams, verdict.failed, "    ", 10, tail, sizeof tail);
        if (*tail)
            notices_say(&job->notices, "last lines of rank %u:\n%s", job->first + verdict.failed, tail);
    }
    notices_problem(&job->notices, verdict.exit_code ? "error" : "warning", &verdict.report);
    return verdict.exit_code;
}
