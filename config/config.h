/*
 * struct config: every setting of a run, from the one table options.def.
 *
 * Rules
 *  - A setting exists because it has a row in options.def: field, default, spelling, variable and help come from there.
 *  - Values are checked where they are read; whoever holds a struct config holds a valid one.
 *  - libc only. No output, no exit: faults are returned as text.
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

enum config_type { CONFIG_COUNT, CONFIG_SECONDS, CONFIG_FLAG, CONFIG_TEXT, CONFIG_LEVEL };
enum config_origin { CONFIG_FROM_DEFAULT, CONFIG_FROM_ENVIRONMENT, CONFIG_FROM_COMMAND_LINE };
enum config_level { CONFIG_LEVEL_ERROR, CONFIG_LEVEL_WARN, CONFIG_LEVEL_INFO, CONFIG_LEVEL_DEBUG };

enum config_id {
#define OPTION(field, type, initial, name, letter, variable, argument, help) CONFIG_ID_##field,
#include "options.def"
#undef OPTION
    CONFIG_OPTIONS
};

#define CONFIG_C_COUNT uint32_t
#define CONFIG_C_SECONDS uint32_t /* milliseconds */
#define CONFIG_C_FLAG bool
#define CONFIG_C_TEXT const char * /* borrowed: argv, environment or literal */
#define CONFIG_C_LEVEL uint32_t    /* enum config_level */
struct config {
#define OPTION(field, type, initial, name, letter, variable, argument, help) CONFIG_C_##type field;
#include "options.def"
#undef OPTION
    enum config_origin origin[CONFIG_OPTIONS];
};

struct config_option {
    enum config_type type;
    size_t offset; /* of the field in struct config */
    const char *initial, *name;
    char letter; /* 0: none */
    const char *variable, *argument, *help;
};
extern const struct config_option config_options[CONFIG_OPTIONS];

#define CONFIG_FAULT_CHARS 256

/* All settings at their defaults. */
void config_defaults(struct config *config);

/* Sets one setting from text (borrowed for TEXT). Returns 0, or -1 with the fault in words ("-n: 'x' is not a whole number...") in
   fault[CONFIG_FAULT_CHARS]. `shown` is how the user spelled it. */
int config_set(struct config *config, enum config_id id, const char *text, enum config_origin origin, const char *shown, char *fault);

/* Overlays the variables of the table. Returns 0 or -1 with fault. */
int config_read_environment(struct config *config, char *const *environment, char *fault);

/* The first ACCEL_RUN_ variable that nobody reads (NULL: none); its name is copied to name[64], *nearest is a known one (literal).
   Variables that begin with ACCEL_RUN_TEST_ or ACCEL_RUN_DEBUG_ belong to the shim and the tests and are not judged. */
const char *config_unknown_variable(char *const *environment, char *name, const char **nearest);

/* The option whose long name is `name` (length n), or -1. */
int config_find(const char *name, size_t n);
int config_find_letter(char letter);
/* The long name nearest to a misspelt one; never NULL. */
const char *config_nearest(const char *name);

void config_print_help(FILE *out);

#endif
