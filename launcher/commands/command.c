#include "command.h"

#include <errno.h>
#include <string.h>

#include "../problem.h"

static const struct command commands[] = {
    {"doctor", doctor_run, "doctor [--json] [--rows] [[-m] program [arguments]]", "check this machine, a program and its libtorch"},
    {"config", settings_command_run, "config [default | update | to-fsdp2] [--config-file FILE] [--output-file FILE] [--overwrite]",
     "ask for settings and keep them in a file; or write, renew, convert one"},
    {"env", environment_report_run, "env [--json] [--config-file FILE]",
     "print what a report of a defect needs: versions, machine, settings"},
    {"test", trial_run, "test [-n N] [--only python|c++] [--python PROGRAM] [--libtorch FOLDER]",
     "train tiny programs in one process and as ranks, and compare"},
    {"explain", NULL, "explain [--steps K] [--json] [options] program [arguments]", /* a run: main.c */
     "run some steps and say what is divided, what is not and why"},
};

#define BEFORE_PROGRAM .is_before_program = true
#define RUN .is_before_program = true, .is_run = true
static const struct config_suboption options[] = {
    {"doctor", "--json", "", "", "print the findings as JSON", BEFORE_PROGRAM},
    {"doctor", "--rows", "", "", "list every hook and how this libtorch binds it", BEFORE_PROGRAM},
    {"doctor", "--module", "", "", "the program is a Python module (-m)", BEFORE_PROGRAM},
    {"config", "default", "", "", "write a file without questions", .is_run = false},
    {"config", "update", "", "", "write today's form of a file, also of one of Accelerate's", .is_run = false},
    {"config", "to-fsdp2", "", "", "convert a file of Accelerate to FSDP of version 2", .is_run = false},
    {"config", "--config-file", "FILE", "", "the file to read; of 'default' the one to write", .is_run = false},
    {"config", "--output-file", "FILE", "", "the file to write", .is_run = false},
    {"config", "--overwrite", "", "", "replace a file that is there", .is_run = false},
    {"config", "--mixed-precision", "WORD", "no fp16 bf16", "of 'default', as Accelerate has it: only 'no' is available", .is_run = false},
    {"env", "--json", "", "", "print a list of names and values as JSON", .is_run = false},
    {"env", "--config-file", "FILE", "", "show the settings of this file", .is_run = false},
    {"test", "-n", "N", "", "compare with N ranks, 2 to 16 (2)", .is_run = false},
    {"test", "--only", "WHAT", "python c++", "train only one of the two programs", .is_run = false},
    {"test", "--python", "PROGRAM", "", "the interpreter that has torch", .is_run = false},
    {"test", "--libtorch", "FOLDER", "", "the libtorch to build with", .is_run = false},
    {"explain", "--steps", "K", "", "end after K backward passes (3)", RUN},
    {"explain", "--json", "", "", "print the explanation as JSON", RUN},
};
enum { OPTIONS = sizeof options / sizeof *options };

enum { COMMANDS = sizeof commands / sizeof *commands };

static const struct command *find(const char *name) {
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

/* `accel-run explain --help`, which is a run, and `accel-run --help NAME`. */
static int print_usage_of(const struct command_call *call) {
    return command_print_usage(find(call->arguments[0]) ? call->arguments[0] : call->arguments[1], stdout);
}

static bool asks_help(const char *argument) {
    return !strcmp(argument, "--help") || !strcmp(argument, "-h");
}

/* Behind the options of some a program follows, whose --help is its own. */
static bool takes_program(const struct command *command) {
    for (int i = 0; i < OPTIONS; i++)
        if (!strcmp(options[i].command, command->name))
            return options[i].is_before_program;
    return false;
}

const struct command *command_find(int argc, char *const *argv) {
    static const struct command help = {.run = print_usage_of};
    const struct command *command = argc > 1 ? find(argv[1]) : NULL;
    for (int i = 2; command && i < (takes_program(command) ? 3 : argc) && i < argc; i++)
        if (asks_help(argv[i]))
            return &help;
    if (argc == 3 && asks_help(argv[1]) && find(argv[2]))
        return &help;
    return command && command->run ? command : NULL;
}

void command_print_list(FILE *out) {
    fputs("\nSubcommands, as the first word ('accel-run NAME --help' tells more):\n", out);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-32s %s\n", commands[i].name, commands[i].help);
}

void command_names(char *text, size_t size) {
    size_t n = 0;
    *text = 0;
    for (int i = 0; i < COMMANDS && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%s", i ? " " : "", commands[i].name);
}

struct config_subcommands command_completions(void) {
    static char names[256];
    command_names(names, sizeof names);
    return (struct config_subcommands){names, options, OPTIONS};
}

int command_print_usage(const char *name, FILE *out) {
    const struct command *command = find(name);
    fprintf(out, "usage: accel-run %s\n%s\n\n", command->usage, command->help);
    for (int i = 0; i < OPTIONS; i++)
        if (!strcmp(options[i].command, name))
            fprintf(out, "  %s%s%-*s %s\n", options[i].name, *options[i].argument ? " " : "",
                    (int)(26 - strlen(options[i].name) - (*options[i].argument != 0)), options[i].argument, options[i].help);
    return command_flush();
}

const char *command_value(const struct command_call *call, int *index, const char *name) {
    const char *argument = call->arguments[*index];
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if ((i > 1 && argument[i] == '_' ? '-' : argument[i]) != name[i])
            return NULL;
    if (argument[n] == '=' && name[1] == '-')
        return argument + n + 1;
    return !argument[n] && *index + 1 < call->argc ? call->arguments[++*index] : NULL;
}

/* The row of an option that takes a value, in either spelling; NULL: none. */
static const struct config_suboption *valued(const char *command, const char *argument) {
    size_t n = strcspn(argument, "=");
    for (int i = 0; i < OPTIONS; i++) {
        const char *name = options[i].name;
        size_t k = 0;
        while (k < n && name[k] == (k > 1 && argument[k] == '_' ? '-' : argument[k]))
            k++;
        if (*options[i].argument && k == n && !name[k] && !strcmp(options[i].command, command))
            return &options[i];
    }
    return NULL;
}

int command_refuse(const struct command_call *call, const char *argument) {
    const struct config_suboption *option = valued(call->arguments[0], argument);
    if (option) {
        fprintf(stderr,
                "accel-run: error AR-OPTION-VALUE: 'accel-run %s %s' has no value, or one that is not known: %s%s%s (%s)\n"
                "  what to do: see 'accel-run %s --help'\n",
                call->arguments[0], option->name, option->argument, *option->choices ? ", one of: " : "", option->choices, option->help,
                call->arguments[0]);
        return EXIT_LAUNCHER;
    }
    fprintf(stderr,
            "accel-run: error AR-OPTION-UNKNOWN: 'accel-run %s' does not take '%s'\n"
            "  what to do: usage: accel-run %s; a program called %s is started as: accel-run -- %s%s\n",
            call->arguments[0], argument, find(call->arguments[0])->usage, call->arguments[0],
            strcmp(call->arguments[0], "test") ? "" : "./", call->arguments[0]); /* the test of PATH is the system's (preflight.c) */
    return EXIT_LAUNCHER;
}

int command_flush(void) {
    if (!fflush(stdout) && !ferror(stdout))
        return 0;
    fprintf(stderr, "accel-run: error AR-OUTPUT: stdout cannot be written: %s\n  what to do: is it open, and is there room?\n",
            strerror(errno));
    return EXIT_LAUNCHER;
}
