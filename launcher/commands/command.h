/*
 * Subcommands: `accel-run config`, `doctor`, `env`, `test`, `explain`. A word of the table as the first argument is the subcommand; a program of that name is
 * written ./name, or behind "--".
 *
 * Rules
 *  - A subcommand prints its result to stdout and returns the exit status; only main.c exits.
 *  - It reads the environment from the call, never from getenv.
 */
#ifndef ACCEL_RUN_COMMAND_H
#define ACCEL_RUN_COMMAND_H

#include <stdio.h>

#include "../../config/config.h"

/* All borrowed. */
struct command_call {
    int argc; /* arguments[0] is the subcommand's name */
    char *const *arguments;
    char *const *environment;
};

struct command {
    const char *name;
    int (*run)(const struct command_call *call);
    const char *usage, *help; /* one line each */
};

/* The subcommand that the command line names, or NULL. */
const struct command *command_find(int argc, char *const *argv);

/* A line for each, for --help. */
void command_print_list(FILE *out);

/* Their names, between spaces; text[size]. */
void command_names(char *text, size_t size);

/* Names and options, for the shells. Static. */
struct config_subcommands command_completions(void);

/* Prints how the subcommand is used. Returns 0. */
int command_print_usage(const char *name, FILE *out);

/* "--name VALUE" or "--name=VALUE", '_' as good as '-'; "-n VALUE": the value, with *index moved to it; NULL: another argument, or no value. */
const char *command_value(const struct command_call *call, int *index, const char *name);

/* "accel-run: error AR-OPTION-UNKNOWN: ..." for an argument that the subcommand does not take, AR-OPTION-VALUE for an option of its own without a value that
   it knows. Returns EXIT_LAUNCHER. */
int command_refuse(const struct command_call *call, const char *argument);

/* 0 when everything was written to stdout; else says that it was not, and returns EXIT_LAUNCHER. */
int command_flush(void);

int doctor_run(const struct command_call *call);
int environment_report_run(const struct command_call *call);
int trial_run(const struct command_call *call);
int settings_command_run(const struct command_call *call);

#endif
