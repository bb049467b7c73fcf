#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "board.h"
#include "protocol.h"

const struct config_option config_options[CONFIG_OPTIONS] = {
#define OPTION(field, type, initial, name, letter, variable, argument, help)                                                               \
    {CONFIG_##type, offsetof(struct config, field), initial, name, letter, variable, argument, help},
#include "options.def"
#undef OPTION
};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static int fault_set(char *fault, const char *shown, const char *text, const char *expected) {
    snprintf(fault, CONFIG_FAULT_CHARS, "%s: '%.80s' is not %s", shown, text, expected);
    return -1;
}

static int set_count(uint32_t *value, const char *text, const char *shown, char *fault) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || end == text || *end || number < 1 || number > BOARD_RANKS_MAX)
        return fault_set(fault, shown, text, "a whole number from 1 to 256");
    *value = (uint32_t)number;
    return 0;
}

static int set_seconds(uint32_t *milliseconds, const char *text, const char *shown, char *fault) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= 0) || number > 4000000)
        return fault_set(fault, shown, text, "a number of seconds");
    *milliseconds = (uint32_t)(number * 1000 + 0.5);
    return 0;
}

static int set_flag(bool *value, const char *text, const char *shown, char *fault) {
    bool yes = !strcmp(text, "1") || !strcmp(text, "yes") || !strcmp(text, "true");
    bool no = !strcmp(text, "0") || !strcmp(text, "no") || !strcmp(text, "false") || !*text;
    if (!yes && !no)
        return fault_set(fault, shown, text, "1 or 0");
    *value = yes;
    return 0;
}

static int set_level(uint32_t *value, const char *text, const char *shown, char *fault) {
    for (uint32_t i = 0; i < sizeof(level_names) / sizeof(*level_names); i++)
        if (!strcmp(text, level_names[i])) {
            *value = i;
            return 0;
        }
    return fault_set(fault, shown, text, "one of error, warn, info, debug");
}

int config_set(struct config *config, enum config_id id, const char *text, enum config_origin origin, const char *shown, char *fault) {
    void *field = (char *)config + config_options[id].offset;
    int status = 0;
    switch (config_options[id].type) {
    case CONFIG_COUNT:
        status = set_count(field, text, shown, fault);
        break;
    case CONFIG_SECONDS:
        status = set_seconds(field, text, shown, fault);
        break;
    case CONFIG_FLAG:
        status = set_flag(field, text, shown, fault);
        break;
    case CONFIG_LEVEL:
        status = set_level(field, text, shown, fault);
        break;
    case CONFIG_TEXT:
        *(const char **)field = text;
        break;
    }
    if (status == 0)
        config->origin[id] = origin;
    return status;
}

void config_defaults(struct config *config) {
    char fault[CONFIG_FAULT_CHARS];
    memset(config, 0, sizeof *config);
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        config_set(config, (enum config_id)i, config_options[i].initial, CONFIG_FROM_DEFAULT, config_options[i].name, fault);
}

static const char *variable_value(char *const *environment, const char *name) {
    size_t n = strlen(name);
    for (; *environment; environment++)
        if (!strncmp(*environment, name, n) && (*environment)[n] == '=')
            return *environment + n + 1;
    return NULL;
}

int config_read_environment(struct config *config, char *const *environment, char *fault) {
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        const char *variable = config_options[i].variable;
        const char *value = *variable ? variable_value(environment, variable) : NULL;
        if (value && config_set(config, (enum config_id)i, value, CONFIG_FROM_ENVIRONMENT, variable, fault))
            return -1;
    }
    return 0;
}

/* Levenshtein distance, names cut at 40 characters. */
static int distance(const char *a, const char *b) {
    int row[42];
    int nb = (int)strnlen(b, 40);
    for (int j = 0; j <= nb; j++)
        row[j] = j;
    for (int i = 1; i <= 40 && a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]);
            int best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = change < best ? change : best;
        }
    }
    return row[nb];
}

int config_find(const char *name, size_t n) {
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        if (strlen(config_options[i].name) == n && !strncmp(config_options[i].name, name, n))
            return i;
    return -1;
}

int config_find_letter(char letter) {
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        if (letter && config_options[i].letter == letter)
            return i;
    return -1;
}

const char *config_nearest(const char *name) {
    int best = 0;
    for (int i = 1; i < CONFIG_OPTIONS; i++)
        if (distance(name, config_options[i].name) < distance(name, config_options[best].name))
            best = i;
    return config_options[best].name;
}

static const char *const other_variables[] = {PROTOCOL_ENV_SOCKET, PROTOCOL_ENV_COOKIE, PROTOCOL_ENV_RANK, CONFIG_ENV_SHIM};
#define OTHER_VARIABLES (int)(sizeof(other_variables) / sizeof(*other_variables))

/* Is the variable known? Else *nearest is the known one that looks most like it. */
static bool variable_known(const char *name, const char **nearest) {
    int best = 1000;
    for (int i = 0; i < CONFIG_OPTIONS + OTHER_VARIABLES; i++) {
        const char *known = i < CONFIG_OPTIONS ? config_options[i].variable : other_variables[i - CONFIG_OPTIONS];
        if (!*known)
            continue;
        int d = distance(name, known);
        if (d == 0 && !strcmp(name, known))
            return true;
        if (d < best && i < CONFIG_OPTIONS) {
            best = d;
            *nearest = known;
        }
    }
    return false;
}

const char *config_unknown_variable(char *const *environment, char *name, const char **nearest) {
    for (; *environment; environment++) {
        size_t n = strcspn(*environment, "=");
        if (strncmp(*environment, CONFIG_VARIABLE_PREFIX, strlen(CONFIG_VARIABLE_PREFIX)) || n > 63)
            continue;
        if (!strncmp(*environment, CONFIG_VARIABLE_PREFIX "TEST_", 15) || !strncmp(*environment, CONFIG_VARIABLE_PREFIX "DEBUG_", 16))
            continue;
        memcpy(name, *environment, n);
        name[n] = 0;
        if (!variable_known(name, nearest))
            return name;
    }
    return NULL;
}

void config_print_help(FILE *out) {
    fputs("usage: accel-run [options] [--] program [arguments]\n\n"
          "Runs an unmodified libtorch training program as N ranks that together are the one-process run.\n\n",
          out);
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        const struct config_option *option = &config_options[i];
        char left[64];
        int n = option->letter ? snprintf(left, sizeof left, "  -%c, ", option->letter) : snprintf(left, sizeof left, "      ");
        snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", option->name, *option->argument ? " " : "", option->argument);
        fprintf(out, "%-34s %s", left, option->help);
        if (*option->argument && *option->initial)
            fprintf(out, " (%s)", option->initial);
        fputc('\n', out);
    }
    fputs("\nA value in an ACCEL_RUN_ variable (ACCEL_RUN_RANKS=4) comes before the default; the command line comes before both.\n"
          "Exit status: the first failing rank's, 128 + its signal, 125 accel-run itself, 126 not executable, 127 not found.\n",
          out);
}
