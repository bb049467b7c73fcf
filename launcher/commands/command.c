#include "command.h"

#include <string.h>

#include "../problem.h"

static const struct command commands[] = {
    {"doctor", doctor_run, "doctor [--json] [--rows] [[-m] program [arguments]]", "check this machine, a program and its libtorch"},
    {"config", settings_command_run, "config [default | update | to-fsdp2] [--config-file FILE] [--output-file FILE] [--overwrite]",
     "ask for settings and keep them in a file; or write, renew, convert one"},
    {"env", environment_report_run, "env [--json]", "print what a report of a defect needs: versions, machine, settings"},
    {"test", trial_run, "test [-n N] [--only python|c++] [--python PROGRAM] [--libtorch FOLDER]",
     "train tiny programs in one process and as ranks, and compare"},
    {"explain", NULL, "explain [--steps K] [--json] [options] program [arguments]", /* a run: main.c */
     "run some steps and say what is divided, what is not and why"},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static const struct command *find(const char *name) {
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

static int print_usage_of(const struct command_call *call) {
    return command_print_usage(call->arguments[0], stdout);
}

const struct command *command_find(int argc, char *const *argv) {
    static const struct command help = {.run = print_usage_of}; /* of the one that is a run */
    const struct command *command = argc > 1 ? find(argv[1]) : NULL;
    if (command && !command->run && argc > 2 && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h")))
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

int command_print_usage(const char *name, FILE *out) {
    const struct command *command = find(name);
    fprintf(out, "usage: accel-run %s\n%s\n", command->usage, command->help);
    return command_flush();
}

int command_refuse(const struct command_call *call, const char *argument) {
    fprintf(stderr,
            "accel-run: error AR-OPTION-UNKNOWN: 'accel-run %s' does not take '%s'\n"
            "  what to do: usage: accel-run %s; a program called %s is started as: accel-run -- %s\n",
            call->arguments[0], argument, find(call->arguments[0])->usage, call->arguments[0], call->arguments[0]);
    return EXIT_LAUNCHER;
}

int command_flush(void) {
    return fflush(stdout) || ferror(stdout) ? EXIT_LAUNCHER : 0;
}
