/*
 * accel-run: the story. options → plan → preflight → start → supervise → verdict → exit code.
 *
 * Rules of this folder
 *  - Only this file calls exit(). Functions return 0 or -1 and fill a struct problem; who detects a fault words it.
 *  - Never CUDA, NCCL or libtorch; libc and libelf only; libyaml through config/.
 *  - Pure files (plan, environ, options, compare, output, lifecycle, watch, verdict) make no system calls and have unit tests.
 *  - All state is in struct job, passed down.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "../config/config.h"
#include "commands/command.h"
#include "commands/explain.h"
#include "job.h"
#include "options.h"
#include "placement.h"
#include "script.h"
#include "settings.h"

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

/* What needs no program. Returns the exit code. */
static int print_asked(const struct config *config) {
    struct problem problem;
    char subcommands[256];
    command_names(subcommands, sizeof subcommands);
    if (config->help) {
        config_print_help(config->help, stdout);
        if (config->help <= CONFIG_TOPIC_ALL)
            command_print_list(stdout);
    } else if (config->version)
        puts("accel-run " ACCEL_RUN_VERSION);
    else if (config->show_config)
        config_print(config, stdout);
    else if (config_print_completion(config->completion, subcommands, stdout)) {
        problem_set(&problem, EXIT_LAUNCHER, "AR-OPTION-VALUE", "name one of them", "--completion: '%.40s' is not one of bash, zsh, fish",
                    config->completion);
        refuse(&problem);
    }
    return fflush(stdout) ? EXIT_LAUNCHER : 0;
}

/* What is made here lives as long as the process. */
static void make_plan(struct plan *plan, const struct config *config, const struct target *target, char *const *arguments) {
    static struct topology topology; /* 80 KiB */
    static struct placement placement;
    struct problem problem;
    topology_read(&topology, "");
    if (placement_build(&placement, &topology, (enum config_bind)config->bind, config->ranks)) {
        problem_set(&problem, EXIT_LAUNCHER, "AR-MEMORY", "free some memory", "out of memory");
        refuse(&problem);
    }
    struct plan_facts facts = {config, target, arguments, environ, topology_cores(&topology), &placement};
    if (plan_build(plan, &facts, &problem))
        refuse(&problem);
}

int main(int argc, char **argv) {
    static struct settings settings;
    const struct command *command = command_find(argc, argv);
    if (command)
        exit(command->run(&(struct command_call){argc - 1, argv + 1, environ}));
    struct problem problem = {0};
    struct explain explain;
    struct target target;
    struct plan plan;
    if (explain_take(&explain, &argc, &argv, &problem))
        refuse(&problem);
    int program = settings_read(&settings, argc, argv, environ, &problem);
    int refused = program < 0 ? 0 : settings_refuse(&settings, &problem);
    char *const *arguments = argv + (program < 0 ? argc : program);
    if (*arguments && !refused && !options_need_no_program(&settings.config))
        refused = script_take(&arguments, &settings.config, getenv("PATH"), &settings.notes, &problem);
    settings_say_notes(&settings);
    if (program < 0 || (refused && !options_need_no_program(&settings.config)))
        refuse(&problem);
    if (options_need_no_program(&settings.config))
        return print_asked(&settings.config);
    if (explain_begin(&explain, &settings.config, &problem))
        refuse(&problem);
    const struct config config = settings.config;
    if (config.nnodes > 1) {
        problem_set(&problem, EXIT_LAUNCHER, "AR-HOSTS-SETTINGS", "run on one host with -n", "several hosts are not available yet");
        refuse(&problem);
    }
    if (preflight_run(arguments[0], getenv("PATH"), getenv(CONFIG_ENV_SHIM), &target, &problem))
        refuse(&problem);
    make_plan(&plan, &config, &target, arguments);
    if (config.dry_run) {
        plan_print(&plan, stdout);
        plan_clear(&plan);
        return fflush(stdout) ? EXIT_LAUNCHER : 0;
    }
    struct job job = {.config = &config, .plan = &plan, .target = &target, .environment = environ, .world_size = plan.ranks};
    job.explain = explain.is_asked ? &explain : NULL;
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
    problem = job.problem;
    job_clear(&job);
    code = explain_finish(&explain, &plan, &problem, code);
    plan_clear(&plan);
    if (interrupted)
        die_of_interrupt();
    exit(code);
}
