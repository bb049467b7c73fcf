#include "foreign.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LAUNCH FOREIGN_LAUNCH
#define TORCHRUN FOREIGN_TORCHRUN
#define KEY FOREIGN_KEY
#define CONFIG_ID_none CONFIG_OPTIONS
const struct foreign_row foreign_rows[FOREIGN_ROWS] = {
#define FOREIGN(name, letter, homes, engine, type, plain, verdict, target, values, words)                                                  \
    {#name, letter, homes, FOREIGN_##engine, FOREIGN_##type, plain, FOREIGN_##verdict, CONFIG_ID_##target, values, words},
#include "foreign.def"
#undef FOREIGN
};

static const struct engine {
    const char *dictionary, *prefix; /* of its keys in a file */
} engines[FOREIGN_ENGINES] = {
    [FOREIGN_NONE] = {"", ""},
    [FOREIGN_DEEPSPEED] = {"deepspeed_config", ""},
    [FOREIGN_FSDP] = {"fsdp_config", "fsdp_"},
    [FOREIGN_MEGATRON] = {"megatron_lm_config", "megatron_lm_"},
    [FOREIGN_FP8] = {"fp8_config", "fp8_"},
    [FOREIGN_DYNAMO] = {"dynamo_config", "dynamo_"},
    [FOREIGN_PARALLELISM] = {"parallelism_config", "parallelism_config_"},
    [FOREIGN_MPIRUN] = {"mpirun_config", "mpirun_"},
    [FOREIGN_IPEX] = {"ipex_config", ""},
    [FOREIGN_TP] = {"tp_config", ""},
    [FOREIGN_TPU] = {"", ""},
    [FOREIGN_SAGEMAKER] = {"", ""},
};

static bool name_is(const char *known, const char *name, size_t n) {
    if (strlen(known) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (known[i] != (name[i] == '-' ? '_' : name[i]))
            return false;
    return true;
}

int foreign_find_flag(const char *name, size_t n) {
    for (int i = 0; i < FOREIGN_ROWS; i++)
        if (foreign_rows[i].homes & (FOREIGN_LAUNCH | FOREIGN_TORCHRUN) && name_is(foreign_rows[i].name, name, n))
            return i;
    return -1;
}

int foreign_find_letter(char letter) {
    for (int i = 0; i < FOREIGN_ROWS; i++)
        if (letter && foreign_rows[i].letter == letter)
            return i;
    return -1;
}

const char *foreign_dictionary(enum foreign_engine engine) {
    return engines[engine].dictionary;
}

enum foreign_engine foreign_find_dictionary(const char *key) {
    for (int i = 0; i < FOREIGN_ENGINES; i++)
        if (*engines[i].dictionary && !strcmp(engines[i].dictionary, key))
            return (enum foreign_engine)i;
    return FOREIGN_NONE;
}

/* Can the row stand in this dictionary? At the top stand the keys without one; 0.15 had dynamo_backend there, 0.20 to 1.5 use_xpu in ipex_config, too. */
static bool stands_in(int row, enum foreign_engine engine) {
    if (!(foreign_rows[row].homes & FOREIGN_KEY))
        return false;
    if (engine == FOREIGN_NONE)
        return !*engines[foreign_rows[row].engine].dictionary || row == FOREIGN_ID_dynamo_backend;
    return foreign_rows[row].engine == engine || (engine == FOREIGN_IPEX && row == FOREIGN_ID_use_xpu);
}

int foreign_find_key(enum foreign_engine engine, const char *key) {
    size_t prefix = strlen(engines[engine].prefix);
    for (int i = 0; i < FOREIGN_ROWS; i++) {
        if (!stands_in(i, engine))
            continue;
        const char *name = foreign_rows[i].name;
        if (!strcmp(name, key) || (prefix && !strncmp(name, engines[engine].prefix, prefix) && !strcmp(name + prefix, key)))
            return i;
    }
    return -1;
}

const char *foreign_nearest_key(enum foreign_engine engine, const char *key) {
    const char *best = NULL;
    int least = 1000;
    for (int i = 0; i < FOREIGN_ROWS; i++) {
        int d = stands_in(i, engine) ? config_distance(key, foreign_rows[i].name) : 1000;
        if (d < least) {
            least = d;
            best = foreign_rows[i].name;
        }
    }
    for (int i = 0; engine == FOREIGN_NONE && i < CONFIG_OPTIONS; i++) {
        int d = *config_options[i].key ? config_distance(key, config_options[i].key) : 1000;
        if (d <= least) {
            least = d;
            best = config_options[i].key;
        }
    }
    return best && config_is_near(key, best) ? best : NULL;
}

/* The only flag that begins so, as Python's argparse takes it; NULL: none or several. */
static const char *flag_that_begins(const char *name) {
    size_t n = strlen(name);
    const char *found = NULL;
    int count = 0;
    for (int i = 0; n > 3 && i < FOREIGN_ROWS; i++) {
        size_t k = 0;
        while (k < n && foreign_rows[i].name[k] == (name[k] == '-' ? '_' : name[k]))
            k++;
        if (k == n && foreign_rows[i].homes & (FOREIGN_LAUNCH | FOREIGN_TORCHRUN) && ++count)
            found = foreign_rows[i].name;
    }
    return count == 1 ? found : NULL;
}

const char *foreign_nearest_flag(const char *name) {
    const char *best = config_nearest(name), *longer = flag_that_begins(name);
    for (int i = 0; i < FOREIGN_ROWS; i++)
        if (foreign_rows[i].homes & (FOREIGN_LAUNCH | FOREIGN_TORCHRUN) &&
            config_distance(name, foreign_rows[i].name) < config_distance(name, best))
            best = foreign_rows[i].name;
    return config_is_near(name, best) ? best : longer;
}

static bool is_number(const char *text, bool whole) {
    char *end;
    double number = strtod(text, &end);
    return end != text && !*end && number == number && (!whole || (number > -1e15 && number < 1e15 && number == (double)(long long)number));
}

/* Is it one of the words between '|'? Case does not matter. */
static bool is_listed(const char *list, const char *value) {
    size_t length = strlen(value);
    for (size_t n; *list; list += n + (list[n] == '|')) {
        n = strcspn(list, "|");
        if (n == length && !strncasecmp(list, value, n))
            return true;
    }
    return false;
}

/* "one of a, b, c", cut where it gets long. */
static const char *list_of(const char *values) {
    static _Thread_local char text[128];
    size_t n = (size_t)snprintf(text, sizeof text, "one of ");
    for (const char *sign = values; *sign; sign++) {
        if (*sign == '|' && n > sizeof text - 40) {
            snprintf(text + n, sizeof text - n, "...");
            break;
        }
        n += (size_t)snprintf(text + n, sizeof text - n, *sign == '|' ? ", " : "%c", *sign);
    }
    return text;
}

/* What a value must be, when it is not; of what sets an option of ours, the option tells (config_set). */
static const char *fault_of(enum foreign_id id, const char *value) {
    const struct foreign_row *row = &foreign_rows[id];
    bool is_number_type = row->type == FOREIGN_INTEGER || row->type == FOREIGN_NUMBER;
    if ((row->type == FOREIGN_SWITCH || row->type == FOREIGN_BOOL) && config_truth(value) < 0)
        return "yes or no";
    if (row->type == FOREIGN_INTEGER && !is_number(value, true))
        return "a whole number";
    if (row->type == FOREIGN_NUMBER && !is_number(value, false) && strcmp(value, "auto") != 0)
        return "a number";
    if (is_number_type && row->verdict != FOREIGN_WORKS && row->engine != FOREIGN_FP8 && strtod(value, NULL) < 0)
        return "0 or more";
    if (!*row->values || is_listed(row->values, value) || foreign_is_plain(id, value) || !strcasecmp(value, "none"))
        return NULL;
    return list_of(row->values);
}

bool foreign_is_plain(enum foreign_id id, const char *value) {
    const struct foreign_row *row = &foreign_rows[id];
    if (!value)
        return true;
    bool is_truth = row->type == FOREIGN_SWITCH || row->type == FOREIGN_BOOL;
    if (is_listed(row->plain, !is_truth ? value : config_truth(value) == 1 ? "yes" : "no"))
        return true;
    return row->type == FOREIGN_WORDS && row->homes & FOREIGN_KEY && !strcasecmp(value, "none");
}

int foreign_give(struct foreign *foreign, const struct foreign_given *given, struct config *config, const char *shown, char *fault) {
    const struct foreign_row *row = &foreign_rows[given->id];
    const char *expected = given->value ? fault_of(given->id, given->value) : NULL;
    if (expected) {
        snprintf(fault, CONFIG_FAULT_CHARS, "%s: '%.80s' is not %s", shown, given->value, expected);
        return -1;
    }
    if (foreign->count == FOREIGN_GIVEN_MAX) {
        snprintf(fault, CONFIG_FAULT_CHARS, "%s: more settings than accel-run reads", shown);
        return -1;
    }
    foreign->given[foreign->count++] = *given;
    config->asks_for_cpu |=
        given->id == FOREIGN_ID_cpu || (given->id == FOREIGN_ID_use_cpu && given->value && config_truth(given->value) == 1);
    if (row->verdict != FOREIGN_WORKS)
        return 0;
    /* What asks for nothing is not a setting, but typed it is stronger than a file's. */
    if (foreign_is_plain(given->id, given->value) && (given->from_file || strcmp(given->value, config_options[row->target].initial) != 0))
        return 0;
    bool is_counted = given->id == FOREIGN_ID_nproc_per_node && (!strcmp(given->value, "auto") || !strcmp(given->value, "cpu"));
    const char *value = row->type == FOREIGN_SWITCH ? row->words : is_counted ? "1" : given->value;
    enum config_origin origin = given->from_file ? CONFIG_FROM_FILE : CONFIG_FROM_COMMAND_LINE;
    bool is_ours = origin >= config->origin[row->target];
    if (config_set(config, (enum config_id)row->target, value, origin, shown, fault)) {
        size_t n = strlen(fault);
        if (*row->words && row->type != FOREIGN_SWITCH)
            snprintf(fault + n, CONFIG_FAULT_CHARS - n, "; %s", row->words);
        return -1;
    }
    if (!is_ours)
        return 0;
    config->line[row->target] = given->line;
    config->column[row->target] = given->column;
    config->ranks_are_total = given->id == FOREIGN_ID_num_processes || (config->ranks_are_total && row->target != CONFIG_ID_ranks);
    config->node_rank_is_theirs |= given->id == FOREIGN_ID_machine_rank;
    config->ranks_are_cores = is_counted || (config->ranks_are_cores && row->target != CONFIG_ID_ranks);
    return 0;
}
