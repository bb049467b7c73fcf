/*
 * The text of a YAML (or JSON) file → a flat list of its keys and values, with their places. Knows no setting. The only user of libyaml.
 *
 * A file is one dictionary; values are scalars, lists, or dictionaries one or more levels down. Aliases are followed; what grows beyond YAML_ENTRIES_MAX
 * entries, YAML_DEPTH_MAX or YAML_NESTED_MAX levels is refused, so that no file costs more than a moment.
 */
#ifndef ACCEL_RUN_CONFIG_YAML_H
#define ACCEL_RUN_CONFIG_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YAML_BYTES_MAX (1u << 20)
#define YAML_ENTRIES_MAX 2000
#define YAML_DEPTH_MAX 8   /* of dictionaries, behind aliases, too */
#define YAML_NESTED_MAX 64 /* as written, lists included */
#define YAML_FAULT_CHARS 256

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_DICTIONARY };

struct yaml_entry {
    int parent; /* index of the dictionary it stands in; -1: at the top */
    enum yaml_kind kind;
    char *key;                                       /* owned by the list */
    char *value;                                     /* owned; of scalars. NULL: null, and where it is no scalar */
    uint32_t length;                                 /* of a list or dictionary: items */
    bool is_flow;                                    /* a dictionary in braces */
    uint32_t line, column, value_line, value_column; /* from 1 */
};

struct yaml {
    struct yaml_entry *entries; /* owned */
    uint32_t count;
};

/* Returns 0, or -1 with "LINE:COLUMN: what is wrong" in fault[YAML_FAULT_CHARS] and an empty list. The caller clears. An empty file is an
   empty list. After a dictionary of some length comes its first entry. */
int yaml_read(struct yaml *yaml, const char *text, size_t bytes, char *fault);
void yaml_clear(struct yaml *yaml);

#endif
