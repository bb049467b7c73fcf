#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "board.h"
#include "config.h"

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const engine_names[] = {"auto", "none"};
static const char *const topic_names[] = {"no", "brief", "all", "flags", "markdown", "keys"};
/* The words of torchrun's --numa-binding behind our own: node, socket, exclusive, core-complex. */
static const char *const bind_names[] = {"none", "auto", "core", "cache", "numa", "socket", "exclusive", "core-complex", "node"};
static const enum config_bind bind_values[] = {CONFIG_BIND_NONE,   CONFIG_BIND_AUTO, CONFIG_BIND_CORE,  CONFIG_BIND_CACHE, CONFIG_BIND_NUMA,
                                               CONFIG_BIND_SOCKET, CONFIG_BIND_CORE, CONFIG_BIND_CACHE, CONFIG_BIND_NUMA};
#define NAMES(list) list, sizeof(list) / sizeof(*(list))

static int fault_set(char *fault, const char *shown, const char *text, const char *expected) {
    snprintf(fault, CONFIG_FAULT_CHARS, "%s: '%.80s' is not %s", shown, text, expected);
    return -1;
}

static int read_whole(uint32_t *value, const char *text, long least, long most) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || end == text || *end || number < least || number > most)
        return -1;
    *value = (uint32_t)number;
    return 0;
}

/* "2", and torchrun's "2:2"; not "1:4": the number cannot change during the run. */
static int read_nodes(uint32_t *value, const char *text) {
    const char *colon = strchr(text, ':');
    char least[8] = "";
    if (!colon)
        return read_whole(value, text, 1, BOARD_RANKS_MAX);
    if ((size_t)(colon - text) < sizeof least)
        memcpy(least, text, (size_t)(colon - text));
    return read_whole(value, least, 1, BOARD_RANKS_MAX) || strcmp(least, colon + 1) ? -1 : 0;
}

static int read_seconds(uint32_t *milliseconds, const char *text) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= 0) || number > 4000000)
        return -1;
    *milliseconds = (uint32_t)(number * 1000 + 0.5);
    return 0;
}

static int read_name(uint32_t *value, const char *text, const char *const *names, size_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(text, names[i])) {
            *value = i;
            return 0;
        }
    return -1;
}

int config_truth(const char *text) {
    static const char *const yes[] = {"1", "yes", "y", "true", "t", "on"}, *const no[] = {"0", "no", "n", "false", "f", "off"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (!strcasecmp(text, yes[i]))
            return 1;
        if (!strcasecmp(text, no[i]))
            return 0;
    }
    return -1;
}

static int read_bind(uint32_t *value, const char *text) {
    uint32_t word;
    if (read_name(&word, text, NAMES(bind_names)))
        return -1;
    *value = bind_values[word];
    return 0;
}

static int read_flag(bool *value, const char *text) {
    int truth = *text ? config_truth(text) : 0;
    *value = truth == 1;
    return truth < 0 ? -1 : 0;
}

/* One member of struct config, by the type of its row. */
union value {
    uint32_t number;
    bool flag;
    const char *text;
};

static int read_value(union value *value, enum config_type type, const char *text, const char **expected) {
    switch (type) {
    case CONFIG_COUNT:
        *expected = "a whole number from 1 to 256";
        return read_whole(&value->number, text, 1, BOARD_RANKS_MAX);
    case CONFIG_AMOUNT:
        *expected = "a whole number from 0 to 1024";
        return read_whole(&value->number, text, 0, 1024);
    case CONFIG_SECONDS:
        *expected = "a number of seconds";
        return read_seconds(&value->number, text);
    case CONFIG_FLAG:
        *expected = "yes or no, true or false, 1 or 0";
        return read_flag(&value->flag, text);
    case CONFIG_LEVEL:
        *expected = "one of error, warn, info, debug";
        return read_name(&value->number, text, NAMES(level_names));
    case CONFIG_NODES:
        *expected = "a whole number from 1 to 256 (the number of hosts is fixed)";
        return read_nodes(&value->number, text);
    case CONFIG_PORT:
        *expected = "a port, a whole number from 1 to 65535";
        return read_whole(&value->number, text, 1, 65535);
    case CONFIG_BIND:
        *expected = "one of none, auto, core, cache, numa, socket";
        return read_bind(&value->number, text);
    case CONFIG_ENGINE:
        *expected = "one of auto, none";
        return read_name(&value->number, text, NAMES(engine_names));
    case CONFIG_TOPIC:
        *expected = "a topic of the help (all, flags, brief), nor a subcommand";
        return read_name(&value->number, text, NAMES(topic_names));
    case CONFIG_TEXT:
        value->text = text;
    }
    return 0;
}

static void store(struct config *config, enum config_id id, union value value) {
    void *field = (char *)config + config_options[id].offset;
    if (config_options[id].type == CONFIG_TEXT)
        *(const char **)field = value.text;
    else if (config_options[id].type == CONFIG_FLAG)
        *(bool *)field = value.flag;
    else
        *(uint32_t *)field = value.number;
}

int config_set(struct config *config, enum config_id id, const char *text, enum config_origin origin, const char *shown, char *fault) {
    union value value = {.text = NULL};
    const char *expected;
    if (read_value(&value, config_options[id].type, text, &expected))
        return fault_set(fault, shown, text, expected);
    bool is_wait = id == CONFIG_ID_collective_timeout_ms || id == CONFIG_ID_host_timeout_ms || id == CONFIG_ID_start_timeout_ms;
    if (is_wait && !value.number)
        return fault_set(fault, shown, text, "a number of seconds above 0 (a thousandth at least)");
    if (config_options[id].type == CONFIG_TEXT && !*text && origin == CONFIG_FROM_COMMAND_LINE) /* of "$FOLDER", which is not set */
        return fault_set(fault, shown, text, "a name: it is empty");
    if (id == CONFIG_ID_log_dir && *text == '~') /* of a file, or --log-dir=~/logs: a folder of that name would be made here */
        return fault_set(fault, shown, text, "a folder: only a shell knows '~'; write the whole path (./~ for that name)");
    if (origin < config->origin[id])
        return 0;
    store(config, id, value);
    if (id == CONFIG_ID_ranks)
        config->ranks_are_total = config->ranks_are_cores = false; /* foreign.c knows when they are */
    config->origin[id] = origin;
    return 0;
}

void config_defaults(struct config *config) {
    char fault[CONFIG_FAULT_CHARS];
    memset(config, 0, sizeof *config);
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        config_set(config, (enum config_id)i, config_options[i].initial, CONFIG_FROM_DEFAULT, config_options[i].name, fault);
}

const char *config_bind_name(enum config_bind bind) {
    return bind_names[bind];
}

void config_text(const struct config *config, enum config_id id, char *text, size_t size) {
    const void *field = (const char *)config + config_options[id].offset;
    switch (config_options[id].type) {
    case CONFIG_COUNT:
        if (id == CONFIG_ID_ranks && config->ranks_are_cores)
            snprintf(text, size, "auto");
        else
            snprintf(text, size, "%u", *(const uint32_t *)field);
        return;
    case CONFIG_AMOUNT:
    case CONFIG_NODES:
    case CONFIG_PORT:
        snprintf(text, size, "%u", *(const uint32_t *)field);
        return;
    case CONFIG_SECONDS:
        snprintf(text, size, "%.10g", *(const uint32_t *)field / 1000.0);
        return;
    case CONFIG_FLAG:
        snprintf(text, size, "%s", *(const bool *)field ? "true" : "false");
        return;
    case CONFIG_LEVEL:
        snprintf(text, size, "%s", level_names[*(const uint32_t *)field]);
        return;
    case CONFIG_BIND:
        snprintf(text, size, "%s", bind_names[*(const uint32_t *)field]);
        return;
    case CONFIG_ENGINE:
        snprintf(text, size, "%s", engine_names[*(const uint32_t *)field]);
        return;
    case CONFIG_TOPIC:
        snprintf(text, size, "%s", topic_names[*(const uint32_t *)field]);
        return;
    case CONFIG_TEXT:
        snprintf(text, size, "%s", *(const char *const *)field);
    }
}
