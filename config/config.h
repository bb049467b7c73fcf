/*
 * struct config: every setting of a run, from the one table options.def.
 *
 * Rules
 *  - A setting exists because it has a row in options.def: field, default, spellings, key, variable and help come from there.
 *  - Values are checked where they are read; whoever holds a struct config holds a valid one.
 *  - Sources may be read in any order: a value never replaces one of a stronger source (enum config_origin).
 *  - libc only, and libyaml in yaml.c alone. No system calls, no exit; faults are returned as text, what is to be said is noted (notes.h).
 */
#ifndef ACCEL_RUN_CONFIG_H
#define ACCEL_RUN_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ACCEL_RUN_VERSION "0.1.0"
#define CONFIG_VARIABLE_PREFIX "ACCEL_RUN_"
/* Where the shim library is, instead of beside accel-run. For tests. */
#define CONFIG_ENV_SHIM "ACCEL_RUN_SHIM"

/* What the user wants to do, with the words of --help. */
#define CONFIG_GROUPS(GROUP)                                                                                                               \
    GROUP(RUN, "Ranks and their work")                                                                                                     \
    GROUP(HOSTS, "Several hosts")                                                                                                          \
    GROUP(PROGRAM, "The program")                                                                                                          \
    GROUP(OUTPUT, "What you see")                                                                                                          \
    GROUP(CHECK, "Look before it runs")                                                                                                    \
    GROUP(LIMITS, "When something hangs or fails")                                                                                         \
    GROUP(SETTINGS, "Settings kept in files")                                                                                              \
    GROUP(ABOUT, "About accel-run")
enum config_group {
#define GROUP(id, title) CONFIG_GROUP_##id,
    CONFIG_GROUPS(GROUP)
#undef GROUP
        CONFIG_GROUP_COUNT
};
extern const char *const config_group_titles[CONFIG_GROUP_COUNT];

enum config_type {
    CONFIG_COUNT,
    CONFIG_AMOUNT,
    CONFIG_SECONDS,
    CONFIG_FLAG,
    CONFIG_TEXT,
    CONFIG_LEVEL,
    CONFIG_NODES,
    CONFIG_PORT,
    CONFIG_BIND,
    CONFIG_ENGINE,
    CONFIG_TOPIC
};
/* From the weakest to the strongest; what another launcher's variables say comes last and only where nothing else was said. */
enum config_origin { CONFIG_FROM_DEFAULT, CONFIG_FROM_FILE, CONFIG_FROM_ENVIRONMENT, CONFIG_FROM_COMMAND_LINE, CONFIG_FROM_LAUNCHER };
enum config_level { CONFIG_LEVEL_ERROR, CONFIG_LEVEL_WARN, CONFIG_LEVEL_INFO, CONFIG_LEVEL_DEBUG };
/* What a rank is bound to: processors of its own, or all that share a cache, a NUMA node, a socket with them; see launcher/placement/placement.h. */
enum config_bind { CONFIG_BIND_NONE, CONFIG_BIND_AUTO, CONFIG_BIND_CORE, CONFIG_BIND_CACHE, CONFIG_BIND_NUMA, CONFIG_BIND_SOCKET };
/* Is a launcher that has started this process looked for? */
enum config_engine { CONFIG_ENGINE_AUTO, CONFIG_ENGINE_NONE };
enum config_shown { CONFIG_SHOWN_BRIEF, CONFIG_SHOWN_ALL };
/* BRIEF, ALL: for people. FLAGS: those of other launchers. MARKDOWN, KEYS: lists in the manual pages. */
enum config_topic { CONFIG_TOPIC_NO, CONFIG_TOPIC_BRIEF, CONFIG_TOPIC_ALL, CONFIG_TOPIC_FLAGS, CONFIG_TOPIC_MARKDOWN, CONFIG_TOPIC_KEYS };

enum config_id {
#define OPTION(field, ...) CONFIG_ID_##field,
#include "options.def"
#undef OPTION
    CONFIG_OPTIONS
};

#define CONFIG_C_COUNT uint32_t
#define CONFIG_C_AMOUNT uint32_t
#define CONFIG_C_SECONDS uint32_t /* milliseconds */
#define CONFIG_C_FLAG bool
#define CONFIG_C_TEXT const char * /* borrowed: argv, environment, the text of a file or a literal */
#define CONFIG_C_LEVEL uint32_t    /* enum config_level */
#define CONFIG_C_NODES uint32_t
#define CONFIG_C_PORT uint32_t
#define CONFIG_C_BIND uint32_t   /* enum config_bind */
#define CONFIG_C_ENGINE uint32_t /* enum config_engine */
#define CONFIG_C_TOPIC uint32_t  /* enum config_topic */
struct config {
#define OPTION(field, type, ...) CONFIG_C_##type field;
#include "options.def"
#undef OPTION
    enum config_origin origin[CONFIG_OPTIONS];
    uint32_t line[CONFIG_OPTIONS], column[CONFIG_OPTIONS]; /* of the value, in `file`, from 1, where the origin is a file */
    const char *file;                                      /* borrowed: the configuration file that was read, or NULL */
    bool ranks_are_total;                                  /* `ranks` was given as Accelerate's num_processes: over all hosts */
    bool node_rank_is_theirs;                              /* `node_rank` was given as Accelerate's machine_rank */
    bool asks_for_cpu;                                     /* Accelerate's --cpu, or use_cpu */
    bool ranks_are_cores;                                  /* was given as torchrun's "auto": settings.c, which knows the machine, counts */
};

struct config_option {
    enum config_type type;
    size_t offset; /* of the field in struct config */
    const char *initial, *name;
    char letter; /* 0: none */
    const char *key, *variable, *argument;
    enum config_group group;
    enum config_shown shown;
    const char *since, *help;
};
extern const struct config_option config_options[CONFIG_OPTIONS];

#define CONFIG_FAULT_CHARS 256

/* ---- value.c */

/* All settings at their defaults. */
void config_defaults(struct config *config);

/* Sets one setting from text (borrowed for TEXT), unless a stronger source has set it; the text is checked in either case. Returns 0, or -1 with the
   fault in words ("-n: 'x' is not a whole number...") in fault[CONFIG_FAULT_CHARS]. `shown` is how the user spelled it. */
int config_set(struct config *config, enum config_id id, const char *text, enum config_origin origin, const char *shown, char *fault);

/* The present value as text that config_set would take; text[size]. */
void config_text(const struct config *config, enum config_id id, char *text, size_t size);

/* The word for a binding. Literal. */
const char *config_bind_name(enum config_bind bind);

/* Is text a word for yes (1) or no (0), as in YAML and in Accelerate? Else -1. Case does not matter. */
int config_truth(const char *text);

/* ---- table.c */

/* The option whose long name is `name` (length n; '_' is as good as '-'), or -1. */
int config_find(const char *name, size_t n);
int config_find_letter(char letter);
/* The option whose key in a file is `key`, or -1. */
int config_find_key(const char *key);
/* The long name nearest to a misspelt one; never NULL. '-' and '_' are one sign. */
const char *config_nearest(const char *name);
/* Is the distance that of a slip of the keys? */
bool config_is_near(const char *misspelt, const char *name);
/* Levenshtein distance, names cut at 40 characters; '-' and '_' are one sign. */
int config_distance(const char *a, const char *b);

/* ---- environment.c */

/* Value of a variable in a list of "NAME=value", or NULL. Borrowed. */
const char *config_variable(char *const *environment, const char *name);

/* Overlays the variables of the table. Returns 0 or -1 with fault. */
int config_read_environment(struct config *config, char *const *environment, char *fault);

/* The first ACCEL_RUN_ variable that nobody reads (NULL: none); its name is copied to name[64], *nearest is a known one (literal).
   Variables that begin with ACCEL_RUN_TEST_ or ACCEL_RUN_DEBUG_ belong to the shim and the tests and are not judged. */
const char *config_unknown_variable(char *const *environment, char *name, const char **nearest);

/* ---- hosts.c */

/* When all sources have been read: what several hosts need is there, and `ranks` counts those of this host. Returns 0, or -1 with the fault in words. */
int config_settle_hosts(struct config *config, char *fault);
/* The same for a file that all hosts may share: which host this is, and where the first one is, may be missing. */
int config_share_hosts(struct config *config, char *fault);

/* The first host's address without a port, host[size], and its port: the one behind a last ':' where master_addr has one, else master_port. Returns 0, or
   -1: no host, too long, or no port. */
int config_master(const struct config *config, char *host, size_t size, uint32_t *port);

/* ---- help.c, show.c, write.c, completion.c: text for people, manual pages, files and shells */

void config_print_help(enum config_topic topic, FILE *out);

/* Every setting that a file can hold, as such a file, with where its value came from. */
void config_print(const struct config *config, FILE *out);
/* Can a file hold the value? Paths may be bytes that are no UTF-8. */
bool config_can_be_kept(const struct config *config, enum config_id id);
/* One value as YAML has it. Returns its characters. */
int config_print_value(const struct config *config, enum config_id id, FILE *out);

/* A file to keep: every setting with its help; those at their default as comments. */
void config_write(const struct config *config, FILE *out);

/* An option, or a verb, of a subcommand (launcher/commands/command.c has the table). All literal. */
struct config_suboption {
    const char *command, *name, *argument; /* "--name", "-n", or a verb; argument "" for none; FILE, FOLDER and PROGRAM are paths */
    const char *choices;                   /* words that the argument can be, between spaces; "" any */
    const char *help;
    bool is_before_program; /* of a subcommand behind whose options a program follows */
    bool is_run;            /* which takes all options of a run, too */
};
struct config_subcommands {
    const char *names;                      /* between spaces */
    const struct config_suboption *options; /* those of a subcommand together */
    int count;
};

/* Returns 0, or -1 when the shell is not known. */
int config_print_completion(const char *shell, const struct config_subcommands *commands, FILE *out);

#endif
