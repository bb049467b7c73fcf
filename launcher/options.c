#include "options.h"

#include <string.h>

struct reader {
    int argc, index; /* index: the argument being read */
    char *const *argv;
    struct config *config;
    struct problem *problem;
};

static int unknown(struct reader *reader, const char *option) {
    const char *name = option + strspn(option, "-");
    char bare[64];
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(name, "="), name);
    return problem_set(reader->problem, EXIT_LAUNCHER, "AR-OPTION-UNKNOWN",
                       "'accel-run --help' lists the options; those of the program come after its name",
                       "unknown option '%s'; did you mean '--%s'?", option, config_nearest(bare));
}

/* value: text of "--name=value" or "-nVALUE", else NULL: the next argument is it. */
static int take(struct reader *reader, int id, const char *shown, const char *value) {
    const struct config_option *option = &config_options[id];
    char fault[CONFIG_FAULT_CHARS];
    if (option->type == CONFIG_FLAG && !value)
        value = "1";
    if (!value && reader->index + 1 < reader->argc)
        value = reader->argv[++reader->index];
    if (!value)
        return problem_set(reader->problem, EXIT_LAUNCHER, "AR-OPTION-VALUE", "see 'accel-run --help'", "%s needs a value: %s", shown,
                           option->argument);
    if (config_set(reader->config, (enum config_id)id, value, CONFIG_FROM_COMMAND_LINE, shown, fault))
        return problem_set(reader->problem, EXIT_LAUNCHER, "AR-OPTION-VALUE", "see 'accel-run --help'", "%s", fault);
    return 0;
}

static int read_option(struct reader *reader) {
    const char *argument = reader->argv[reader->index];
    char shown[64];
    if (argument[1] == '-') {
        size_t n = strcspn(argument + 2, "=");
        int id = config_find(argument + 2, n);
        if (id < 0)
            return unknown(reader, argument);
        snprintf(shown, sizeof shown, "--%s", config_options[id].name);
        return take(reader, id, shown, argument[2 + n] ? argument + 3 + n : NULL);
    }
    int id = config_find_letter(argument[1]);
    if (id < 0 || (config_options[id].type == CONFIG_FLAG && argument[2]))
        return unknown(reader, argument);
    snprintf(shown, sizeof shown, "-%c", argument[1]);
    return take(reader, id, shown, argument[2] ? argument + 2 : NULL);
}

int options_read(int argc, char *const *argv, char *const *environment, struct config *config, struct problem *problem) {
    struct reader reader = {argc, 1, argv, config, problem};
    char fault[CONFIG_FAULT_CHARS];
    config_defaults(config);
    if (config_read_environment(config, environment, fault))
        return problem_set(problem, EXIT_LAUNCHER, "AR-OPTION-VALUE", "correct or unset the variable", "%s", fault);
    for (; reader.index < argc; reader.index++) {
        const char *argument = argv[reader.index];
        if (argument[0] != '-' || !argument[1])
            break;
        if (!strcmp(argument, "--")) {
            reader.index++;
            break;
        }
        if (read_option(&reader))
            return -1;
    }
    if (reader.index >= argc && !config->help && !config->version)
        return problem_set(problem, EXIT_LAUNCHER, "AR-NO-PROGRAM", "accel-run -n 2 ./your_program its arguments", "no program was named");
    return reader.index > argc ? argc : reader.index;
}
