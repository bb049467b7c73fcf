/*
 * accel-run: the story. options → plan → preflight → start → supervise → verdict → exit code.
 *
 * Rules of this folder
 *  - Only this file calls exit(). Functions return 0 or -1 and fill a struct problem; who detects a fault words it.
 *  - Never CUDA, NCCL or libtorch; libc and libelf only.
 *  - Pure files (plan, environ, options, compare, output, lifecycle, watch, verdict) make no system calls and have unit tests.
 *  - All state is in struct job, passed down.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../config/config.h"
#include "cores.h"
#include "environ.h"
#include "job.h"
#include "options.h"
#include "verdict.h"

static void refuse(const struct problem *problem) {
    dprintf(STDERR_FILENO, "accel-run: error %s: %s\n  what to do: %s\n", problem->id, problem->what, problem->cure);
    exit(problem->exit_code);
}

static void warn_before(struct job *job) {
    const struct plan *plan = job->plan;
    char name[64], list[1024] = "";
    const char *nearest = "";
    if (job->config->log_level < CONFIG_LEVEL_WARN)
        return;
    if (config_unknown_variable(job->environment, name, &nearest))
        notices_say(&job->notices, "warning AR-ENV-UNKNOWN: nobody reads the variable %s; did you mean %s?", name, nearest);
    for (uint32_t i = 0; i < plan->removed_count && strlen(list) < sizeof list - 100; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.60s", i ? ", " : "", strtok(strdupa(plan->removed[i]), "="));
    if (plan->removed_count)
        notices_say(&job->notices, "warning AR-ENV-REMOVED: another launcher's variables are kept from the ranks: %s", list);
    if (plan->ranks > plan->cores)
        notices_say(&job->notices, "warning AR-CORES: %u ranks share %u core%s: they will wait for each other", plan->ranks, plan->cores,
                    plan->cores > 1 ? "s" : "");
}

static int conclude(struct job *job) {
    struct verdict verdict;
    char tail[STREAMS_TAIL_BYTES];
    struct verdict_facts facts = {job->ranks, job->world_size, job->plan->arguments[0], job->first_failed, &job->problem, job->user_signal,
                                  cores_oom_kills("") > job->oom_kills, job->failed_where};
    verdict_find(&facts, &verdict);
    if (verdict.is_silent || (!verdict.exit_code && job->config->log_level < CONFIG_LEVEL_WARN))
        return verdict.exit_code;
    if (verdict.show_tail) {
        streams_tail(&job->streams, (uint32_t)job->first_failed, "    ", 10, tail, sizeof tail);
        if (*tail)
            notices_say(&job->notices, "last lines of rank %d:\n%s", job->first_failed, tail);
    }
    notices_problem(&job->notices, verdict.exit_code ? "error" : "warning", &verdict.report);
    return verdict.exit_code;
}

int main(int argc, char **argv) {
    struct config config;
    struct problem problem = {0};
    struct target target;
    struct plan plan;
    int program = options_read(argc, argv, environ, &config, &problem);
    if (program < 0)
        refuse(&problem);
    if (config.help || config.version) {
        config.help ? config_print_help(stdout) : (void)puts("accel-run " ACCEL_RUN_VERSION);
        return fflush(stdout) ? EXIT_LAUNCHER : 0;
    }
    if (preflight_run(argv[program], getenv("PATH"), getenv(CONFIG_ENV_SHIM), &target, &problem))
        refuse(&problem);
    struct plan_facts facts = {&config, &target, argv + program, environ, cores_allowed("")};
    if (plan_build(&plan, &facts, &problem))
        refuse(&problem);
    if (config.dry_run) {
        plan_print(&plan, stdout);
        return fflush(stdout) ? EXIT_LAUNCHER : 0;
    }
    struct job job = {.config = &config, .plan = &plan, .target = &target, .environment = environ, .world_size = plan.ranks};
    if (job_start(&job)) {
        problem = job.problem;
        job_clear(&job);
        refuse(&problem);
    }
    warn_before(&job);
    supervise_run(&job);
    int code = conclude(&job);
    job_clear(&job);
    plan_clear(&plan);
    exit(code);
}
