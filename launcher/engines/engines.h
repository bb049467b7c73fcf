/*
 * Which launcher has started us, and what follows: start the ranks ourselves, become one, or start this host's.
 *
 * Rules
 *  - Pure: environment and ancestors are given (ancestors.c reads them). One row for each launcher in engines.def; no launcher's name in code.
 *  - A family counts when its variables are complete, it has more than one process, and its launcher is still running above us: variables are
 *    inherited, by a shell that somebody opened inside a job for instance. A container's own settings need no process.
 *  - Of several that count, the one whose process is the nearest above us decides; a container's settings come after all processes.
 *  - What was found and not followed is said (engines_words), never dropped in silence. What would make every host train by itself is refused.
 *  - engines.c finds; engines_settle.c says what follows from it.
 */
#ifndef ACCEL_RUN_ENGINES_H
#define ACCEL_RUN_ENGINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../config/config.h"
#include "../problem.h"

enum engine_family {
#define ENGINE(family, ...) ENGINE_##family,
#include "engines.def"
#undef ENGINE
    ENGINE_FAMILIES
};

enum engine_mode {
    ENGINE_SPAWN, /* nobody's job: as many ranks here as the user says */
    ENGINE_JOIN,  /* one process for each rank is there already: this one becomes a rank */
    ENGINE_NODE,  /* one process for each host, or the first of several there: it starts the host's ranks */
    ENGINE_STAND, /* another one of several on each of several hosts: it stands by (stand_by.h) */
};

/* A process above this one. */
struct engine_process {
    pid_t pid;
    uint64_t started;        /* clock ticks since boot (proc(5), starttime) */
    const char *words;       /* borrowed: its command line, each word with its terminator */
    size_t words_bytes;      /* 0: unknown */
    const char *environment; /* borrowed: what it was started with, likewise; NULL: may not be read */
    size_t environment_bytes;
};

struct engine_facts {
    char *const *environment;
    const struct engine_process *ancestors; /* the nearest first */
    uint32_t ancestor_count;
    bool has_terminal; /* this process can be typed into */
};

#define ENGINE_TEXT_CHARS 256
#define ENGINE_RANKS_MAX 256

struct engine {
    enum engine_mode mode;
    enum engine_family family;                               /* ENGINE_FAMILIES: none */
    uint32_t rank, world_size, local_rank, local_world_size; /* JOIN */
    uint32_t node_rank, nodes;                               /* nodes 0: unknown */
    uint32_t ranks_here;                                     /* NODE: how many were asked for on this host; 0: not said */
    uint32_t first;                                          /* JOIN: the number in the job of this host's first rank */
    uint32_t company;                                        /* NODE: how many processes of this host stand by */
    uint32_t port, restart;
    char address[ENGINE_TEXT_CHARS], job[ENGINE_TEXT_CHARS]; /* "": unknown */
    pid_t process;                                           /* the launcher's on this host, parent of all its ranks here; 0: not seen */
    uint64_t process_started;
    bool threads_are_its;            /* OMP_NUM_THREADS is a launcher's default, not the user's choice */
    bool is_unclear;                 /* SPAWN: several hosts or ranks are asked for in words that cannot be followed; `ignored` says why */
    bool ranks_are_unclear;          /* NODE: the number of ranks here is none */
    bool ranks_are_cores;            /* NODE: it is torchrun's "auto" or "cpu" */
    bool counts_ranks;               /* its variables count ranks, not hosts */
    char ignored[ENGINE_TEXT_CHARS]; /* what was found and not followed, with the reason; "": nothing */
};

void engines_find(const struct engine_facts *facts, struct engine *engine);

/* Brings what the user asked for and what the launcher has started together: ranks in JOIN; in NODE also which host of how many this is, and where
   the first one is (borrowed from *engine). Forgets the launcher for --engine none. Returns 0, or -1 with *problem. */
int engines_settle(struct engine *engine, struct config *config, struct problem *problem);

/* "rank 1 of 4: torchrun (LOCAL_RANK=1); ignored: SLURM_PROCID=0, no task of a step", or "" when there is nothing to say. text[size] */
void engines_words(const struct engine *engine, char *text, size_t size);
const char *engines_name(const struct engine *engine);
/* The variables, between spaces, of which one has its rank or host. Literal. */
const char *engines_variable(const struct engine *engine);
/* Adds "VARIABLE=value, why" to what was not followed. variable: its first word counts. */
void engines_ignore(struct engine *engine, const char *variable, const char *value, const char *why);

/* What all processes of one start have in common on this host and no others have, as text (hashed by front.c). text[size] */
void engines_key(const struct engine *engine, char *text, size_t size);

/* Is "NAME=value" a launcher's variable that a rank must not see? engine: the one that was found; NULL: of any. */
bool engines_hides(const struct engine *engine, const char *variable);

/* Pure helpers of Slurm's compressed forms, for tests: tasks on host `node` in "2(x3),1" (0: not listed); the first name of "n[03-05,7],x". */
uint32_t engines_tasks_of(const char *list, uint32_t node);
void engines_first_host(const char *list, char *host, size_t size);

#endif
