#include "options.h"

#include <string.h>

enum { TEXT_CHARS = 256, OWN_ROW = 1, FOREIGN_ROW = 2 /* the first of foreign.def */ };

/* Which row of the tables set an option on this command line, and to what. */
struct setter {
    int row; /* 0: none yet; OWN_ROW; FOREIGN_ROW + enum foreign_id */
    char shown[64], text[TEXT_CHARS];
};

struct reader {
    int argc, index; /* index: the argument being read */
    char *const *argv;
    struct config *config;
    struct foreign *foreign;
    struct problem *problem;
    struct setter setters[CONFIG_OPTIONS];
};

/* One option as it was written: shown "--name" or "-n"; value: text of "--name=value" or "-nVALUE", else NULL. */
struct spelling {
    char shown[64];
    const char *value;
};

static int unknown(struct reader *reader, const char *option) {
    const char *name = option + strspn(option, "-");
    char bare[64], advice[80] = "";
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(name, "="), name);
    const char *nearest = option[1] == '-' ? foreign_nearest_flag(bare) : NULL;
    if (nearest)
        snprintf(advice, sizeof advice, "; did you mean '--%s'?", nearest);
    return problem_set(reader->problem, EXIT_LAUNCHER, "AR-OPTION-UNKNOWN",
                       "'accel-run --help' lists the options; those of the program come after its name", "unknown option '%.200s'%s",
                       option, advice);
}

static int fault_of_value(struct reader *reader, const char *fault) {
    return problem_set(reader->problem, EXIT_LAUNCHER, "AR-OPTION-VALUE", "see 'accel-run --help'", "%s", fault);
}

/* The value that an option has or that the next argument is; NULL with the problem. */
static const char *value_of(struct reader *reader, const struct spelling *spelling, const char *argument) {
    if (spelling->value)
        return spelling->value;
    if (reader->index + 1 < reader->argc)
        return reader->argv[++reader->index];
    problem_set(reader->problem, EXIT_LAUNCHER, "AR-OPTION-VALUE", "see 'accel-run --help'", "%s needs a value: %s", spelling->shown,
                argument);
    return NULL;
}

/* A topic may follow --help; a program's name may not be taken for one. The last word, when it is neither an option nor a path, was meant as one. */
static const char *topic_of(struct reader *reader, const struct spelling *spelling) {
    static const char *const topics[] = {"all", "flags", "brief"};
    if (spelling->value)
        return spelling->value;
    for (size_t i = 0; i < sizeof topics / sizeof *topics && reader->index + 1 < reader->argc; i++)
        if (!strcmp(reader->argv[reader->index + 1], topics[i]))
            return reader->argv[++reader->index];
    const char *last = reader->index + 2 == reader->argc ? reader->argv[reader->index + 1] : "-";
    if (*last != '-' && !last[strcspn(last, "/.")])
        return last;
    return "brief";
}

/* "h" and "h:29500" name one host. */
static bool says_the_same(int id, const char *a, const char *b) {
    size_t n = id == CONFIG_ID_master_addr ? strcspn(a, ":") : strlen(a);
    return !strncmp(a, b, n) && (!b[n] || (id == CONFIG_ID_master_addr && b[n] == ':'));
}

/* An option that stands twice counts where it stands last, as everywhere. Under two names it is two wishes: they must agree. */
static int agree(struct reader *reader, int id, int row, const struct spelling *spelling) {
    struct setter *before = &reader->setters[id], now = {.row = row};
    snprintf(now.shown, sizeof now.shown, "%s", spelling->shown);
    config_text(reader->config, (enum config_id)id, now.text, sizeof now.text);
    if (before->row && before->row != row && !says_the_same(id, before->text, now.text))
        return problem_set(reader->problem, EXIT_LAUNCHER, "AR-OPTION-CONTRADICTION", "leave one of them out",
                           "%s and %s both set --%s, to '%.80s' and to '%.80s'", before->shown, now.shown, config_options[id].name,
                           before->text, now.text);
    *before = now;
    return 0;
}

static int take(struct reader *reader, int id, const struct spelling *spelling) {
    const struct config_option *option = &config_options[id];
    char fault[CONFIG_FAULT_CHARS];
    const char *value = spelling->value;
    if (option->type == CONFIG_TOPIC)
        value = topic_of(reader, spelling);
    else if (option->type != CONFIG_FLAG)
        value = value_of(reader, spelling, option->argument);
    else if (!value)
        value = "1";
    if (!value)
        return -1;
    if (config_set(reader->config, (enum config_id)id, value, CONFIG_FROM_COMMAND_LINE, spelling->shown, fault))
        return fault_of_value(reader, fault);
    return agree(reader, id, OWN_ROW, spelling);
}

static int take_foreign(struct reader *reader, enum foreign_id id, const struct spelling *spelling) {
    char fault[CONFIG_FAULT_CHARS];
    const char *value = foreign_takes_value(id) ? value_of(reader, spelling, "VALUE") : "yes";
    if (!value)
        return -1;
    if (!foreign_takes_value(id) && spelling->value)
        return problem_set(reader->problem, EXIT_LAUNCHER, "AR-OPTION-VALUE", "leave the value out", "%s takes no value", spelling->shown);
    struct foreign_given given = {.id = id, .value = value};
    if (foreign_give(reader->foreign, &given, reader->config, spelling->shown, fault))
        return fault_of_value(reader, fault);
    if (foreign_rows[id].verdict == FOREIGN_WORKS && !foreign_is_plain(id, value))
        return agree(reader, foreign_rows[id].target, FOREIGN_ROW + (int)id, spelling);
    return 0;
}

static int read_long(struct reader *reader, const char *argument) {
    size_t n = strcspn(argument + 2, "=");
    struct spelling spelling = {.value = argument[2 + n] ? argument + 3 + n : NULL};
    int id = config_find(argument + 2, n), other = foreign_find_flag(argument + 2, n);
    snprintf(spelling.shown, sizeof spelling.shown, "%.*s", (int)n + 2, argument);
    if (id >= 0)
        return take(reader, id, &spelling);
    return other >= 0 ? take_foreign(reader, (enum foreign_id)other, &spelling) : unknown(reader, argument);
}

/* "-n4", "-n=4", "-n 4", and switches together, as Python's argparse takes them: "-qm"; and "-np 4", as mpirun has it. */
static int read_short(struct reader *reader, const char *argument) {
    int status = 0;
    bool takes = false;
    if (!strcmp(argument, "-np"))
        return take(reader, CONFIG_ID_ranks, &(struct spelling){.shown = "-np"});
    for (const char *letter = argument + 1; *letter && !takes && !status; letter++) {
        int id = config_find_letter(*letter), other = foreign_find_letter(*letter);
        if (id < 0 && other < 0)
            return unknown(reader, argument);
        takes = id >= 0 ? config_options[id].type != CONFIG_FLAG : foreign_takes_value((enum foreign_id)other);
        struct spelling spelling = {.value = takes && letter[1] ? letter + 1 + (letter[1] == '=') : NULL};
        snprintf(spelling.shown, sizeof spelling.shown, "-%c", *letter);
        status = id >= 0 ? take(reader, id, &spelling) : take_foreign(reader, (enum foreign_id)other, &spelling);
    }
    return status;
}

bool options_need_no_program(const struct config *config) {
    return config->help || config->version || config->show_config || *config->completion;
}

int options_read(int argc, char *const *argv, char *const *environment, struct config *config, struct foreign *foreign,
                 struct problem *problem) {
    struct reader reader = {.argc = argc, .index = 1, .argv = argv, .config = config, .foreign = foreign, .problem = problem};
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
        if (argument[1] == '-' ? read_long(&reader, argument) : read_short(&reader, argument))
            return -1;
    }
    if (reader.index >= argc && !options_need_no_program(config))
        return problem_set(problem, EXIT_LAUNCHER, "AR-NO-PROGRAM", "accel-run -n 2 ./your_program its arguments", "no program was named");
    return reader.index > argc ? argc : reader.index;
}
