/* What follows from the launcher that was found (engines.c) and from what the user asked for. Pure. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "engines.h"

static bool is_open(const struct config *config, enum config_id id) {
    return config->origin[id] == CONFIG_FROM_DEFAULT;
}

/* ---- one process for each rank */

/* On several hosts, -n counts those of one host, as everywhere; without --nnodes beside it, it may count all. */
static bool is_right_count(const struct engine *engine, const struct config *config) {
    if (config->origin[CONFIG_ID_ranks] <= CONFIG_FROM_DEFAULT || config->ranks_are_cores) /* torchrun's "auto" */
        return true;
    bool may_be_total = engine->nodes == 1 || config->ranks_are_total || is_open(config, CONFIG_ID_nnodes);
    bool may_be_local = !config->ranks_are_total;
    return (may_be_total && config->ranks == engine->world_size) || (may_be_local && config->ranks == engine->local_world_size);
}

/* A file that is kept has the number that the machine is good for (`accel-run config`): where a launcher has started the ranks, their number is its own. */
static void forget_kept_ranks(struct engine *engine, struct config *config) {
    char kept[16];
    if (config->origin[CONFIG_ID_ranks] != CONFIG_FROM_FILE || config->ranks_are_total || is_right_count(engine, config))
        return;
    snprintf(kept, sizeof kept, "%u", config->ranks);
    engines_ignore(engine, "ranks", kept, "which the settings file says");
    config->origin[CONFIG_ID_ranks] = CONFIG_FROM_DEFAULT;
}

static int refuse_count(const struct engine *engine, const struct config *config, struct problem *problem) {
    const char *name = engines_name(engine);
    if (engine->nodes > 1 && !is_open(config, CONFIG_ID_nnodes) && config->nnodes != engine->nodes)
        return problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-RANKS", "leave --nnodes out: the launcher has said it",
                           "--nnodes %u, but %s has started processes on %u hosts", config->nnodes, name, engine->nodes);
    if (is_right_count(engine, config))
        return 0;
    if (engine->nodes == 1)
        return problem_set(
            problem, EXIT_LAUNCHER, "AR-ENGINE-RANKS",
            "leave -n out: one rank for each process of that launcher; or --engine none, then each of them starts its own ranks",
            "-n %u, but %s has started %u processes", config->ranks, name, engine->world_size);
    return problem_set(
        problem, EXIT_LAUNCHER, "AR-ENGINE-RANKS",
        "leave -n out: one rank for each process of that launcher; or let it start one process on each host, and -n says how "
        "many ranks that one starts",
        "%s %u, but %s has started %u processes on this host, %u on all %u", config->ranks_are_total ? "num_processes" : "-n",
        config->ranks, name, engine->local_world_size, engine->world_size, engine->nodes);
}

static int refuse_join(const struct engine *engine, const struct config *config, struct problem *problem) {
    const char *name = engines_name(engine);
    bool has_address = *engine->address || !is_open(config, CONFIG_ID_master_addr);
    if (engine->world_size > engine->local_world_size && (engine->nodes < 2 || !has_address))
        return problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-HOSTS",
                           engine->nodes < 2
                               ? "let it start one process on each host, each accel-run with -n, --nnodes, --node-rank and --master-addr"
                               : "give the first host's address: --master-addr HOST",
                           "%s has started %u ranks, %u of them on this host, and does not say %s", name, engine->world_size,
                           engine->local_world_size, engine->nodes < 2 ? "which host of how many this is" : "where the first host is");
    if (engine->world_size > ENGINE_RANKS_MAX)
        return problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-RANKS", "start fewer", "%s has started %u processes; %d ranks are the most",
                           name, engine->world_size, ENGINE_RANKS_MAX);
    return refuse_count(engine, config, problem);
}

/* ---- one process for each host: what would train alone on each of them is refused */

static int refuse_nodes(const struct engine *engine, const struct config *config, struct problem *problem) {
    const char *name = engines_name(engine), *variable = engines_variable(engine);
    int length = (int)strcspn(variable, " ");
    bool has_address = *engine->address || !is_open(config, CONFIG_ID_master_addr);
    if (engine->ranks_are_unclear && is_open(config, CONFIG_ID_ranks))
        return problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-HOSTS", "say how many ranks this host has: -n RANKS",
                           "%s ask for a number of processes that is no number, nor auto or cpu", name);
    if (!is_open(config, CONFIG_ID_nnodes))
        return 0;
    if (!engine->nodes)
        return problem_set(
            problem, EXIT_LAUNCHER, "AR-ENGINE-HOSTS",
            "one job of all: --nnodes HOSTS and --master-addr FIRST_HOST. Runs that have nothing to do with each other: --engine none",
            "this is process %u of %s (%.*s), and how many train together is not known", engine->node_rank, name, length, variable);
    if (engine->nodes > 1 && !has_address)
        return problem_set(
            problem, EXIT_LAUNCHER, "AR-ENGINE-HOSTS",
            "set MASTER_ADDR to the first host's address on all of them, or give --master-addr HOST; if the variables are left over, unset "
            "them; one run by itself: --engine none",
            "%s: this is host %u of %u (%.*s), and where the first one is, is not known: each would train by itself", name,
            engine->node_rank, engine->nodes, length, variable);
    return 0;
}

/* A number in a variable may be any; one of the user's has been looked at. */
static int refuse_too_many(const struct engine *engine, const struct config *config, struct problem *problem) {
    const char *name = engines_name(engine);
    if (engine->nodes > ENGINE_RANKS_MAX && is_open(config, CONFIG_ID_nnodes))
        return problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-RANKS", "start fewer", "%s: %u hosts; %d ranks are the most", name,
                           engine->nodes, ENGINE_RANKS_MAX);
    if (engine->ranks_here > ENGINE_RANKS_MAX && is_open(config, CONFIG_ID_ranks))
        return problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-RANKS", "start fewer, or say how many: -n RANKS",
                           "%s: %u ranks on this host; %d are the most", name, engine->ranks_here, ENGINE_RANKS_MAX);
    return 0;
}

/* The same; of one that is used: a job on one host meets nowhere. */
static int refuse_port(const struct engine *engine, const struct config *config, struct problem *problem) {
    if (config->nnodes == 1 || config->master_port <= UINT16_MAX)
        return 0;
    return problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-HOSTS", "say one from 1 to 65535: --master-port PORT",
                       "%s: there is no port %u for the hosts to meet at", engines_name(engine), config->master_port);
}

static void give(struct config *config, enum config_id id, uint32_t *field, uint32_t value) {
    if (!is_open(config, id))
        return;
    *field = value;
    config->origin[id] = CONFIG_FROM_LAUNCHER;
}

/* Every file of Accelerate says machine_rank: 0, and all hosts may read the same file: which of as many hosts this is, the launcher knows better. */
static void forget_shared_rank(const struct engine *engine, struct config *config) {
    bool is_shared = config->node_rank_is_theirs && config->origin[CONFIG_ID_node_rank] == CONFIG_FROM_FILE;
    if (is_shared && (!engine->nodes || engine->nodes == config->nnodes))
        config->origin[CONFIG_ID_node_rank] = CONFIG_FROM_DEFAULT;
}

/* What the user has not said himself. */
static void give_place(const struct engine *engine, struct config *config) {
    if (engine->ranks_here)
        give(config, CONFIG_ID_ranks, &config->ranks, engine->ranks_here);
    if (engine->ranks_are_cores && is_open(config, CONFIG_ID_ranks)) {
        give(config, CONFIG_ID_ranks, &config->ranks, 1);
        config->ranks_are_cores = true; /* settings.c counts */
    }
    if (engine->nodes > 1)
        give(config, CONFIG_ID_nnodes, &config->nnodes, engine->nodes);
    if (config->nnodes == 1)
        return;
    forget_shared_rank(engine, config);
    give(config, CONFIG_ID_node_rank, &config->node_rank, engine->node_rank);
    uint32_t own = engine->counts_ranks
                       ? 1
                       : 0; /* where it starts the ranks, torchrun's agent listens at its port itself (collectives-cuda-launch 6.1) */
    if (engine->port)
        give(config, CONFIG_ID_master_port, &config->master_port, engine->port + own);
    if (*engine->address && is_open(config, CONFIG_ID_master_addr)) {
        config->master_addr = engine->address;
        config->origin[CONFIG_ID_master_addr] = CONFIG_FROM_LAUNCHER;
    }
    if (*engine->job && is_open(config, CONFIG_ID_job_id)) {
        config->job_id = engine->job;
        config->origin[CONFIG_ID_job_id] = CONFIG_FROM_LAUNCHER;
    }
}

/* Ranks on several hosts: the first process of each host starts the host's ranks. */
static void spread(struct engine *engine, struct config *config) {
    engine->mode = engine->local_rank ? ENGINE_STAND : ENGINE_NODE;
    engine->company = engine->local_world_size - 1;
    engine->ranks_here = engine->local_world_size;
    config->ranks = engine->local_world_size;
    config->ranks_are_total = config->ranks_are_cores = false;
}

static int refuse_unclear(const struct engine *engine, const struct config *config, struct problem *problem) {
    if (!engine->is_unclear || !is_open(config, CONFIG_ID_nnodes))
        return 0;
    return problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-HOSTS",
                       "correct them; one process on each host: --nnodes, --node-rank, --master-addr and -n; this host alone: --nnodes 1; "
                       "or --engine none",
                       "the variables of another launcher ask for several ranks or hosts and cannot be followed: %s", engine->ignored);
}

int engines_settle(struct engine *engine, struct config *config, struct problem *problem) {
    if (config->engine == CONFIG_ENGINE_NONE)
        *engine = (struct engine){.family = ENGINE_FAMILIES};
    if (engine->mode == ENGINE_SPAWN)
        return refuse_unclear(engine, config, problem);
    if (engine->mode == ENGINE_NODE && refuse_nodes(engine, config, problem))
        return -1;
    if (engine->mode == ENGINE_NODE && !engine->nodes && config->nnodes == 1) {
        char index[16];
        snprintf(index, sizeof index, "%u", engine->node_rank);
        engines_ignore(engine, engines_variable(engine), index, "one host is asked for");
        engine->mode = ENGINE_SPAWN;
        return 0;
    }
    if (engine->mode == ENGINE_JOIN)
        forget_kept_ranks(engine, config);
    if (engine->mode == ENGINE_JOIN && refuse_join(engine, config, problem))
        return -1;
    if (engine->mode == ENGINE_JOIN && engine->world_size > engine->local_world_size)
        spread(engine, config);
    if (engine->mode != ENGINE_JOIN && refuse_too_many(engine, config, problem))
        return -1;
    if (engine->mode != ENGINE_JOIN) {
        give_place(engine, config);
        return refuse_port(engine, config, problem);
    }
    give(config, CONFIG_ID_ranks, &config->ranks, engine->world_size);
    if (config->ranks_are_cores)
        config->ranks = engine->world_size;
    config->ranks_are_cores = false;
    return 0;
}
