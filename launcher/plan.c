#define _GNU_SOURCE
#include "plan.h"

#include "../config/join.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static void add(struct plan *plan, const char *name, const char *value) {
    struct plan_variable *variable = &plan->added[plan->added_count++];
    variable->name = name;
    snprintf(variable->value, sizeof variable->value, "%s", value);
}

/* Libraries that start threads all read OMP_NUM_THREADS when their own variable is not set; a user's value of any of them wins (L24), except over
   --threads, which is the user's, too. The 1 that torchrun writes when there is none is nobody's choice. */
static const char *const threads_names[] = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"};

/* NULL: empty, or no number: OpenMP would take all cores in every rank. */
static const char *threads_of_user(char *const *environment) {
    const char *users = config_variable(environment, threads_names[0]);
    return users && *users >= '1' && *users <= '9' ? users : NULL;
}

static void plan_threads(struct plan *plan, const struct plan_facts *facts) {
    uint32_t wanted = facts->config->threads;
    bool is_spread = facts->config->nnodes > 1;
    char value[PLAN_VALUE_CHARS];
    const char *users = facts->engine && facts->engine->threads_are_its ? NULL : threads_of_user(facts->environment);
    plan->threads_are_users = wanted || users;
    if (is_spread && !wanted && users) /* to be compared with the other hosts' */
        plan->threads = (uint32_t)strtoul(users, NULL, 10);
    if (!wanted && ((plan->ranks == 1 && !is_spread) || users))
        return;
    uint32_t share = facts->share ? facts->share : plan->cores / plan->ranks;
    plan->threads = wanted ? wanted : share ? share : 1;
    snprintf(value, sizeof value, "%u", plan->threads);
    for (size_t i = 0; i < sizeof(threads_names) / sizeof(*threads_names); i++)
        if (wanted || i == 0 || !config_variable(facts->environment, threads_names[i]))
            add(plan, threads_names[i], value);
}

/* "One process in all", without a launcher: a program that asks for its group of one has it, in every rank (hooks/ports). */
static bool is_of_group_of_one(char *const *environment, const char *entry) {
    static const char *const names[] = {"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "MASTER_ADDR=", "MASTER_PORT="};
    const char *rank = config_variable(environment, "RANK"), *size = config_variable(environment, "WORLD_SIZE");
    if (!rank || !size || strcmp(rank, "0") != 0 || strcmp(size, "1") != 0)
        return false;
    for (char *const *other = environment; *other; other++)
        if (!strncmp(*other, "TORCHELASTIC_", strlen("TORCHELASTIC_"))) /* its agent's store has one place for each worker */
            return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(entry, names[i], strlen(names[i])))
            return true;
    return false;
}

/* Another launcher's variables would make a program, or a framework in it, join a job of its own (L29). */
static void plan_removed(struct plan *plan, const struct plan_facts *facts) {
    static const struct engine none = {.family = ENGINE_FAMILIES};
    for (char *const *environment = facts->environment; *environment; environment++)
        if (engines_hides(facts->engine ? facts->engine : &none, *environment) && !is_of_group_of_one(facts->environment, *environment) &&
            plan->removed_count < PLAN_REMOVED_MAX)
            plan->removed[plan->removed_count++] = *environment;
}

/* Sanitizer runtime, shim, then what the user preloads (P18, P19). */
static int plan_preload(struct plan *plan, const struct plan_facts *facts) {
    const char *users = config_variable(facts->environment, "LD_PRELOAD");
    const char *sanitizer = facts->target->sanitizer;
    bool more = users && *users;
    return asprintf(&plan->preload, "%s%s%s%s%s", sanitizer, *sanitizer ? ":" : "", facts->target->shim, more ? ":" : "",
                    more ? users : "");
}

/* libtorch frees by its C++ what the shim has made by malloc(), which is one memory (shim/torch/dispatch.c). What the user says comes later, and counts. */
static void plan_checks(struct plan *plan, const struct plan_facts *facts) {
    char value[PLAN_VALUE_CHARS];
    const char *users = config_variable(facts->environment, "ASAN_OPTIONS");
    int length = snprintf(value, sizeof value, "alloc_dealloc_mismatch=0%s%s", users && *users ? ":" : "", users ? users : "");
    if (!strcmp(facts->target->checks, "address") && length < (int)sizeof value)
        add(plan, "ASAN_OPTIONS", value);
}

int plan_build(struct plan *plan, const struct plan_facts *facts, struct problem *problem) {
    memset(plan, 0, sizeof *plan);
    if (config_variable(facts->environment, PROTOCOL_ENV_SOCKET) || config_variable(facts->environment, JOIN_ENV))
        return problem_set(problem, EXIT_LAUNCHER, "AR-NESTED",
                           "start accel-run once, outside; unset " PROTOCOL_ENV_SOCKET " and " JOIN_ENV " if that is a mistake",
                           "accel-run was started inside a rank of another accel-run");
    plan->config = facts->config;
    plan->ranks = facts->config->ranks;
    plan->cores = facts->cores;
    plan->placement = facts->placement;
    plan->engine = facts->engine;
    plan->path = facts->target->path;
    plan->shim = facts->target->shim;
    plan->arguments = facts->arguments;
    plan_threads(plan, facts);
    /* torch.compile would trace one rank's rows into a graph that no longer passes through the dispatcher. */
    if ((plan->ranks > 1 || facts->config->nnodes > 1) && !config_variable(facts->environment, "TORCH_COMPILE_DISABLE"))
        add(plan, "TORCH_COMPILE_DISABLE", "1");
    if (facts->config->asks_for_cpu) /* as accelerate launch does */
        add(plan, "ACCELERATE_USE_CPU", "true");
    plan_checks(plan, facts);
    plan_removed(plan, facts);
    if (plan_preload(plan, facts) < 0)
        return problem_set(problem, EXIT_LAUNCHER, "AR-MEMORY", "free some memory", "out of memory");
    return 0;
}

void plan_set_threads(struct plan *plan, uint32_t threads) {
    for (uint32_t i = 0; threads && i < plan->added_count; i++)
        for (size_t k = 0; k < sizeof(threads_names) / sizeof(*threads_names); k++)
            if (!strcmp(plan->added[i].name, threads_names[k]))
                snprintf(plan->added[i].value, sizeof plan->added[i].value, "%u", threads);
    plan->threads = threads ? threads : plan->threads;
}

void plan_clear(struct plan *plan) {
    free(plan->preload);
    plan->preload = NULL;
}

struct protocol_grant plan_grant(const struct config *config, uint32_t ranks, uint32_t cores) {
    return (struct protocol_grant){
        .world_size = ranks,
        .cores = cores,
        .collective_timeout_ms = config->collective_timeout_ms,
        .flags = (config->explain ? PROTOCOL_FLAG_EXPLAIN : 0) | (config->scale_batch ? PROTOCOL_FLAG_SCALE_BATCH : 0) |
                 (config->no_shard_loading ? PROTOCOL_FLAG_WHOLE_LOADING : 0),
        .log_level = config->log_level,
    };
}

char **plan_shell_arguments(const struct plan *plan) {
    size_t count = 0;
    while (plan->arguments[count])
        count++;
    char **list = calloc(count + 2, sizeof *list);
    if (!list)
        return NULL;
    list[0] = (char *)(uintptr_t) "/bin/sh";
    list[1] = (char *)(uintptr_t)plan->path;
    for (size_t i = 1; i < count; i++)
        list[i + 1] = plan->arguments[i];
    return list;
}

/* How many threads each rank was told to have: 0 when it gets its part of the cores. */
static uint32_t threads_asked_for(const struct config *config, char *const *environment) {
    const char *users = threads_of_user(environment);
    unsigned long threads = config->threads ? config->threads : users ? strtoul(users, NULL, 10) : 0;
    return threads > UINT16_MAX ? UINT16_MAX : (uint32_t)threads;
}

/* The variable by which each rank's OpenMP binds its threads, to the first processors that it may use: the same ones in every rank. NULL: none does. */
static const char *binds_threads(char *const *environment) {
    static const char *const names[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"};
    const char *bind = config_variable(environment, names[0]);
    if (bind && !strcasecmp(bind, "false"))
        return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = config_variable(environment, names[i]);
        if (value && *value)
            return names[i];
    }
    return NULL;
}

uint32_t plan_advice(const struct config *config, char *const *environment, uint32_t ranks, uint32_t cores, struct problem *list) {
    char name[64];
    const char *nearest = "";
    uint32_t count = 0, threads = threads_asked_for(config, environment);
    const char *binding = cores != UINT32_MAX && config->bind == CONFIG_BIND_NONE ? binds_threads(environment) : NULL;
    if (config_unknown_variable(environment, name, &nearest))
        problem_set(&list[count++], 0, "AR-ENV-UNKNOWN", "correct its name, or unset it", "nobody reads the variable %s; did you mean %s?",
                    name, nearest);
    if (ranks > cores)
        problem_set(&list[count++], 0, "AR-CORES", "run as many ranks as cores, or fewer",
                    "%u ranks share %u core%s: they will wait for each other", ranks, cores, cores > 1 ? "s" : "");
    else if (ranks > 1 && (uint64_t)ranks * threads > cores)
        problem_set(&list[count++], 0, "AR-CORES",
                    config->threads ? "leave --threads out: each rank gets its part of the cores"
                                    : "unset OMP_NUM_THREADS: each rank gets its part of the cores",
                    "%u ranks of %u threads share %u core%s: they will wait for each other", ranks, threads, cores, cores > 1 ? "s" : "");
    if (ranks > 1 && binding)
        problem_set(&list[count++], 0, "AR-BIND", "'--bind core' gives each rank its own; or unset it",
                    "%s binds the threads of all %u ranks to the same cores", binding, ranks);
    return count;
}

void plan_say_advice(const struct config *config, char *const *environment, uint32_t ranks, uint32_t cores) {
    struct problem advice[PLAN_ADVICE_MAX];
    uint32_t count = config->log_level < CONFIG_LEVEL_WARN ? 0 : plan_advice(config, environment, ranks, cores, advice);
    for (uint32_t i = 0; i < count; i++)
        dprintf(STDERR_FILENO, "accel-run: warning %s: %s\n  what to do: %s\n", advice[i].id, advice[i].what, advice[i].cure);
}

static void print_hosts(const struct config *config, FILE *out) {
    char master[256];
    uint32_t port;
    if (config->nnodes == 1 || config_master(config, master, sizeof master, &port))
        return;
    fprintf(out, "hosts               %u, and this is host %u\n", config->nnodes, config->node_rank);
    fprintf(out, "meeting place       %s port %u\n", master, port);
    fprintf(out, "world size          %u, if the other hosts have as many ranks\n", config->ranks * config->nnodes);
}

void plan_print(const struct plan *plan, FILE *out) {
    char words[3 * ENGINE_TEXT_CHARS] = "";
    if (plan->engine)
        engines_words(plan->engine, words, sizeof words);
    if (*words)
        fprintf(out, "other launcher      %s\n", words);
    print_hosts(plan->config, out);
    fprintf(out, "ranks               %u%s\n", plan->ranks, plan->config->nnodes > 1 ? " on this host" : "");
    fprintf(out, "cores               %u\n", plan->cores);
    if (plan->threads)
        fprintf(out, "threads per rank    %u\n", plan->threads);
    else
        fprintf(out, "threads per rank    %s\n", plan->threads_are_users ? "as your OMP_NUM_THREADS says" : "as the program chooses");
    if (plan->placement)
        placement_print(plan->placement, out);
    fprintf(out, "program             %s\n", plan->path);
    for (char *const *argument = plan->arguments + 1; *argument; argument++)
        fprintf(out, "argument            %s\n", *argument);
    fprintf(out, "shim                %s\n", plan->shim);
    fprintf(out, "environment added   LD_PRELOAD=%s\n", plan->preload);
    for (uint32_t i = 0; i < plan->added_count; i++)
        fprintf(out, "environment added   %s=%s\n", plan->added[i].name, plan->added[i].value);
    fprintf(out, "environment added   %s, %s, %s%s\n", PROTOCOL_ENV_SOCKET, PROTOCOL_ENV_COOKIE, PROTOCOL_ENV_RANK,
            plan->config->nnodes > 1 ? ", " PROTOCOL_ENV_HOSTS : "");
    for (uint32_t i = 0; i < plan->removed_count; i++)
        fprintf(out, "environment removed %.*s\n", (int)strcspn(plan->removed[i], "="), plan->removed[i]);
}
