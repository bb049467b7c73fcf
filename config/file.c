#include "file.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct reader {
    struct config *config;
    const struct yaml *yaml;
    struct foreign *foreign;
    struct config_notes *notes;
    const char *path;
    char *fault;
};

static int fault_at(struct reader *reader, uint32_t line, uint32_t column, const char *what) {
    snprintf(reader->fault, CONFIG_FAULT_CHARS, "%.90s:%u:%u: %.140s", reader->path, line, column, what);
    return -1;
}

static int fault_of_value(struct reader *reader, const struct yaml_entry *entry, const char *what) {
    char text[CONFIG_FAULT_CHARS];
    snprintf(text, sizeof text, "%.60s: %.120s", entry->key, what);
    return fault_at(reader, entry->value_line, entry->value_column, text);
}

static int read_own(struct reader *reader, const struct yaml_entry *entry, enum config_id id) {
    char what[CONFIG_FAULT_CHARS];
    if (entry->kind != YAML_SCALAR)
        return fault_of_value(reader, entry, "one value is expected, not a list or dictionary");
    if (!entry->value)
        return 0;
    bool is_ours = reader->config->origin[id] <= CONFIG_FROM_FILE;
    if (config_set(reader->config, id, entry->value, CONFIG_FROM_FILE, entry->key, what))
        return fault_at(reader, entry->value_line, entry->value_column, what);
    if (is_ours) {
        reader->config->line[id] = entry->value_line;
        reader->config->column[id] = entry->value_column;
    }
    return 0;
}

static int read_foreign(struct reader *reader, const struct yaml_entry *entry, enum foreign_id id) {
    char what[CONFIG_FAULT_CHARS];
    enum foreign_type type = foreign_rows[id].type;
    const char *value = entry->value;
    if (entry->kind != YAML_SCALAR && entry->length) {
        if (type != FOREIGN_LIST && (type != FOREIGN_WORDS || entry->kind != YAML_LIST))
            return fault_of_value(reader, entry, "one value is expected, not a list or dictionary");
        value = "...";
    } else if (type == FOREIGN_LIST && value) {
        return fault_of_value(reader, entry, "a list is expected");
    }
    struct foreign_given given = {.id = id, .from_file = true, .line = entry->value_line, .column = entry->value_column, .value = value};
    if (foreign_give(reader->foreign, &given, reader->config, entry->key, what))
        return fault_at(reader, entry->value_line, entry->value_column, what);
    return 0;
}

static void note_unknown(struct reader *reader, const struct yaml_entry *entry, enum foreign_engine engine) {
    const char *nearest = foreign_nearest_key(engine, entry->key), *inside = foreign_dictionary(engine);
    char advice[80] = "";
    int option = engine == FOREIGN_NONE ? config_find(entry->key, strlen(entry->key)) : -1;
    if (option >= 0 && !*config_options[option].key)
        snprintf(advice, sizeof advice, "; it is for the command line only");
    else if (nearest)
        snprintf(advice, sizeof advice, "; did you mean '%s'?", nearest);
    else
        snprintf(advice, sizeof advice, "; remove it: 'accel-run --help all' lists the keys");
    config_note(reader->notes, CONFIG_WARNING, "AR-CONFIG-KEY", "%.120s:%u: nobody reads the key '%.60s'%s%s%s", reader->path, entry->line,
                entry->key, *inside ? " in " : "", inside, advice);
}

static int read_dictionary(struct reader *reader, uint32_t index, enum foreign_engine engine) {
    const struct yaml_entry *entries = reader->yaml->entries;
    if (entries[index].kind == YAML_SCALAR ? entries[index].value != NULL : entries[index].kind == YAML_LIST && entries[index].length)
        return fault_of_value(reader, &entries[index], "a dictionary is expected");
    for (uint32_t i = index + 1; i < reader->yaml->count; i++) {
        if (entries[i].parent != (int)index)
            continue;
        int id = foreign_find_key(engine, entries[i].key);
        if (id < 0)
            note_unknown(reader, &entries[i], engine);
        else if (read_foreign(reader, &entries[i], (enum foreign_id)id))
            return -1;
    }
    return 0;
}

static int read_entry(struct reader *reader, uint32_t index) {
    const struct yaml_entry *entry = &reader->yaml->entries[index];
    int own = config_find_key(entry->key), other = foreign_find_key(FOREIGN_NONE, entry->key);
    enum foreign_engine engine = foreign_find_dictionary(entry->key);
    if (own >= 0)
        return read_own(reader, entry, (enum config_id)own);
    if (engine != FOREIGN_NONE)
        return read_dictionary(reader, index, engine);
    if (other >= 0)
        return read_foreign(reader, entry, (enum foreign_id)other);
    note_unknown(reader, entry, FOREIGN_NONE);
    return 0;
}

/* ---- contradictions */

static const struct yaml_entry *find(const struct reader *reader, const char *dictionary, const char *key) {
    const struct yaml_entry *entries = reader->yaml->entries;
    for (uint32_t i = 0; i < reader->yaml->count; i++) {
        const char *parent = entries[i].parent < 0 ? "" : entries[entries[i].parent].key;
        if (!strcmp(parent, dictionary) && !strcmp(entries[i].key, key) && entries[i].value)
            return &entries[i];
    }
    return NULL;
}

static bool one_of(const char *value, const char *const *list) {
    for (; *list; list++)
        if (!strcasecmp(value, *list))
            return true;
    return false;
}

static long number_of(const struct yaml_entry *entry, long otherwise) {
    return entry ? strtol(entry->value, NULL, 10) : otherwise;
}

static bool is_true(const struct yaml_entry *entry) {
    return entry && config_truth(entry->value) == 1;
}

/* A key of ours and one of another launcher that sets the same option: one after the other would win, by its place in the file. */
static int check_twins(struct reader *reader) {
    for (int i = 0; i < FOREIGN_ROWS; i++) {
        const struct foreign_row *row = &foreign_rows[i];
        if (row->verdict != FOREIGN_WORKS || !(row->homes & FOREIGN_KEY) || row->engine != FOREIGN_NONE)
            continue;
        const char *key = config_options[row->target].key;
        const struct yaml_entry *theirs = find(reader, "", row->name), *ours = find(reader, "", key);
        const char *value = theirs && row->type == FOREIGN_SWITCH ? row->words : theirs ? theirs->value : NULL;
        char what[CONFIG_FAULT_CHARS];
        if (!theirs || !ours || foreign_is_plain((enum foreign_id)i, theirs->value) || !strcmp(value, ours->value))
            continue;
        snprintf(what, sizeof what, "'%s' in line %u says otherwise, and both mean the same", key, ours->line);
        return fault_of_value(reader, theirs, what);
    }
    return 0;
}

static int check_contradictions(struct reader *reader) {
    static const char *const alone[] = {"NO", "false", NULL};
    const struct yaml_entry *kind = find(reader, "", "distributed_type"), *processes = find(reader, "", "num_processes");
    const struct yaml_entry *cpu = find(reader, "", "use_cpu");
    const struct yaml_entry *machine = find(reader, "", "machine_rank"), *machines = find(reader, "", "num_machines");
    const struct yaml_entry *efficient = find(reader, "fsdp_config", "fsdp_cpu_ram_efficient_loading");
    const struct yaml_entry *synchronised = find(reader, "fsdp_config", "fsdp_sync_module_states");
    const struct yaml_entry *version = find(reader, "fsdp_config", "fsdp_version");
    if (kind && one_of(kind->value, alone) && number_of(processes, 1) > 1)
        return fault_of_value(reader, processes, "several processes, but distributed_type is NO; MULTI_CPU or MULTI_GPU is several");
    if (kind && is_true(cpu) && !strncasecmp(kind->value, "MULTI_", 6) && strcasecmp(kind->value, "MULTI_CPU") != 0)
        return fault_of_value(reader, cpu, "the CPU, but distributed_type names another device");
    if (number_of(machine, 0) > 0 && number_of(machine, 0) >= number_of(machines, 1))
        return fault_of_value(reader, machine, "not below num_machines (the first machine is 0)");
    if (kind && !strcasecmp(kind->value, "FSDP") && number_of(version, 1) == 1 && is_true(efficient) && synchronised &&
        !is_true(synchronised))
        return fault_of_value(reader, synchronised, "fsdp_cpu_ram_efficient_loading needs it to be true");
    return 0;
}

int config_read_file(struct config *config, const struct yaml *yaml, const char *path, struct foreign *foreign, struct config_notes *notes,
                     char *fault) {
    struct reader reader = {config, yaml, foreign, notes, path, fault};
    config->file = path;
    for (uint32_t i = 0; i < yaml->count; i++)
        if (yaml->entries[i].parent < 0 && read_entry(&reader, i))
            return -1;
    return check_twins(&reader) || check_contradictions(&reader) ? -1 : 0;
}
