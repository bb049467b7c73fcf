#define _GNU_SOURCE
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "../config/protocol.h"
#include "environ.h"

static void add(struct plan *plan, const char *name, const char *value) {
    struct plan_variable *variable = &plan->added[plan->added_count++];
    variable->name = name;
    snprintf(variable->value, sizeof variable->value, "%s", value);
}

/* Libraries that start threads all read OMP_NUM_THREADS when their own variable is not set; a user's value of any of them wins (L24), except over
   --threads, which is the user's, too. wanted: its value, 0 none. */
static void plan_threads(struct plan *plan, char *const *environment, uint32_t wanted) {
    static const char *const names[] = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"};
    char value[PLAN_VALUE_CHARS];
    if (!wanted && (plan->ranks == 1 || config_variable(environment, names[0])))
        return;
    uint32_t share = plan->cores / plan->ranks ? plan->cores / plan->ranks : 1;
    plan->threads = wanted ? wanted : share;
    snprintf(value, sizeof value, "%u", plan->threads);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (wanted || !config_variable(environment, names[i]))
            add(plan, names[i], value);
}

/* Another launcher's variables would make a program, or a framework in it, join a job of its own (L29). */
static void plan_removed(struct plan *plan, char *const *environment) {
    for (; *environment; environment++)
        if (environ_is_launchers(*environment) && plan->removed_count < PLAN_REMOVED_MAX)
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

int plan_build(struct plan *plan, const struct plan_facts *facts, struct problem *problem) {
    memset(plan, 0, sizeof *plan);
    if (config_variable(facts->environment, PROTOCOL_ENV_SOCKET))
        return problem_set(problem, EXIT_LAUNCHER, "AR-NESTED",
                           "start accel-run once, outside; unset " PROTOCOL_ENV_SOCKET " if that is a mistake",
                           "accel-run was started inside a rank of another accel-run");
    plan->ranks = facts->config->ranks;
    plan->cores = facts->cores;
    plan->placement = facts->placement;
    plan->path = facts->target->path;
    plan->shim = facts->target->shim;
    plan->arguments = facts->arguments;
    plan_threads(plan, facts->environment, facts->config->threads);
    /* torch.compile would trace one rank's rows into a graph that no longer passes through the dispatcher. */
    if (plan->ranks > 1 && !config_variable(facts->environment, "TORCH_COMPILE_DISABLE"))
        add(plan, "TORCH_COMPILE_DISABLE", "1");
    plan_removed(plan, facts->environment);
    if (plan_preload(plan, facts) < 0)
        return problem_set(problem, EXIT_LAUNCHER, "AR-MEMORY", "free some memory", "out of memory");
    return 0;
}

void plan_clear(struct plan *plan) {
    free(plan->preload);
    plan->preload = NULL;
}

void plan_print(const struct plan *plan, FILE *out) {
    fprintf(out, "ranks               %u\n", plan->ranks);
    fprintf(out, "cores               %u\n", plan->cores);
    if (plan->threads)
        fprintf(out, "threads per rank    %u\n", plan->threads);
    else
        fprintf(out, "threads per rank    as the program chooses\n");
    if (plan->placement)
        placement_print(plan->placement, out);
    fprintf(out, "program             %s\n", plan->path);
    for (char *const *argument = plan->arguments + 1; *argument; argument++)
        fprintf(out, "argument            %s\n", *argument);
    fprintf(out, "shim                %s\n", plan->shim);
    fprintf(out, "environment added   LD_PRELOAD=%s\n", plan->preload);
    for (uint32_t i = 0; i < plan->added_count; i++)
        fprintf(out, "environment added   %s=%s\n", plan->added[i].name, plan->added[i].value);
    fprintf(out, "environment added   %s, %s, %s\n", PROTOCOL_ENV_SOCKET, PROTOCOL_ENV_COOKIE, PROTOCOL_ENV_RANK);
    for (uint32_t i = 0; i < plan->removed_count; i++)
        fprintf(out, "environment removed %.*s\n", (int)strcspn(plan->removed[i], "="), plan->removed[i]);
}
