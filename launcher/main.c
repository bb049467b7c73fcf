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
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "../config/config.h"
#include "cores.h"
#include "job.h"
#include "options.h"

static void refuse(const struct problem *problem) {
    dprintf(STDERR_FILENO, "accel-run: error %s: %s\n  what to do: %s\n", problem->id, problem->what, problem->cure);
    exit(problem->exit_code);
}

/* After a Ctrl-C that ended the program: die of it, as the program alone would, so that a shell's loop around us ends, too. */
static void die_of_interrupt(void) {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    signal(SIGINT, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &interrupt, NULL);
    raise(SIGINT);
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
        plan_clear(&plan);
        return fflush(stdout) ? EXIT_LAUNCHER : 0;
    }
    struct job job = {.config = &config, .plan = &plan, .target = &target, .environment = environ, .world_size = plan.ranks};
    if (job_start(&job)) {
        problem = job.problem;
        job_clear(&job);
        refuse(&problem);
    }
    report_before(&job);
    supervise_run(&job);
    int code = report_end(&job);
    supervise_last_words(&job);
    bool interrupted = job.user_signal == SIGINT && code == 128 + SIGINT;
    job_clear(&job);
    plan_clear(&plan);
    if (interrupted)
        die_of_interrupt();
    exit(code);
}
