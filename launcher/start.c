#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "placement/cgroup.h"
#include "environ.h"
#include "hosts/look.h"
#include "job.h"
#include "last_words.h"
#include "spawn.h"

/* ---- what the ranks' shims say */

static void hear_log(void *context, uint32_t rank, char level, const char *text) {
    struct job *job = context;
    streams_catch_up(&job->streams);
    notices_log(&job->notices, rank - job->first, level, text, clock_ms());
}

static void hear_problem(void *context, uint32_t rank, const struct protocol_problem *said) {
    struct job *job = context;
    struct problem problem;
    problem_set(&problem, EXIT_LAUNCHER, said->id, said->cure, "%s", said->what);
    last_words_hear(job, rank, &problem);
}

/* Not of a rank that has trained itself: its children may compute gradients besides. */
static void hear_child(void *context, uint32_t rank) {
    struct job *job = context;
    struct together_line line = {0};
    struct problem advice;
    board_line(job, rank, &line);
    if (job->world_size < 2 || line.step || job->child_has_trained || job->config->log_level < CONFIG_LEVEL_WARN)
        return;
    job->child_has_trained = true;
    problem_set(
        &advice, 0, "AR-CHILD-TRAINS",
        "call the function that trains instead of starting a process for it, or import torch in that process alone",
        "a child process of rank %u trains, and the process that had imported torch before, which is the rank, has not trained so far: "
        "each of the %u ranks has such a child (rank 0 alone where the program waits for it as for a command), which does all of "
        "the work and writes its files",
        rank, job->world_size);
    streams_catch_up(&job->streams);
    notices_problem(&job->notices, "warning", &advice);
}

/* The first of them speaks for all. */
static void hear_child_writes(void *context, const struct protocol_problem *warning) {
    struct job *job = context;
    struct problem advice;
    if (job->world_size < 2 || job->child_has_written || job->config->log_level < CONFIG_LEVEL_WARN)
        return;
    job->child_has_written = true;
    problem_set(&advice, 0, warning->id, warning->cure, "%s", warning->what);
    streams_catch_up(&job->streams);
    notices_problem(&job->notices, "warning", &advice);
}

static void hear_report(void *context, uint32_t rank, const char *text) {
    struct job *job = context;
    if (job->explain && rank == 0 && !job->explain->is_over && explain_hear(job->explain, text))
        supervise_event(job, LIFECYCLE_INTERRUPT_3); /* SIGKILL: nothing of the program is to run any more, no handler that saves */
}

static void hear_meeting(void *context, uint32_t rank, const char *body, uint32_t bytes) {
    relay_meeting(context, rank, body, bytes);
}

static void hear_look(void *context, uint32_t rank, const char *body, uint32_t bytes) {
    look_ask(context, rank, body, bytes);
}

static void hear_signalled(void *context, uint32_t rank, bool is_granted, int signal) {
    signals_of_rank(context, rank, is_granted, signal);
}

static void show_line(void *context, uint32_t rank, const char *line, size_t bytes) {
    struct job *job = context;
    notices_line(&job->notices, rank, line, bytes);
}

/* ---- taking up */

static int fail(struct job *job, const char *what) {
    return problem_set(&job->problem, EXIT_LAUNCHER, "AR-SPAWN", "raise 'ulimit -n' and 'ulimit -u', or run fewer ranks", "%s: %s", what,
                       strerror(errno));
}

/* Eight descriptors a rank: the soft limit of 1024 is soon reached. The ranks get the old one back. */
static void raise_open_files(struct job *job) {
    getrlimit(RLIMIT_NOFILE, &job->open_files);
    struct rlimit raised = {job->open_files.rlim_max, job->open_files.rlim_max};
    setrlimit(RLIMIT_NOFILE, &raised);
}

static int open_claims(struct job *job) {
    job->claims.ranks = job->ranks;
    job->claims.events = (struct claims_events){hear_log,     hear_problem, hear_report,    hear_child, hear_child_writes,
                                                hear_meeting, hear_look,    hear_signalled, job};
    job->claims.first = job->first;
    job->claims.local_size = job->local_size;
    job->claims.leader_listener = job->hosts ? job->hosts->leader_listener : -1;
    job->claims.segments.world_size = job->world_size;
    if (job->hosts) {
        job->claims.segments.hosts = job->hosts->count;
        job->claims.segments.host = job->hosts->host;
        job->claims.segments.places = job->hosts->list;
    }
    job->claims.grant = plan_grant(job->config, job->world_size, job->plan->cores);
    job->claims.grant.flags |= job->explain ? PROTOCOL_FLAG_RECORD : 0;
    job->claims.grant.record_steps = job->explain ? job->explain->steps : 0;
    if (claims_open(&job->claims))
        return -1;
    if (job->hosts) /* one secret for all: seeds are drawn from it, too */
        memcpy(job->claims.cookie, job->hosts->cookie, sizeof job->claims.cookie);
    return 0;
}

static int take_up(struct job *job) {
    struct streams_request request = {&job->console, &job->files, job->local_size, job->config->log_dir, job->first, show_line, job};
    raise_open_files(job);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    job->ranks = calloc(job->local_size, sizeof *job->ranks);
    job->watch = calloc(job->world_size, sizeof *job->watch);
    job->lines = calloc(job->world_size, sizeof *job->lines);
    if (!job->ranks || !job->watch || !job->lines || notices_open(&job->notices, job->local_size))
        return fail(job, "out of memory");
    job->notices.printer.line_is_open = &job->streams.line_is_open;
    job->notices.printer.files = job->console.is_regular[2] ? &job->files : NULL;
    for (uint32_t i = 0; i < job->local_size; i++)
        job->ranks[i] = (struct rank){.number = job->first + i, .pidfd = -1};
    for (uint32_t i = 0; i < job->world_size; i++)
        job->lines[i].rank = i;
    job->notices.first = job->first;
    if (signals_open(job))
        return fail(job, "cannot watch signals");
    if (open_claims(job))
        return fail(job, "cannot open the socket for the ranks");
    job->strays.ranks = job->ranks;
    job->strays.world_size = job->local_size;
    strays_note_earlier(&job->strays);
    if (guard_start(&job->guard, job->claims.name))
        return fail(job, "cannot start the guard process");
    job->strays.guard = job->guard.pid;
    if (streams_open(&job->streams, &request, &job->problem) || input_open(&job->input, &job->console, job->local_size, &job->problem))
        return -1;
    struct inherited_request inherited = {job->plan->arguments, config_variable(job->environment, "MAKEFLAGS"), job->local_size, job->first,
                                          &job->input};
    if (inherited_open(&job->inherited, &inherited, &job->problem))
        return -1;
    return 0;
}

/* ---- starting the ranks */

static int start_rank(struct job *job, uint32_t number, char *const *arguments, struct spawned *spawned) {
    int descriptors[3];
    struct spawn_descriptor others[INHERITED_MOST];
    struct environ_claim claim = {
        .socket = job->claims.name, .cookie = job->claims.cookie, .rank = job->first + number, .hosts = job->hosts ? job->hosts->count : 1};
    char **environment = environ_build(job->plan, job->environment, &claim);
    struct spawn_request request = {arguments == job->plan->arguments ? job->plan->path : arguments[0],
                                    arguments,
                                    environment,
                                    descriptors,
                                    others,
                                    inherited_descriptors(&job->inherited, number, others),
                                    &job->ignored,
                                    &job->open_files,
                                    placement_of(job->plan->placement, number)};
    if (!environment)
        return problem_set(&job->problem, EXIT_LAUNCHER, "AR-MEMORY", "free some memory", "out of memory");
    descriptors[0] = input_descriptor(&job->input, number);
    streams_descriptors(&job->streams, number, &descriptors[1], &descriptors[2]);
    int status = spawn_rank(&request, spawned, &job->problem);
    environ_free(environment);
    if (status)
        return status;
    streams_started(&job->streams, number);
    input_started(&job->input, number);
    inherited_started(&job->inherited, number);
    job->ranks[number].pid = spawned->pid;
    job->ranks[number].pidfd = (int)syscall(SYS_pidfd_open, spawned->pid, 0); /* closed on exec by itself */
    guard_add(&job->guard, spawned->pid);
    return job->ranks[number].pidfd < 0 ? fail(job, "cannot watch a process (Linux 5.3 is needed)") : 0;
}

static int start_all(struct job *job, char *const *arguments, struct spawned *spawned) {
    for (uint32_t i = 0; i < job->local_size; i++)
        if (start_rank(job, i, arguments, &spawned[i]))
            return -1;
    for (uint32_t i = 0; i < job->local_size; i++)
        if (spawn_release(&spawned[i], &job->problem))
            return -1;
    for (uint32_t i = 0; i < job->local_size; i++)
        if (spawn_await(&spawned[i], job->plan->path, &job->problem))
            return -1;
    return 0;
}

static void kill_started(struct job *job) {
    signals_send(job, SIGKILL);
    for (uint32_t i = 0; i < job->local_size; i++)
        if (job->ranks[i].pid > 0)
            waitpid(job->ranks[i].pid, NULL, 0);
}

int job_start(struct job *job) {
    job->first_failed = -1;
    job->signal_descriptor = -1;
    job->claims.listener = -1;
    if (take_up(job))
        return -1;
    job->oom_kills = cgroup_oom_kills("");
    struct spawned *spawned = calloc(job->local_size, sizeof *spawned);
    char **through_shell = job->target->through_shell ? plan_shell_arguments(job->plan) : NULL;
    int status = spawned ? start_all(job, through_shell ? through_shell : (char **)(uintptr_t)job->plan->arguments, spawned)
                         : fail(job, "out of memory");
    free(spawned);
    free(through_shell);
    inherited_all_started(&job->inherited);
    if (status)
        kill_started(job);
    return status;
}

void job_clear(struct job *job) {
    for (uint32_t i = 0; job->ranks && i < job->local_size; i++) {
        if (job->ranks[i].pidfd >= 0)
            close(job->ranks[i].pidfd);
        if (job->ranks[i].pid > 0)
            waitpid(job->ranks[i].pid, NULL, WNOHANG);
    }
    guard_stop(&job->guard);
    if (job->streams.list)
        streams_clear(&job->streams);
    if (job->input.sinks)
        input_clear(&job->input);
    inherited_clear(&job->inherited);
    if (job->claims.connections)
        claims_clear(&job->claims);
    notices_clear(&job->notices);
    loop_clear(&job->loop);
    if (job->signal_descriptor >= 0)
        close(job->signal_descriptor);
    free(job->ranks);
    free(job->watch);
    free(job->lines);
    if (job->hosts)
        hosts_clear(job->hosts);
}
