/*
 * accel-run: the story. options → plan → preflight → start → supervise → verdict → exit code.
 *
 * Rules of this folder
 *  - Only this file calls exit(). Functions return 0 or -1 and fill a struct problem; who detects a fault words it.
 *  - Never CUDA, NCCL or libtorch; libc and libelf only; libyaml through config/.
 *  - Pure files (plan, environ, interpret, options, compare, output, lifecycle, watch, verdict) make no system calls and have unit tests.
 *  - All state is in struct job, passed down.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../config/config.h"
#include "engines/ancestors.h"
#include "commands/command.h"
#include "commands/explain.h"
#include "engines/front.h"
#include "job.h"
#include "options.h"
#include "placement/placement.h"
#include "program/script.h"
#include "settings.h"
#include "engines/stand_by.h"

/* The launcher that has started us, if any. */
static struct engine engine = {.family = ENGINE_FAMILIES};
/* Its other processes on this host, where there are several hosts. */
static struct stand_by others;

/* Several hosts: of the others some have not heard of this one yet. */
static const struct config *unmet;
static struct hosts hosts;

static void __attribute__((noreturn)) refuse(const struct problem *problem) {
    bool is_said = !*problem->id || (engine.mode == ENGINE_JOIN && front_tell(&engine, problem));
    if (!is_said)
        dprintf(STDERR_FILENO, "accel-run: error %s: %s\n  what to do: %s\n", problem->id, problem->what, problem->cure);
    if (unmet && *problem->id)
        hosts_refuse(unmet, hosts.is_refused ? &hosts : NULL, problem);
    stand_by_release(&others, problem->exit_code);
    exit(problem->exit_code);
}

/* Who is above is looked at where the variables of a launcher are there. */
static void find_engine(void) {
    struct ancestors ancestors;
    engines_find(&(struct engine_facts){environ, NULL, 0, false}, &engine);
    if (engine.mode == ENGINE_SPAWN && !*engine.ignored)
        return;
    ancestors_read(&ancestors);
    int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    engines_find(&(struct engine_facts){environ, ancestors.list, ancestors.count, terminal >= 0}, &engine);
    if (terminal >= 0)
        close(terminal);
    ancestors_clear(&ancestors);
}

/* Before there is anything to end but this process. */
static void end_of_signal(int signal) {
    _Exit(128 + signal);
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

/* For who looks before it runs. A launcher that has started the ranks may have bound them: cores are not counted then. */
static void say_advice(const struct config *config) {
    static struct topology topology; /* 80 KiB */
    topology_read(&topology, "");
    uint32_t cores = engine.mode == ENGINE_JOIN ? UINT32_MAX : topology_cores(&topology);
    if (!engine.rank)
        plan_say_advice(config, environ, config->ranks, cores);
}

static void show_config(const struct settings *settings) {
    char words[4 * ENGINE_TEXT_CHARS];
    engines_words(&engine, words, sizeof words);
    if (*words)
        printf("# Other launcher: %s\n", words);
    if (settings->refused.exit_code)
        printf("# Refused: %s: %s\n", settings->refused.id, settings->refused.what);
    config_print(&settings->config, stdout);
    say_advice(&settings->config);
}

/* What needs no program. Returns the exit code. */
static int print_asked(const struct settings *settings) {
    const struct config *config = &settings->config;
    struct problem problem;
    struct config_subcommands subcommands = command_completions();
    if (config->help) {
        config_print_help(config->help, stdout);
        if (config->help <= CONFIG_TOPIC_ALL)
            command_print_list(stdout);
    } else if (config->version)
        puts("accel-run " ACCEL_RUN_VERSION);
    else if (config->show_config)
        show_config(settings);
    else if (config_print_completion(config->completion, &subcommands, stdout)) {
        problem_set(&problem, EXIT_LAUNCHER, "AR-OPTION-VALUE", "name one of them", "--completion: '%.40s' is not one of bash, zsh, fish",
                    config->completion);
        refuse(&problem);
    }
    return command_flush();
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
    struct plan_facts facts = {config, target, arguments, environ, topology_cores(&topology), &placement, &engine, 0};
    if (plan_build(plan, &facts, &problem))
        refuse(&problem);
}

/* Under torchrun, mpirun or srun: becomes the rank. */
static void __attribute__((noreturn)) become_rank(const struct config *config, const struct target *target, char *const *arguments) {
    struct problem problem = {0};
    front_run(&(struct front){&engine, config, target, arguments, environ}, &problem);
    engine.mode = ENGINE_SPAWN; /* the others know already */
    refuse(&problem);
}

/* Below a launcher that has started one process for each rank on several hosts: the first one of this host goes on, for all of them. */
static void stand_together(const struct config *config, char *const *arguments) {
    struct front front = {&engine, config, NULL, arguments, environ};
    struct problem problem;
    if (engine.mode == ENGINE_STAND) {
        int code = stand_by_wait(&front, &problem);
        if (code < 0)
            refuse(&problem);
        exit(code);
    }
    if (engine.company && stand_by_gather(&others, &front, &problem))
        refuse(&problem);
}

/* Starts the ranks and stays until nothing is left. Returns the exit code. */
static int run_job(struct job *job) {
    if (job_start(job)) {
        struct problem problem = job->problem;
        together_failed(job, &problem, false, false);
        job_clear(job);
        refuse(&problem);
    }
    report_before(job);
    supervise_run(job);
    int code = together_end(job, report_end(job));
    supervise_last_words(job);
    return code;
}

/* All settings, judged. Returns the program and its arguments. */
static char *const *read_settings(struct settings *settings, int argc, char **argv) {
    struct problem problem = {0};
    find_engine();
    int program = settings_read(settings, argc, argv, environ, &engine, &problem);
    int refused = program < 0 ? 0 : settings_refuse(settings, &problem);
    char *const *arguments = argv + (program < 0 ? argc : program);
    if (*arguments && !refused && !options_need_no_program(&settings->config))
        refused = script_take(&arguments, &settings->config, getenv("PATH"), &settings->notes, &problem);
    if (!engine.rank)
        settings_say_notes(settings);
    if (program < 0 || (refused && !options_need_no_program(&settings->config)))
        refuse(&problem);
    return arguments;
}

/* Which ranks of the job are ours. */
static void meet(struct job *job, struct plan *plan) {
    struct problem problem;
    job->local_size = job->world_size = plan->ranks;
    unmet = NULL;
    if (job->config->nnodes == 1)
        return;
    if (hosts_meet(&hosts, job->config, plan, &problem)) {
        hosts_clear(&hosts);
        unmet = hosts.is_refused ? job->config : NULL;
        refuse(&problem);
    }
    job->hosts = &hosts;
    job->first = hosts.list[hosts.host].first;
    job->world_size = hosts.world_size;
    plan_set_threads(plan, hosts.threads);
    together_begin(job);
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
    char *const *arguments = read_settings(&settings, argc, argv);
    if (options_need_no_program(&settings.config))
        return print_asked(&settings);
    if (explain.is_asked && engine.mode == ENGINE_JOIN)
        problem_set(&problem, EXIT_LAUNCHER, "AR-ENGINE-EXPLAIN", "start 'accel-run explain -n N' by itself",
                    "'accel-run explain' starts and ends its ranks itself, and cannot be a rank of %s", engines_name(&engine));
    if (problem.exit_code || explain_begin(&explain, &settings.config, &problem))
        refuse(&problem);
    struct console console;
    console_read(&console); /* before any socket is made: it would stand where one of the first three is closed */
    const struct config config = settings.config;
    if (config.nnodes > 1 && explain.is_asked) {
        problem_set(&problem, EXIT_LAUNCHER, "AR-HOSTS-SETTINGS", "explain the program on one host: what it meets is the same there",
                    "accel-run explain is for one host");
        refuse(&problem);
    }
    signals_end_process_1(end_of_signal);
    unmet = config.nnodes > 1 && !config.dry_run && engine.mode != ENGINE_STAND ? &config : NULL;
    if (!config.dry_run)
        stand_together(&config, arguments);
    if (preflight_run(arguments, getenv("PATH"), getenv(CONFIG_ENV_SHIM), &target, &problem))
        refuse(&problem);
    if (engine.mode == ENGINE_JOIN && !config.dry_run)
        become_rank(&config, &target, arguments);
    make_plan(&plan, &config, &target, arguments);
    if (config.dry_run) {
        plan_print(&plan, stdout);
        say_advice(&config);
        plan_clear(&plan);
        return command_flush();
    }
    struct job job = {.config = &config, .plan = &plan, .target = &target, .environment = environ, .console = console};
    meet(&job, &plan);
    job.explain = explain.is_asked ? &explain : NULL;
    int code = run_job(&job);
    bool interrupted = job.user_signal == SIGINT && code == 128 + SIGINT;
    problem = job.problem;
    job_clear(&job);
    code = explain_finish(&explain, &plan, &problem, code);
    plan_clear(&plan);
    stand_by_release(&others, code);
    if (interrupted)
        die_of_interrupt();
    exit(code);
}
