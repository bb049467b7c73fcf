#define _GNU_SOURCE
#include "front.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../clock.h"
#include "../environ.h"
#include "../hash.h"
#include "join.h"
#include "../placement/placement.h"
#include "../plan.h"
#include "../process.h"
#include "../program/interpret.h"
#include "rendezvous.h"
#include "../spawn.h"

enum { MEET_MS = 60000, SAY_MS = 5000, TELL_MS = 2000, HIGH_DESCRIPTOR = 400, THREADS_FORK_FROM = 32 };

/* What a front has brought from the meeting. */
struct met {
    struct rendezvous_answer answer;
    int descriptors[RENDEZVOUS_DESCRIPTORS]; /* -1: none */
    int last_words[BOARD_RANKS_MAX];         /* rank 0: of the others */
};

static struct topology topology; /* 80 KiB */

/* ---- who we are */

static void key_of(const struct engine *engine, char *key, size_t size) {
    char space[64] = "";
    if (readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0)
        *space = 0;
    engines_key(engine, key, size);
    snprintf(key + strlen(key), size - strlen(key), "/%s", space);
}

static uint64_t hash_of_settings(const struct front *front) {
    uint64_t hash = hash_text(HASH_BEGIN, front->target ? front->target->path : "");
    char text[64];
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        if (config_options[i].type == CONFIG_TEXT)
            hash = hash_text(hash, *(const char *const *)((const char *)front->config + config_options[i].offset));
        else
            config_text(front->config, (enum config_id)i, text, sizeof text), hash = hash_text(hash, text);
    }
    for (char *const *argument = front->arguments; *argument; argument++)
        hash = hash_text(hash, *argument);
    return hash;
}

static struct rendezvous_hello hello_of(const struct engine *engine) {
    struct rendezvous_hello hello;
    memset(&hello, 0, sizeof hello);
    hello.version = PROTOCOL_VERSION;
    hello.rank = engine->rank;
    hello.world_size = engine->world_size;
    topology_read(&topology, "");
    hello.cores = topology_cores(&topology);
    for (uint32_t i = 0; i < topology.count; i++)
        cpus_add(&hello.cpus, topology.list[i].number);
    hello.front = join_process(getpid(), process_started(getpid(), NULL, NULL));
    pid_t parent = engine->process ? engine->process : getppid();
    hello.engine = join_process(parent, process_started(parent, NULL, NULL));
    return hello;
}

/* ---- rank 0 */

static void name_missing(const int *connections, uint32_t world_size, uint32_t first, char *text, size_t size) {
    int used = 0;
    for (uint32_t rank = 1; rank < world_size && (size_t)used + 16 < size; rank++)
        if (connections[rank] < 0)
            used += snprintf(text + used, size - (size_t)used, "%s%u", used ? ", " : "", first + rank);
}

/* Everybody's hello: is there a reason not to go on? Returns 0, or -1 with *problem. */
static int judge_hellos(const struct rendezvous_hello *hellos, uint32_t world_size, uint32_t first, struct problem *problem) {
    for (uint32_t rank = 1; rank < world_size; rank++) {
        if (hellos[rank].version != PROTOCOL_VERSION)
            return problem_set(problem, EXIT_LAUNCHER, "AR-VERSION", "install one version of accel-run",
                               "ranks %u and %u were started with different versions of accel-run", first, first + rank);
        if (hellos[rank].problem.exit_code) {
            *problem = hellos[rank].problem;
            return -1;
        }
    }
    for (uint32_t rank = 1; rank < world_size; rank++)
        if (hellos[rank].world_size != world_size || hellos[rank].settings != hellos[0].settings)
            return problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-DIFFERS", "start all ranks with the same command line and environment",
                               "rank %u was started with other options, another program or other arguments than rank %u", first + rank,
                               first);
    return 0;
}

static void nobody_has_come(int *connections, uint32_t world_size) {
    for (uint32_t rank = 0; rank < world_size; rank++)
        connections[rank] = -1;
}

/* A minute without a word looks like a program that hangs. */
static void say_missing(const struct front *front, const int *connections) {
    char names[256] = "";
    name_missing(connections, front->engine->world_size, front->engine->first, names, sizeof names);
    if (front->config->log_level >= CONFIG_LEVEL_WARN)
        dprintf(STDERR_FILENO,
                "accel-run: notice AR-ENGINE-ALONE: %s has started %u processes, and rank %s has not come yet (if there is none: --engine "
                "none)\n",
                engines_name(front->engine), front->engine->world_size, names);
}

static int await_all(int listener, const struct front *front, struct rendezvous_hello *hellos, int *connections, struct problem *problem) {
    uint32_t world_size = front->engine->world_size, limit = front->config->collective_timeout_ms;
    limit = limit && limit < MEET_MS ? limit : MEET_MS;
    uint64_t begun_ms = clock_ms();
    char names[256] = "";
    nobody_has_come(connections, world_size);
    uint32_t missing = rendezvous_hear(listener, world_size, begun_ms + (limit < SAY_MS ? limit : SAY_MS), hellos, connections);
    if (missing && limit > SAY_MS) {
        say_missing(front, connections);
        missing = rendezvous_hear(listener, world_size, begun_ms + limit, hellos, connections);
    }
    if (!missing)
        return judge_hellos(hellos, world_size, front->engine->first, problem);
    name_missing(connections, world_size, front->engine->first, names, sizeof names);
    return problem_set(
        problem, EXIT_LAUNCHER, "AR-ENGINE-ALONE",
        "does the launcher start accel-run once for each rank, on one host and in one container? If there is no such launcher: "
        "--engine none",
        "%s has started %u processes, but after %u s rank %s has not come", engines_name(front->engine), world_size, limit / 1000, names);
}

/* The answers go out last: from then on the others are ranks. */
static int answer_all(const struct join *join, const struct rendezvous_hello *hellos, const int *connections,
                      struct rendezvous_answer *answer) {
    for (uint32_t rank = 1; rank < join->world_size; rank++) {
        int passed[RENDEZVOUS_DESCRIPTORS] = {join->memory, join->outputs[rank][0], join->outputs[rank][1]};
        answer->share = join_share(hellos, join->world_size, rank);
        if (rendezvous_answer(connections[rank], answer, passed))
            return -1;
    }
    answer->share = join_share(hellos, join->world_size, 0);
    return 0;
}

/* A copy at a high number, which stays open over exec. -1: as it was -1, or no room. */
static int keep(int descriptor) {
    int high = descriptor < 0 ? -1 : fcntl(descriptor, F_DUPFD, HIGH_DESCRIPTOR);
    return high >= 0 || descriptor < 0 ? high : fcntl(descriptor, F_DUPFD, 3);
}

static bool are_alike(const struct rendezvous_hello *hellos, uint32_t world_size) {
    for (uint32_t rank = 1; rank < world_size; rank++)
        if (memcmp(&hellos[rank].cpus, &hellos[0].cpus, sizeof hellos[0].cpus))
            return false;
    return true;
}

static int give_out(const struct front *front, const struct rendezvous_hello *hellos, const int *connections, struct met *met,
                    struct problem *problem) {
    struct join join;
    int status = join_make(&join, front->config, front->engine, interpret_shown(front->arguments), hellos, problem);
    if (!status) {
        met->descriptors[RENDEZVOUS_MEMORY] = keep(join.memory);
        for (uint32_t rank = 1; rank < join.world_size; rank++)
            join.page->ranks[rank].last_words = met->last_words[rank] = keep(join.outputs[rank][1]);
        met->answer.zero = hellos[0].front;
        met->answer.cores = join.page->grant.cores;
        met->answer.are_alike = are_alike(hellos, join.world_size);
        met->answer.memory = met->descriptors[RENDEZVOUS_MEMORY];
        memcpy(met->answer.cookie, join.page->cookie, sizeof met->answer.cookie);
        status = answer_all(&join, hellos, connections, &met->answer);
        if (status)
            problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-ALONE", "look for who has ended it",
                        "a rank has ended before the program began: %s", strerror(errno));
    }
    join_clear(&join);
    return status;
}

static void answer_problem(const int *connections, uint32_t world_size, const struct problem *problem) {
    struct rendezvous_answer refusal = {.problem = *problem};
    for (uint32_t rank = 1; rank < world_size; rank++)
        if (connections[rank] >= 0)
            rendezvous_answer(connections[rank], &refusal, NULL);
}

int front_gather(const struct front *front, struct rendezvous_hello *hellos, int *connections, struct problem *problem) {
    char key[4 * ENGINE_TEXT_CHARS];
    key_of(front->engine, key, sizeof key);
    for (uint32_t rank = 0; rank < front->engine->world_size; rank++)
        connections[rank] = -1;
    int listener = rendezvous_listen(key);
    if (listener < 0)
        return problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-ALONE", "has another rank 0 been started by the same launcher?",
                           "rank 0 cannot wait for the other ranks: %s", strerror(errno));
    hellos[0] = hello_of(front->engine);
    hellos[0].settings = hash_of_settings(front);
    int status = await_all(listener, front, hellos, connections, problem);
    close(listener);
    return status;
}

static int meet_as_zero(const struct front *front, struct met *met, struct problem *problem) {
    uint32_t world_size = front->engine->world_size;
    struct rendezvous_hello *hellos = calloc(world_size, sizeof *hellos);
    int connections[BOARD_RANKS_MAX];
    if (!hellos)
        return problem_set(problem, EXIT_LAUNCHER, "AR-MEMORY", "free some memory", "out of memory");
    int status = front_gather(front, hellos, connections, problem);
    status = status ? status : give_out(front, hellos, connections, met, problem);
    if (status)
        answer_problem(connections, world_size, problem);
    for (uint32_t rank = 1; rank < world_size; rank++)
        if (connections[rank] >= 0)
            close(connections[rank]);
    free(hellos);
    return status;
}

/* ---- the others */

static int not_found(const struct engine *engine, struct problem *problem) {
    return problem_set(problem, EXIT_LAUNCHER, "AR-ENGINE-ALONE",
                       "does the launcher start accel-run once for each rank, on one host and in one container? If there is no such "
                       "launcher: --engine none",
                       "rank %u (%s) does not find rank %u", engine->first + engine->rank, engines_name(engine), engine->first);
}

int front_greet(const struct front *front, struct problem *problem) {
    char key[4 * ENGINE_TEXT_CHARS];
    key_of(front->engine, key, sizeof key);
    struct rendezvous_hello hello = hello_of(front->engine);
    hello.settings = hash_of_settings(front);
    int connection = rendezvous_greet(key, &hello, clock_ms() + 2 * MEET_MS); /* rank 0 gives up first and says why */
    if (connection < 0)
        not_found(front->engine, problem);
    return connection;
}

static int meet_as_other(const struct front *front, struct met *met, struct problem *problem) {
    int connection = front_greet(front, problem), passed[RENDEZVOUS_DESCRIPTORS];
    if (connection < 0)
        return -1;
    int status = rendezvous_await(connection, clock_ms() + 2 * MEET_MS, &met->answer, passed);
    close(connection);
    if (status)
        return not_found(front->engine, problem);
    if (met->answer.problem.exit_code) {
        *problem = met->answer.problem;
        problem->id[0] = 0;
        return -1;
    }
    for (int i = 0; i < RENDEZVOUS_DESCRIPTORS; i++)
        if ((met->descriptors[i] = passed[i]) < 0)
            return problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "raise 'ulimit -n'", "rank %u has no room for its descriptors",
                               front->engine->rank);
    met->descriptors[RENDEZVOUS_MEMORY] = keep(passed[RENDEZVOUS_MEMORY]);
    close(passed[RENDEZVOUS_MEMORY]);
    return 0;
}

bool front_tell(const struct engine *engine, const struct problem *problem) {
    char key[4 * ENGINE_TEXT_CHARS];
    key_of(engine, key, sizeof key);
    uint64_t deadline_ms = clock_ms() + TELL_MS;
    if (engine->rank) {
        struct rendezvous_hello hello = hello_of(engine);
        struct rendezvous_answer answer;
        int passed[RENDEZVOUS_DESCRIPTORS];
        hello.problem = *problem;
        int connection = rendezvous_greet(key, &hello, deadline_ms);
        return connection >= 0 && rendezvous_await(connection, clock_ms() + MEET_MS, &answer, passed) == 0 && answer.problem.exit_code;
    }
    struct rendezvous_hello *hellos = calloc(engine->world_size, sizeof *hellos);
    int connections[BOARD_RANKS_MAX], listener = hellos && engine->world_size <= BOARD_RANKS_MAX ? rendezvous_listen(key) : -1;
    if (listener >= 0) {
        nobody_has_come(connections, engine->world_size);
        rendezvous_hear(listener, engine->world_size, deadline_ms, hellos, connections);
        answer_problem(connections, engine->world_size, problem);
    }
    free(hellos);
    return false;
}

/* ---- becoming the rank */

/* Standard error as the launcher has made it is kept for messages; what ranks 1 and up print does not appear. Returns 0 or -1 with errno. */
static int connect_output(const struct front *front, const struct met *met, int *errors) {
    struct join_page *page = mmap(NULL, join_page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, met->descriptors[RENDEZVOUS_MEMORY], 0);
    if (page == MAP_FAILED)
        return -1;
    *errors = page->ranks[front->engine->rank].errors = keep(STDERR_FILENO);
    munmap(page, join_page_bytes());
    if (!front->engine->rank)
        return 0;
    fflush(NULL);
    if (dup2(met->descriptors[RENDEZVOUS_OUT], STDOUT_FILENO) < 0 || dup2(met->descriptors[RENDEZVOUS_ERROR], STDERR_FILENO) < 0)
        return -1;
    close(met->descriptors[RENDEZVOUS_OUT]);
    close(met->descriptors[RENDEZVOUS_ERROR]);
    return 0;
}

/* Nothing outlives the launcher. The death signal is tied to the thread that forked (L7): only where that is the launcher's own process, and not where it
   forks from threads that end (Open MPI does for more than 32 ranks); the shim looks after the launcher, too (shim/joined.c). */
bool front_die_with(const struct engine *engine, int signal) {
    pid_t parent = getppid();
    if (engine->process != parent || engine->local_world_size > THREADS_FORK_FROM)
        return true;
    return prctl(PR_SET_PDEATHSIG, signal) == 0 && getppid() == parent;
}

/* --bind, unless the launcher has bound the ranks already. Returns 0 or -1 with errno. */
static int bind_rank(const struct front *front, const struct met *met) {
    struct placement placement;
    const struct cpus *cpus = NULL;
    int status = 0;
    if (!met->answer.are_alike)
        return 0;
    if (placement_build(&placement, &topology, (enum config_bind)front->config->bind, front->engine->local_world_size))
        errno = ENOMEM, status = -1;
    else if ((cpus = placement_of(&placement, front->engine->local_rank)))
        status = sched_setaffinity(0, sizeof *cpus, (const cpu_set_t *)(const void *)cpus);
    placement_clear(&placement);
    return status;
}

static char **environment_of(const struct front *front, const struct plan *plan, const struct met *met) {
    char joined[96];
    snprintf(joined, sizeof joined, "%d:%d %d:%d", (int)getpid(), met->descriptors[RENDEZVOUS_MEMORY], join_pid(met->answer.zero),
             met->answer.memory);
    struct environ_claim claim = {.joined = joined, .cookie = met->answer.cookie, .rank = front->engine->rank};
    return environ_build(plan, front->environment, &claim);
}

static void become(const struct front *front, const struct met *met, struct problem *problem) {
    struct plan plan;
    int errors = -1;
    struct plan_facts facts = {front->config,     front->target, front->arguments, front->environment,
                               met->answer.cores, NULL,          front->engine,    met->answer.share};
    if (plan_build(&plan, &facts, problem))
        return;
    char **environment = environment_of(front, &plan, met);
    char **through_shell = front->target->through_shell ? plan_shell_arguments(&plan) : NULL;
    if (!environment || connect_output(front, met, &errors))
        problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "raise 'ulimit -n' and the memory limits", "rank %u cannot be connected: %s",
                    front->engine->rank, strerror(errno));
    else if (bind_rank(front, met))
        problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "run with --bind none", "cannot bind a rank to its processors: %s",
                    strerror(errno));
    else if (!front_die_with(front->engine, SIGKILL))
        problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "look for who has ended it", "%s has ended", engines_name(front->engine));
    else {
        execve(through_shell ? through_shell[0] : plan.path, through_shell ? through_shell : front->arguments, environment);
        spawn_exec_problem(errno, plan.path, problem);
        dup2(errors, STDERR_FILENO);
    }
    environ_free(environment);
    free(through_shell);
    plan_clear(&plan);
}

static void say_advice(const struct front *front, uint32_t cores) {
    struct problem advice;
    plan_say_advice(front->config, front->environment, front->engine->world_size, cores);
    preflight_advise(front->target, &advice);
    if (*advice.id && front->engine->world_size > 1 && front->config->log_level >= CONFIG_LEVEL_WARN)
        dprintf(STDERR_FILENO, "accel-run: warning %s: %s\n  what to do: %s\n", advice.id, advice.what, advice.cure);
}

void front_run(const struct front *front, struct problem *problem) {
    struct met met;
    memset(&met, 0, sizeof met);
    for (int i = 0; i < RENDEZVOUS_DESCRIPTORS; i++)
        met.descriptors[i] = -1;
    if (front->engine->rank ? meet_as_other(front, &met, problem) : meet_as_zero(front, &met, problem))
        return;
    if (!front->engine->rank)
        say_advice(front, met.answer.cores);
    become(front, &met, problem);
}
