#include "fsdp2.h"

#include <stdbool.h>
#include <string.h>

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
    uint32_t last = yaml->entries[found].line;
    for (uint32_t i = 0; i < yaml->count; i++) {
        const struct yaml_entry *entry = &yaml->entries[i];
        if (entry->parent != found)
            continue;
        if (entry->line == last || entry->value_line != entry->line)
            return refuse(problem, path, "the keys of fsdp_config do not stand each on a line of its own");
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

static void convert_line(const struct yaml *yaml, const struct yaml_entry *entry, const char *line, int n, FILE *out) {
    const char *name = without_prefix(entry->key);
    if (is_strategy(yaml, entry))
        fprintf(out, "%*sfsdp_reshard_after_forward: %s\n", (int)entry->column - 1, "", reshards(entry->value) ? "true" : "false");
    else if (!is_dropped(name) && !is_strategy_name(name))
        fprintf(out, "%.*s\n", n, line);
}

int fsdp2_convert(const char *text, const struct yaml *yaml, const char *path, FILE *out, struct problem *problem) {
    int index = find(yaml, path, problem);
    if (index < 0)
        return -1;
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
    return 0;
}
