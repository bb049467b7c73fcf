#define _GNU_SOURCE
#include "engines.h"

#include "above.h"

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
    bool threads;
};

static const struct row rows[ENGINE_FAMILIES] = {
#define ENGINE(family, ...) [ENGINE_##family] = {__VA_ARGS__},
#include "engines.def"
#undef ENGINE
};

/* ---- lists of words */

/* The first of the variables that is set and not empty; *name (when wanted) the word in the list. */
static const char *value_of(const struct engine_facts *facts, const char *names, const char **name) {
    const char *word;
    size_t length;
    char buffer[64];
    while ((word = above_next_word(&names, &length))) {
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

/* What the variables of one family come to. */
struct finding {
    struct engine engine;
    const char *name, *value; /* of the variable by which it is named; value NULL: none of its variables is set */
    const char *why;          /* it is not followed, the reason; NULL: it may be */
    uint32_t distance;        /* how many processes are nearer than its launcher; UNSEEN */
};

enum { UNSEEN = INT32_MAX };

/* Who has set the variable: the nearest ancestor that was started without it. UNSEEN: nobody that can be looked at (a container's variables come from
   outside, another user's process keeps its own to itself). */
static uint32_t setter_of(const struct engine_facts *facts, const char *name) {
    size_t length = strcspn(name, " ");
    for (uint32_t i = 0; i < facts->ancestor_count; i++) {
        if (!facts->ancestors[i].environment)
            return UNSEEN;
        if (!above_has(&facts->ancestors[i], name, length))
            return i;
    }
    return UNSEEN;
}

/* Below the shell of `srun -n 4 --pty bash` there is one process: the shells of the other tasks have no input, and have ended. The variables are there in
   steps that are started from such a shell, too (srun -n 4 bash <script), which have no terminal. */
static bool is_in_terminal_of_first(const struct row *row, const struct engine_facts *facts, uint32_t distance) {
    if (row != &rows[ENGINE_SLURM] || !facts->has_terminal || !value_of(facts, "SLURM_PTY_PORT SLURM_PTY_WIN_COL", NULL))
        return false;
    for (uint32_t i = 0; i < distance; i++)
        if (above_is_typed_into(&facts->ancestors[i]))
            return true;
    return false;
}

/* Is the family's launcher running above us, and where? Sets engine->process where its ranks on this host have it in common. */
static bool is_running(const struct row *row, const struct engine_facts *facts, struct finding *finding) {
    finding->distance = UNSEEN;
    if (!*row->processes)
        return true;
    for (uint32_t i = 0; i < facts->ancestor_count; i++) {
        if (!above_is_one_of(&facts->ancestors[i], row->processes))
            continue;
        if (is_in_terminal_of_first(row, facts, i))
            return false;
        finding->engine.process = facts->ancestors[i].pid;
        finding->engine.process_started = facts->ancestors[i].started;
        finding->distance = i;
        return true;
    }
    finding->distance = setter_of(facts, finding->name);
    return finding->distance == UNSEEN || !above_is_shell(&facts->ancestors[finding->distance]);
}

/* ---- the decision */

void engines_ignore(struct engine *engine, const char *variable, const char *value, const char *why) {
    size_t used = strlen(engine->ignored);
    snprintf(engine->ignored + used, sizeof engine->ignored - used, "%s%.*s=%.20s, %s", used ? "; " : "", (int)strcspn(variable, " "),
             variable, value, why);
}

static void take_place(const struct row *row, const struct engine_facts *facts, struct engine *engine) {
    const char *address = value_of(facts, row->address, NULL), *job = value_of(facts, row->job, NULL);
    const char *step =
        job && row == &rows[ENGINE_SLURM] ? value_of(facts, "SLURM_STEP_ID SLURM_STEPID", NULL) : NULL; /* of several of one job */
    snprintf(engine->job, sizeof engine->job, "%s%s%s", job ? job : "", step ? "." : "", step ? step : "");
    engines_first_host(address ? address : "", engine->address, sizeof engine->address);
    engine->port = number_of(facts, row->port, 0);
    engine->restart = number_of(facts, row->restart, 0);
    engine->counts_ranks = *row->local_rank;
}

static const char no_fit[] = "the variables that belong to it do not fit";
static const char alone[] = "only one process";
static const char lone[] = "how many ranks there are on which host is not in the environment";

/* The number of this host's first rank: hosts are numbered one after the other, whatever ranks the launcher has put where (srun -m cyclic). */
static uint32_t first_of(const struct engine *engine, const char *tasks) {
    uint32_t first = 0;
    if (engine->local_world_size == engine->world_size)
        return 0;
    if (!tasks || !strpbrk(tasks, "(,")) /* a block for each host, as torchrun has it */
        return engine->rank < engine->local_rank ? 0 : engine->rank - engine->local_rank;
    for (uint32_t host = 0; host < engine->node_rank && host < ENGINE_RANKS_MAX; host++)
        first += engines_tasks_of(tasks, host);
    return first;
}

/* One process for each rank. Returns NULL when the family may decide, else the reason why not. */
static const char *judge_ranks(const struct row *row, const struct engine_facts *facts, struct engine *engine) {
    const char *tasks = value_of(facts, row->local_size, NULL);
    engine->rank = number_of(facts, row->rank, UINT32_MAX);
    engine->world_size = number_of(facts, row->size, 0);
    engine->local_rank = number_of(facts, row->local_rank, UINT32_MAX);
    engine->node_rank = number_of(facts, row->node, 0);
    engine->local_world_size = tasks ? engines_tasks_of(tasks, strpbrk(tasks, "(,") ? engine->node_rank : 0) : 0;
    engine->nodes = number_of(facts, row->nodes, 0);
    if (engine->world_size == 1)
        return alone;
    if (!*row->local_size)
        engine->local_world_size = engine->nodes == 1 ? engine->world_size : engine->nodes == engine->world_size;
    if (engine->rank >= engine->world_size || engine->local_rank >= engine->local_world_size ||
        engine->local_world_size > engine->world_size)
        return no_fit;
    engine->first = first_of(engine, tasks);
    if (!engine->nodes)
        engine->nodes = engine->local_world_size == engine->world_size ? 1 : 0;
    engine->mode = engine->local_world_size == 1 && engine->nodes == engine->world_size ? ENGINE_NODE : ENGINE_JOIN;
    if (engine->mode == ENGINE_NODE && !*row->node)
        engine->node_rank = engine->rank;
    return NULL;
}

/* One process for each host. */
static const char *judge_nodes(const struct row *row, const struct engine_facts *facts, struct engine *engine) {
    const char *size = value_of(facts, row->size, NULL), *ranks = value_of(facts, row->local_size, NULL);
    bool is_numbered = value_of(facts, row->rank, NULL);
    engine->mode = ENGINE_NODE;
    engine->node_rank = number_of(facts, row->rank, is_numbered ? UINT32_MAX : 0);
    if (!*row->size) /* the user must say it */
        return engine->node_rank == UINT32_MAX ? no_fit : NULL;
    engine->nodes = number_of(facts, row->size, size ? 0 : 1); /* torchrun's "1:4" is refused: it may change while the job runs */
    engine->ranks_here = number_of(facts, row->local_size, 0);
    engine->ranks_are_cores = ranks && (!strcmp(ranks, "auto") || !strcmp(ranks, "cpu"));
    engine->ranks_are_unclear = ranks && !engine->ranks_here && !engine->ranks_are_cores;
    /* WORLD_SIZE by itself may be left over from anything */
    bool is_meant = *row->local_size || (is_numbered && engine->node_rank != UINT32_MAX && engine->nodes > 1);
    const char *why = !engine->nodes || engine->node_rank >= engine->nodes ? no_fit
                      : engine->nodes > 1 && !is_numbered                  ? "which host this is, is missing"
                                                                           : NULL;
    engine->is_unclear = why && is_meant;
    return why || engine->nodes > 1 || ranks ? why : alone;
}

/* Ranks that are numbered, and nothing more is known of them. */
static bool is_lone(const struct row *row) {
    return *row->processes && !*row->local_rank;
}

static const char *judge_family(const struct row *row, const struct engine_facts *facts, struct engine *engine) {
    if (!value_of(facts, row->needs, NULL))
        return row->missing;
    if (is_lone(row))
        return number_of(facts, row->size, 0) == 1 ? alone : lone;
    return *row->local_rank ? judge_ranks(row, facts, engine) : judge_nodes(row, facts, engine);
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

static void judge(enum engine_family family, const struct engine_facts *facts, struct finding *finding) {
    const struct row *row = &rows[family];
    *finding = (struct finding){.engine = {.mode = ENGINE_SPAWN, .family = family}, .name = row->rank};
    struct engine *found = &finding->engine;
    if (is_of_another(family, facts))
        return;
    finding->value = value_of(facts, row->rank, &finding->name);
    if (!finding->value)
        finding->value = value_of(facts, row->needs, &finding->name);
    if (!finding->value)
        return;
    finding->why = judge_family(row, facts, found);
    bool is_above = is_running(row, facts, finding);
    /* no left-over: its launcher is there, and has started this process */
    if ((finding->why == no_fit && found->process) || (finding->why == lone && is_above))
        found->is_unclear = true;
    if ((!finding->why || finding->why == lone) && !is_above)
        finding->why = "its launcher is not running above this process";
    take_place(row, facts, found);
}

/* Has a launcher set OMP_NUM_THREADS=1, the one that is followed or one outside of it? What the user has told a launcher to set is the user's. */
static bool threads_are_its(const struct engine_facts *facts) {
    static const char name[] = "OMP_NUM_THREADS";
    const char *value = config_variable(facts->environment, name);
    uint32_t setter = value && !strcmp(value, "1") ? setter_of(facts, name) : UNSEEN;
    for (int family = 0; family < ENGINE_FAMILIES && setter != UNSEEN; family++)
        if (rows[family].threads && above_is_one_of(&facts->ancestors[setter], rows[family].processes))
            return true;
    return false;
}

/* Of those that may be followed the nearest one above this process; the table's order where that cannot be seen. -1: none. */
static int nearest_of(const struct finding *findings) {
    int nearest = -1;
    for (int family = 0; family < ENGINE_FAMILIES; family++)
        if (findings[family].value && !findings[family].why && (nearest < 0 || findings[family].distance < findings[nearest].distance))
            nearest = family;
    return nearest;
}

/* Who numbers ranks and nothing more has no process here, and a launcher that has started one process has one: it is that one's number (srun -n 1 sets
   PMIX_RANK where the site's default is PMIx). */
static bool is_of_one_process(const struct finding *findings, int family) {
    if (findings[family].why != lone || findings[family].engine.process)
        return false;
    for (int other = 0; other < ENGINE_FAMILIES; other++)
        if (findings[other].value && findings[other].why == alone && findings[other].engine.process)
            return true;
    return false;
}

static void note_ignored(struct engine *engine, const struct finding *finding) {
    char outside[96];
    snprintf(outside, sizeof outside, "outside of it (%s)", rows[finding->engine.family].name);
    engines_ignore(engine, finding->name, finding->value, finding->why ? finding->why : outside);
}

static bool is_same_variable(const char *a, const char *b) {
    size_t n = strcspn(a, " ");
    return n == strcspn(b, " ") && !strncmp(a, b, n);
}

/* Would a later family say the same variable, and more of it? */
static bool is_said_later(const struct finding *findings, int family) {
    for (int other = family + 1; other < ENGINE_FAMILIES; other++)
        if (findings[other].value && is_same_variable(findings[other].name, findings[family].name))
            return true;
    return false;
}

void engines_find(const struct engine_facts *facts, struct engine *engine) {
    struct finding findings[ENGINE_FAMILIES];
    for (int family = 0; family < ENGINE_FAMILIES; family++)
        judge((enum engine_family)family, facts, &findings[family]);
    int nearest = nearest_of(findings);
    *engine = nearest < 0 ? (struct engine){.family = ENGINE_FAMILIES} : findings[nearest].engine;
    for (int family = 0; family < ENGINE_FAMILIES; family++) {
        const struct finding *finding = &findings[family];
        bool is_shared = nearest >= 0 && above_list_has(rows[nearest].rank, finding->name, strcspn(finding->name, " "));
        if (family == nearest || !finding->value || is_shared || is_said_later(findings, family))
            continue;
        note_ignored(engine, finding);
        engine->is_unclear |= nearest < 0 && finding->engine.is_unclear && !is_of_one_process(findings, family);
    }
    if (nearest >= 0)
        engine->threads_are_its = threads_are_its(facts);
}

/* ---- in words */

const char *engines_name(const struct engine *engine) {
    return engine->family < ENGINE_FAMILIES ? rows[engine->family].name : "nobody";
}

const char *engines_variable(const struct engine *engine) {
    return engine->family < ENGINE_FAMILIES ? rows[engine->family].rank : "";
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
    /* what users and images set for Open MPI, and mpirun never does: a program that starts mpirun itself needs them (as root, to begin at all) */
    static const char *const kept[] = {"OMPI_ALLOW_RUN_AS_ROOT",
                                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                       "OMPI_CC",
                                       "OMPI_CXX",
                                       "OMPI_FC",
                                       "OMPI_MCA_plm",
                                       "OMPI_MCA_btl_",
                                       "OMPI_MCA_coll_",
                                       "PMIX_MCA_gds"}; /* the last four: GPU images */
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (name_matches(variable, kept[i], strlen(kept[i])))
            return false;
    for (int family = 0; family < ENGINE_FAMILIES; family++) {
        const char *list = rows[family].removed, *word;
        size_t length;
        if (!rows[family].always && engine && engine->family != (enum engine_family)family)
            continue;
        while ((word = above_next_word(&list, &length)))
            if (name_matches(variable, word, length))
                return true;
    }
    return false;
}
