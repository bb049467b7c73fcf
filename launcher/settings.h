/*
 * All sources of settings in their order: default < file < environment < command line. Which file:
 *
 *   --config-file FILE, or ACCEL_RUN_CONFIG_FILE ("none": no file)
 *   else ./accel-run.yaml
 *   else $XDG_CONFIG_HOME/accel-run/config.yaml (~/.config/accel-run/config.yaml)
 *   else Accelerate's: $HF_HOME/accelerate/default_config.yaml, $XDG_CACHE_HOME/huggingface/accelerate/..., ~/.cache/huggingface/accelerate/...
 *
 * One file only. Accelerate's is read by itself only when nobody has said how many ranks, and then with a notice: a file that lies in a cache
 * must not change what `accel-run -n 2 program` does.
 */
#ifndef ACCEL_RUN_SETTINGS_H
#define ACCEL_RUN_SETTINGS_H

#include <limits.h>

#include "../config/config.h"
#include "../config/foreign.h"
#include "../config/notes.h"
#include "../config/yaml.h"
#include "problem.h"

struct settings {
    struct config config;
    struct foreign foreign;
    struct config_notes notes;
    struct yaml yaml;       /* the file's keys; config borrows from it */
    char path[PATH_MAX];    /* of the file; "" none */
    char *text;             /* of the file, owned; NULL none */
    struct problem refused; /* --show-config: a run with these settings would be; exit_code 0: no */
};

/* Reads all sources. Returns the index of the program's name in argv (argc: none, and none is needed), or -1 with *problem. Notes are not judged
   yet. engine: the launcher that has started us, NULL none: what it says counts, too. The caller clears in either
   case. */
struct engine;
int settings_read(struct settings *settings, int argc, char *const *argv, char *const *environment, struct engine *engine,
                  struct problem *problem);
void settings_clear(struct settings *settings);

/* Reads one file into settings->yaml. Returns 0, or -1 with *problem. */
int settings_load(struct settings *settings, const char *path, struct problem *problem);

/* Where our own file is for all of a user's runs; text[PATH_MAX], "" when there is no home. */
void settings_user_path(char *const *environment, char *path);

/* What reading had to say, on stderr. Refusals are said whatever the level: the error that follows counts them. */
void settings_say_notes(const struct settings *settings);

/* Were settings asked for that cannot be had? Returns -1 with *problem, unless the user allows it: then they become warnings. */
int settings_refuse(struct settings *settings, struct problem *problem);

#endif
