#define _GNU_SOURCE
#include "engines.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    const char *name, *needs, *missing, *unless, *rank, *size, *local_rank, *local_size, *node, *nodes;
    const char *address, *port, *job, *restart, *processes;
    bool always;
    const char *removed;
};

static const struct row rows[ENGINE_FAMILIES] = {
#define ENGINE(family, ...) [ENGINE_##family] = {__VA_ARGS__},
#include "engines.def"
#undef ENGINE
};

/* ---- lists of words */

/* The next word between spaces: its start, *length; NULL at the end. */
static const char *next_word(const char **list, size_t *length) {
    const char *word = *list + strspn(*list, " ");
    *length = strcspn(word, " ");
    *list = word + *length;
    return *length ? word : NULL;
}

/* The first of the variables that is set and not empty; *name (when wanted) the word in the list. */
static const char *value_of(const struct engine_facts *facts, const char *names, const char **name) {
    const char *word;
    size_t length;
    char buffer[64];
    while ((word = next_word(&names, &length))) {
        snprintf(buffer, sizeof buffer, "%.*s", (int)length, word);
        const char *value = config_variable(facts->environment, buffer);
        if (name)
            *name = word;
        if (value && *value)
            return value;
    }
    return NULL;
}

/* A whole number of at most nine digits; fallback when it is none. */
static uint32_t number_of(const struct engine_facts *facts, const char *names, uint32_t fallback) {
    const char *text = value_of(facts, names, NULL);
    if (!text || strlen(text) > 9 || text[strspn(text, "0123456789")])
        return fallback;
    return (uint32_t)strtoul(text, NULL, 10);
}

static bool list_has(const char *list, const char *wanted, size_t wanted_length) {
    const char *word;
    size_t length;
    while ((word = next_word(&list, &length)))
        if (length == wanted_length && !strncmp(word, wanted, length))
            return true;
    return false;
}

/* ---- Slurm's compressed forms */

uint32_t engines_tasks_of(const char *list, uint32_t node) {
    while (isdigit((unsigned char)*list)) {
        char *end;
        unsigned long tasks = strtoul(list, &end, 10), times = 1;
        if (!strncmp(end, "(x", 2))
            times = strtoul(end + 2, &end, 10);
        if (node < times)
            return (uint32_t)tasks;
        node -= (uint32_t)times;
        list = end + strcspn(end, ",");
        list += *list == ',';
    }
    return 0;
}

void engines_first_host(const char *list, char *host, size_t size) {
    size_t used = 0;
    for (; *list && *list != ',' && used + 1 < size; list++) {
        if (*list != '[') {
            host[used++] = *list;
            continue;
        }
        size_t first = strcspn(list + 1, "-,]"), all = strcspn(list, "]");
        for (size_t i = 0; i < first && used + 1 < size; i++)
            host[used++] = list[1 + i];
        list += list[all] ? all : all - 1;
    }
    host[used] = 0;
}

/* ---- the processes above */

static const char *base_name(const char *word) {
    const char *slash = strrchr(word, '/');
    return slash ? slash + 1 : word;
}

/* Is the word one of the names? What follows a dot or colon does not count: mpirun.openmpi, "slurmstepd: [12.0]". */
static bool word_is_one_of(const char *word, const char *names) {
    const char *base = base_name(word);
    return list_has(names, base, strcspn(base, ":")) || list_has(names, base, strcspn(base, ".:"));
}

/* The program, or what an interpreter runs: python -m torch.distributed.run, python /usr/bin/torchrun. */
static bool process_is_one_of(const struct engine_process *process, const char *names) {
    const char *word = process->words, *end = word + process->words_bytes;
    bool is_interpreter = process->words_bytes && !strncmp(base_name(word), "python", 6);
    for (int i = 0; word < end && i < (is_interpreter ? 5 : 1); i++, word += strlen(word) + 1)
        if (word_is_one_of(word, names))
            return true;
    return false;
}

static bool process_is_shell(const struct engine_process *process) {
    static const char shells[] = "sh bash dash ash zsh ksh mksh fish tcsh csh busybox tmux screen sshd login su sudo -bash -sh -zsh";
    return process->words_bytes && word_is_one_of(process->words, shells);
}

/* Was the process started with this variable? */
static bool process_has(const struct engine_process *process, const char *name, size_t length) {
    const char *entry = process->environment, *end = entry + process->environment_bytes;
    for (; entry < end; entry += strlen(entry) + 1)
        if (!strncmp(entry, name, length) && entry[length] == '=')
            return true;
    return false;
}

/* Who has set the variable: the nearest ancestor that was started without it. NULL: nobody that can be looked at (a container's variables come from
   outside, another user's process keeps its own to itself). */
static const struct engine_process *setter_of(const struct engine_facts *facts, const char *name) {
    size_t length = strcspn(name, " ");
    for (uint32_t i = 0; i < facts->ancestor_count; i++) {
        if (!facts->ancestors[i].environment)
            return NULL;
        if (!process_has(&facts->ancestors[i], name, length))
            return &facts->ancestors[i];
    }
    return NULL;
}

/* Is the family's launcher running above us? Sets engine->process where its ranks on this host have it in common. */
static bool is_running(const struct row *row, const struct engine_facts *facts, struct engine *engine) {
    if (!*row->processes)
        return true;
    for (uint32_t i = 0; i < facts->ancestor_count; i++) {
        if (!process_is_one_of(&facts->ancestors[i], row->processes))
            continue;
        engine->process = facts->ancestors[i].pid;
        engine->process_started = facts->ancestors[i].started;
        return true;
    }
    const struct engine_process *setter = setter_of(facts, row->rank);
    return !setter || !process_is_shell(setter);
}

/* ---- the decision */

static void ignore(struct engine *engine, const char *variable, const char *value, const char *why) {
    size_t used = strlen(engine->ignored);
    snprintf(engine->ignored + used, sizeof engine->ignored - used, "%s%.*s=%.20s, %s", used ? "; " : "", (int)strcspn(variable, " "),
             variable, value, why);
}

static void take_place(const struct row *row, const struct engine_facts *facts, struct engine *engine) {
    const char *address = value_of(facts, row->address, NULL), *job = value_of(facts, row->job, NULL);
    snprintf(engine->job, sizeof engine->job, "%s", job ? job : "");
    engines_first_host(address ? address : "", engine->address, sizeof engine->address);
    engine->port = number_of(facts, row->port, 0);
    engine->restart = number_of(facts, row->restart, 0);
}

/* One process for each rank. Returns NULL when the family decides, else the reason why not. */
static const char *judge_ranks(const struct row *row, const struct engine_facts *facts, struct engine *engine) {
    const char *tasks = value_of(facts, row->local_size, NULL);
    engine->rank = number_of(facts, row->rank, UINT32_MAX);
    engine->world_size = number_of(facts, row->size, 0);
    engine->local_rank = number_of(facts, row->local_rank, UINT32_MAX);
    engine->node_rank = number_of(facts, row->node, 0);
    engine->local_world_size = tasks ? engines_tasks_of(tasks, strpbrk(tasks, "(,") ? engine->node_rank : 0) : 0;
    engine->nodes = number_of(facts, row->nodes, 0);
    if (engine->rank >= engine->world_size || engine->local_rank >= engine->local_world_size ||
        engine->local_world_size > engine->world_size)
        return "the variables that belong to it do not fit";
    if (!engine->nodes)
        engine->nodes = engine->local_world_size == engine->world_size ? 1 : 0;
    if (engine->world_size == 1)
        return "only one process";
    engine->mode = engine->local_world_size == 1 && engine->nodes == engine->world_size ? ENGINE_NODE : ENGINE_JOIN;
    if (engine->mode == ENGINE_NODE && !*row->node)
        engine->node_rank = engine->rank;
    return NULL;
}

/* One process for each host. */
static const char *judge_nodes(const struct row *row, const struct engine_facts *facts, struct engine *engine) {
    const char *size = value_of(facts, row->size, NULL), *ranks = value_of(facts, row->local_size, NULL);
    engine->mode = ENGINE_NODE;
    engine->node_rank = number_of(facts, row->rank, value_of(facts, row->rank, NULL) ? UINT32_MAX : 0);
    if (!*row->size) /* the user must say it */
        return NULL;
    engine->nodes = number_of(facts, row->size, size ? 0 : 1); /* torchrun's "1:4" is refused: it may change while the job runs */
    engine->ranks_here = number_of(facts, row->local_size, 0);
    if (!engine->nodes || engine->node_rank >= engine->nodes)
        return engine->unclear = "the variables that belong to it do not fit";
    if (engine->nodes > 1 && !value_of(facts, row->rank, NULL))
        return engine->unclear = "which host this is, is missing";
    if (engine->nodes > 1 && !value_of(facts, row->address, NULL))
        return engine->unclear = "the first host's address is missing";
    if (ranks && !engine->ranks_here)
        return engine->unclear = "its number of processes is no number: say -n";
    if (engine->nodes == 1 && !engine->ranks_here)
        return "only one process";
    return NULL;
}

/* Without its local rank a variable may be of another kind: RANK of a pod. */
static bool is_of_another(enum engine_family family, const struct engine_facts *facts) {
    const struct row *row = &rows[family];
    if (*row->unless && value_of(facts, row->unless, NULL))
        return true;
    for (int other = family + 1; *row->local_rank && !value_of(facts, row->local_rank, NULL) && other < ENGINE_FAMILIES; other++)
        if (!strcmp(rows[other].rank, row->rank))
            return true;
    return false;
}

/* Returns true when the family decides. */
static bool judge(enum engine_family family, const struct engine_facts *facts, struct engine *engine) {
    const struct row *row = &rows[family];
    struct engine found = {.mode = ENGINE_SPAWN, .family = family};
    const char *name = row->rank, *value = value_of(facts, row->rank, &name), *why = NULL;
    if ((!value && !(value = value_of(facts, row->needs, &name))) || is_of_another(family, facts))
        return false;
    if (!value_of(facts, row->needs, NULL))
        why = row->missing;
    else
        why = *row->local_rank ? judge_ranks(row, facts, &found) : judge_nodes(row, facts, &found);
    if (!why && !is_running(row, facts, &found))
        why = "its launcher is not running above this process";
    if (why) {
        ignore(engine, name, value, why);
        if (*row->local_size) /* names that others use, too (RANK), may be left over from anything */
            engine->unclear = engine->unclear ? engine->unclear : found.unclear;
        return false;
    }
    memcpy(found.ignored, engine->ignored, sizeof found.ignored);
    take_place(row, facts, &found);
    *engine = found;
    return true;
}

/* torchrun sets OMP_NUM_THREADS=1 for its workers unless it was started with another value. */
static bool threads_are_its(const struct engine_facts *facts, const struct engine *engine) {
    static const char name[] = "OMP_NUM_THREADS";
    const char *value = config_variable(facts->environment, name);
    for (uint32_t i = 0; value && !strcmp(value, "1") && engine->process && i < facts->ancestor_count; i++)
        if (facts->ancestors[i].pid == engine->process)
            return facts->ancestors[i].environment && !process_has(&facts->ancestors[i], name, strlen(name));
    return false;
}

void engines_find(const struct engine_facts *facts, struct engine *engine) {
    memset(engine, 0, sizeof *engine);
    engine->family = ENGINE_FAMILIES;
    for (int family = 0; family < ENGINE_FAMILIES; family++) {
        bool decides = judge((enum engine_family)family, facts, engine);
        if (!decides)
            continue;
        for (int outer = family + 1; outer < ENGINE_FAMILIES; outer++) {
            const char *name = rows[outer].rank, *value = value_of(facts, name, &name);
            if (value && !list_has(rows[family].rank, name, strcspn(name, " ")))
                ignore(engine, name, value, "outside of it");
        }
        engine->threads_are_its = threads_are_its(facts, engine);
        return;
    }
}

/* ---- what follows from it */

const char *engines_name(const struct engine *engine) {
    return engine->family < ENGINE_FAMILIES ? rows[engine->family].name : "nobody";
}

static bool is_open(const struct config *config, enum config_id id) {
    return config->origin[id] == CONFIG_FROM_DEFAULT;
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
    if (config->origin[CONFIG_ID_ranks] > CONFIG_FROM_DEFAULT && config->ranks != engine->world_size)
        return problem_set(
            problem, EXIT_LAUNCHER, "AR-ENGINE-RANKS",
            "leave -n out: one rank for each process of that launcher; or --engine none, then each of them starts its own ranks",
            "-n %u, but %s has started %u processes", config->ranks, name, engine->world_size);
    if (engine->world_size > ENGINE_RANKS_MAX)
        return problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-RANKS", "start fewer", "%s has started %u processes; %d ranks are the most",
                           name, engine->world_size, ENGINE_RANKS_MAX);
    return 0;
}

static void give(struct config *config, enum config_id id, uint32_t *field, uint32_t value) {
    if (!is_open(config, id))
        return;
    *field = value;
    config->origin[id] = CONFIG_FROM_LAUNCHER;
}

/* What the user has not said himself. */
static void give_place(const struct engine *engine, struct config *config) {
    if (engine->ranks_here && engine->ranks_here <= ENGINE_RANKS_MAX)
        give(config, CONFIG_ID_ranks, &config->ranks, engine->ranks_here);
    if (engine->nodes > 1)
        give(config, CONFIG_ID_nnodes, &config->nnodes, engine->nodes);
    if (config->nnodes == 1)
        return;
    give(config, CONFIG_ID_node_rank, &config->node_rank, engine->node_rank);
    if (engine
            ->port) /* the one behind it where it starts the ranks: torchrun's agent listens at its port itself (collectives-cuda-launch 6.1) */
        give(config, CONFIG_ID_master_port, &config->master_port, engine->port + (*rows[engine->family].local_rank ? 1 : 0));
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
    config->ranks = engine->local_world_size; /* -n, where it was given, counts those of all hosts */
}

int engines_settle(struct engine *engine, struct config *config, struct problem *problem) {
    if (strcmp(config->engine, "auto") != 0 && strcmp(config->engine, "none") != 0)
        return problem_set(problem, EXIT_LAUNCHER, "AR-OPTION-VALUE", "see 'accel-run --help all'",
                           "--engine: '%.40s' is not one of auto, none", config->engine);
    if (!strcmp(config->engine, "none"))
        *engine = (struct engine){.family = ENGINE_FAMILIES};
    if (engine->mode == ENGINE_SPAWN && engine->unclear && is_open(config, CONFIG_ID_nnodes) && is_open(config, CONFIG_ID_ranks))
        return problem_set(
            problem, EXIT_LAUNCHER, "AR-ENGINE-HOSTS",
            "correct them; or say what is meant: -n RANKS, and on several hosts --nnodes, --node-rank and --master-addr; or --engine none",
            "the variables of another launcher ask for several ranks or hosts and cannot be followed: %s", engine->ignored);
    if (engine->mode == ENGINE_NODE && !engine->nodes && config->nnodes == 1) {
        char index[16];
        snprintf(index, sizeof index, "%u", engine->node_rank);
        ignore(engine, rows[engine->family].rank, index, "how many there are is not known: --nnodes");
        engine->mode = ENGINE_SPAWN;
    }
    if (engine->mode == ENGINE_JOIN && refuse_join(engine, config, problem))
        return -1;
    if (engine->mode == ENGINE_JOIN && engine->world_size > engine->local_world_size)
        spread(engine, config);
    if (engine->mode == ENGINE_JOIN)
        give(config, CONFIG_ID_ranks, &config->ranks, engine->world_size);
    else if (engine->mode == ENGINE_NODE || engine->mode == ENGINE_STAND)
        give_place(engine, config);
    return 0;
}

void engines_words(const struct engine *engine, char *text, size_t size) {
    int used = 0;
    text[0] = 0;
    if (engine->mode == ENGINE_JOIN)
        used = snprintf(text, size, "rank %u of %u: %s (%.*s)", engine->rank, engine->world_size, engines_name(engine),
                        (int)strcspn(rows[engine->family].local_rank, " "), rows[engine->family].local_rank);
    else if (engine->mode == ENGINE_STAND)
        used = snprintf(text, size, "host %u of %u: %s; process %u there, which stands by", engine->node_rank, engine->nodes,
                        engines_name(engine), engine->local_rank);
    else if (engine->mode == ENGINE_NODE && !engine->nodes)
        used = snprintf(text, size, "host %u, as %s says", engine->node_rank, engines_name(engine));
    else if (engine->mode == ENGINE_NODE)
        used = snprintf(text, size, "host %u of %u: %s", engine->node_rank, engine->nodes, engines_name(engine));
    if (*engine->ignored && used >= 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, "%signored: %s", used ? "; " : "", engine->ignored);
}

void engines_key(const struct engine *engine, char *text, size_t size) {
    snprintf(text, size, "%d/%d:%llu/%s:%u/%s/%u/%u", (int)engine->family, (int)engine->process,
             (unsigned long long)engine->process_started, engine->address, engine->port, engine->job, engine->restart, engine->world_size);
}

static bool name_matches(const char *variable, const char *word, size_t length) {
    return !strncmp(variable, word, length) && (variable[length] == '=' || word[length - 1] == '_');
}

bool engines_hides(const struct engine *engine, const char *variable) {
    for (int family = 0; family < ENGINE_FAMILIES; family++) {
        const char *list = rows[family].removed, *word;
        size_t length;
        if (!rows[family].always && engine && engine->family != (enum engine_family)family)
            continue;
        while ((word = next_word(&list, &length)))
            if (name_matches(variable, word, length))
                return true;
    }
    return false;
}
