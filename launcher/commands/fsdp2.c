#include "fsdp2.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LINES "the keys of fsdp_config do not stand each on a line of its own"

static const char *without_prefix(const char *key) {
    return strncmp(key, "fsdp_", 5) ? key : key + 5;
}

/* Version 2 has no such settings. */
static bool is_dropped(const char *name) {
    static const char *const dropped[] = {"backward_prefetch",  "backward_prefetch_policy", "forward_prefetch",
                                          "sync_module_states", "use_orig_params",          "version"};
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
        if (!strcmp(name, dropped[i]))
            return true;
    return false;
}

static bool is_strategy_name(const char *name) {
    return !strcmp(name, "sharding_strategy") || !strcmp(name, "reshard_after_forward");
}

/* Strategies that free the gathered parameters after the forward pass: by name, or by the number that old files have. */
static bool reshards(const char *strategy) {
    static const char *const yes[] = {"FULL_SHARD", "HYBRID_SHARD", "1", "4", "true", "True"};
    for (size_t i = 0; strategy && i < sizeof yes / sizeof *yes; i++)
        if (!strcmp(strategy, yes[i]))
            return true;
    return false;
}

static const struct yaml_entry *entry_at(const struct yaml *yaml, int parent, uint32_t line) {
    for (uint32_t i = 0; i < yaml->count; i++)
        if (yaml->entries[i].parent == parent && yaml->entries[i].line == line)
            return &yaml->entries[i];
    return NULL;
}

static int refuse(struct problem *problem, const char *path, const char *what) {
    return problem_set(problem, EXIT_LAUNCHER, "AR-CONFIG",
                       "'accel-run config to-fsdp2' converts files of Accelerate for FSDP of version 1", "%s: %s", path, what);
}

/* Index of fsdp_config, or -1 with the problem. */
static int find(const struct yaml *yaml, const char *path, struct problem *problem) {
    int found = -1;
    for (uint32_t i = 0; i < yaml->count; i++)
        if (yaml->entries[i].parent < 0 && !strcmp(yaml->entries[i].key, "fsdp_config") && yaml->entries[i].length)
            found = (int)i;
    if (found < 0 || yaml->entries[found].kind != YAML_DICTIONARY)
        return refuse(problem, path, "there is no fsdp_config in it");
    if (yaml->entries[found].is_flow)
        return refuse(problem, path, "its fsdp_config is in braces, as in JSON: lines 'key: value' are converted");
    uint32_t last = yaml->entries[found].line;
    for (uint32_t i = 0; i < yaml->count; i++) {
        const struct yaml_entry *entry = &yaml->entries[i];
        if (entry->parent != found)
            continue;
        if (entry->line == last || entry->value_line != entry->line)
            return refuse(problem, path, LINES);
        last = entry->line;
        if (!strcmp(without_prefix(entry->key), "version") && entry->value && !strcmp(entry->value, "2"))
            return refuse(problem, path, "it is of version 2 already");
    }
    return found;
}

/* Of version 1, the strategy stands under either name (1.6 and later write it as reshard_after_forward); the first counts. */
static bool is_strategy(const struct yaml *yaml, const struct yaml_entry *entry) {
    for (const struct yaml_entry *other = yaml->entries; other < entry; other++)
        if (other->parent == entry->parent && is_strategy_name(without_prefix(other->key)))
            return false;
    return is_strategy_name(without_prefix(entry->key));
}

static bool is_kept(const struct yaml *yaml, const struct yaml_entry *entry) {
    const char *name = without_prefix(entry->key);
    return is_strategy(yaml, entry) || (!is_dropped(name) && !is_strategy_name(name));
}

static void convert_line(const struct yaml *yaml, const struct yaml_entry *entry, const char *line, int n, FILE *out) {
    if (is_strategy(yaml, entry))
        fprintf(out, "%*sfsdp_reshard_after_forward: %s\n", (int)entry->column - 1, "", reshards(entry->value) ? "true" : "false");
    else if (is_kept(yaml, entry))
        fprintf(out, "%.*s\n", n, line);
}

static void convert(const char *text, const struct yaml *yaml, int index, FILE *out) {
    int indent = (int)yaml->entries[index + 1].column - 1;
    uint32_t number = 1;
    for (const char *line = text; *line; number++) {
        int n = (int)strcspn(line, "\n");
        const struct yaml_entry *entry = entry_at(yaml, index, number);
        if (entry)
            convert_line(yaml, entry, line, n, out);
        else
            fprintf(out, "%.*s\n", n, line);
        if (number == yaml->entries[index].line)
            fprintf(out, "%*sfsdp_version: 2\n", indent, "");
        line += n + (line[n] == '\n');
    }
}

/* Is the new text a file with version 2, and all that was to be kept? What stands behind an anchor, for one, is elsewhere. */
static bool is_right(const char *text, const struct yaml *old, int index) {
    struct yaml yaml;
    char fault[YAML_FAULT_CHARS];
    uint32_t expected = old->count + 1, versions = 0;
    for (uint32_t i = 0; i < old->count; i++)
        expected -= old->entries[i].parent == index && !is_kept(old, &old->entries[i]);
    if (yaml_read(&yaml, text, strlen(text), fault))
        return false;
    for (uint32_t i = 0; i < yaml.count; i++) {
        const struct yaml_entry *entry = &yaml.entries[i], *parent = entry->parent < 0 ? NULL : &yaml.entries[entry->parent];
        versions += parent && parent->parent < 0 && !strcmp(parent->key, "fsdp_config") && !strcmp(entry->key, "fsdp_version");
    }
    bool is_whole = yaml.count == expected && versions == 1;
    yaml_clear(&yaml);
    return is_whole;
}

int fsdp2_convert(const char *text, const struct yaml *yaml, const char *path, FILE *out, struct problem *problem) {
    int index = find(yaml, path, problem);
    if (index < 0)
        return -1;
    char *converted = NULL;
    size_t bytes;
    FILE *memory = open_memstream(&converted, &bytes);
    if (memory)
        convert(text, yaml, index, memory);
    if (!memory || fclose(memory)) {
        free(converted);
        return problem_set(problem, EXIT_LAUNCHER, "AR-MEMORY", "free some memory", "out of memory");
    }
    int status = is_right(converted, yaml, index) ? 0 : refuse(problem, path, LINES);
    if (!status)
        fputs(converted, out);
    free(converted);
    return status;
}
