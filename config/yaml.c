#include "yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct reader {
    struct yaml *yaml;
    const char *text;
    yaml_document_t document;
    char *fault;
};

static int fault_at(char *fault, yaml_mark_t mark, const char *what) {
    snprintf(fault, YAML_FAULT_CHARS, "%zu:%zu: %s", mark.line + 1, mark.column + 1, what);
    return -1;
}

/* Where a byte is: its reader, which looks ahead, says no line. */
static yaml_mark_t mark_at(const char *text, size_t offset) {
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < offset; i++) {
        mark.column = text[i] == '\n' ? 0 : mark.column + 1;
        mark.line += text[i] == '\n';
    }
    return mark;
}

/* What libyaml says, in "what" and "while doing what". */
static int fault_of_parser(const yaml_parser_t *parser, const char *text, char *fault) {
    char what[160];
    yaml_mark_t mark = parser->problem_mark;
    if (parser->error == YAML_READER_ERROR)
        mark = mark_at(text, parser->problem_offset);
    if (parser->problem && strstr(parser->problem, "cannot start any token"))
        return fault_at(fault, mark, "no value begins with this sign (a tab? YAML takes blanks only)");
    snprintf(what, sizeof what, "%s%s%s", parser->problem ? parser->problem : "not YAML", parser->context ? ", " : "",
             parser->context ? parser->context : "");
    return fault_at(fault, mark, what);
}

/* YAML 1.1, as PyYAML has it. */
static bool is_null(const yaml_node_t *node) {
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
        if (!strcmp((const char *)node->data.scalar.value, nulls[i]))
            return true;
    return false;
}

static int add_entry(struct reader *reader, const yaml_node_t *key, const yaml_node_t *value, int parent) {
    struct yaml *yaml = reader->yaml;
    if (yaml->count == YAML_ENTRIES_MAX)
        return fault_at(reader->fault, key->start_mark, "too many keys");
    if (yaml->count % 64 == 0) {
        struct yaml_entry *grown = realloc(yaml->entries, (yaml->count + 64) * sizeof *grown);
        if (!grown)
            return fault_at(reader->fault, key->start_mark, "out of memory");
        yaml->entries = grown;
    }
    struct yaml_entry *entry = &yaml->entries[yaml->count++];
    *entry = (struct yaml_entry){
        .parent = parent,
        .line = (uint32_t)key->start_mark.line + 1,
        .column = (uint32_t)key->start_mark.column + 1,
        .value_line = (uint32_t)value->start_mark.line + 1,
        .value_column = (uint32_t)value->start_mark.column + 1,
        .key = strdup((const char *)key->data.scalar.value),
    };
    if (value->type == YAML_SCALAR_NODE) {
        entry->kind = YAML_SCALAR;
        entry->value = is_null(value) ? NULL : strdup((const char *)value->data.scalar.value);
    } else if (value->type == YAML_SEQUENCE_NODE) {
        entry->kind = YAML_LIST;
        entry->length = (uint32_t)(value->data.sequence.items.top - value->data.sequence.items.start);
    } else {
        entry->kind = YAML_DICTIONARY;
        entry->is_flow = value->data.mapping.style == YAML_FLOW_MAPPING_STYLE;
        entry->length = (uint32_t)(value->data.mapping.pairs.top - value->data.mapping.pairs.start);
    }
    return entry->key && (entry->value || entry->kind != YAML_SCALAR || is_null(value))
               ? 0
               : fault_at(reader->fault, key->start_mark, "out of memory");
}

/* A key twice: the same value is no harm (Accelerate's own test files have it), another one is. */
static int check_twice(struct reader *reader, const yaml_node_t *key) {
    const struct yaml_entry *last = &reader->yaml->entries[reader->yaml->count - 1];
    char what[160];
    for (const struct yaml_entry *entry = reader->yaml->entries; entry < last; entry++) {
        if (entry->parent != last->parent || strcmp(entry->key, last->key))
            continue;
        bool same = entry->kind == YAML_SCALAR && last->kind == YAML_SCALAR && !entry->value == !last->value;
        if (same && (!entry->value || !strcmp(entry->value, last->value)))
            continue;
        snprintf(what, sizeof what, "'%.60s' was given another value in line %u", last->key, entry->line);
        return fault_at(reader->fault, key->start_mark, what);
    }
    return 0;
}

static int walk(struct reader *reader, const yaml_node_t *mapping, int parent, int depth) {
    if (depth > YAML_DEPTH_MAX)
        return fault_at(reader->fault, mapping->start_mark, "dictionaries too deep in one another");
    for (const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start; pair < mapping->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(&reader->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(&reader->document, pair->value);
        if (key->type != YAML_SCALAR_NODE)
            return fault_at(reader->fault, key->start_mark, "a key that is not a word");
        if (memchr(key->data.scalar.value, 0, key->data.scalar.length) ||
            (value->type == YAML_SCALAR_NODE && memchr(value->data.scalar.value, 0, value->data.scalar.length)))
            return fault_at(reader->fault, value->start_mark, "a zero byte in a text");
        if (!strcmp((const char *)key->data.scalar.value, "<<") && key->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
            return fault_at(reader->fault, key->start_mark,
                            "'<<' takes over the keys of another dictionary, which is not done here: write them out");
        if (add_entry(reader, key, value, parent) || check_twice(reader, key))
            return -1;
        if (value->type == YAML_MAPPING_NODE && walk(reader, value, (int)reader->yaml->count - 1, depth + 1))
            return -1;
    }
    return 0;
}

static int walk_document(struct reader *reader) {
    const yaml_node_t *root = yaml_document_get_root_node(&reader->document);
    if (!root || (root->type == YAML_SCALAR_NODE && is_null(root)))
        return 0;
    if (root->type != YAML_MAPPING_NODE)
        return fault_at(reader->fault, root->start_mark, "not a dictionary: lines 'key: value' are expected");
    return walk(reader, root, -1, 1);
}

/* A second document would not be read by Accelerate either, but refused. */
static int expect_end(struct reader *reader, yaml_parser_t *parser) {
    yaml_document_t second;
    if (!yaml_parser_load(parser, &second))
        return fault_of_parser(parser, reader->text, reader->fault);
    const yaml_node_t *root = yaml_document_get_root_node(&second);
    int status = root ? fault_at(reader->fault, root->start_mark, "a second document") : 0;
    yaml_document_delete(&second);
    return status;
}

/* Its scanner and loader take a time that grows with the square of the depth: minutes for a file of brackets. */
static int check_depth(struct reader *reader, yaml_parser_t *parser) {
    int depth = 0, status = 0;
    for (bool ends = false; !ends && !status;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return fault_of_parser(parser, reader->text, reader->fault);
        depth += event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
        depth -= event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        ends = event.type == YAML_STREAM_END_EVENT;
        if (depth > YAML_NESTED_MAX)
            status = fault_at(reader->fault, event.start_mark, "lists or dictionaries too deep in one another");
        yaml_event_delete(&event);
    }
    return status;
}

static int read_document(struct reader *reader, yaml_parser_t *parser) {
    if (!yaml_parser_load(parser, &reader->document))
        return fault_of_parser(parser, reader->text, reader->fault);
    int status = walk_document(reader);
    if (status == 0)
        status = expect_end(reader, parser);
    yaml_document_delete(&reader->document);
    return status;
}

/* One pass over the text, with a parser of its own. */
static int pass(struct reader *reader, size_t bytes, int (*step)(struct reader *, yaml_parser_t *)) {
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        snprintf(reader->fault, YAML_FAULT_CHARS, "1:1: out of memory");
        return -1;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)reader->text, bytes);
    int status = step(reader, &parser);
    yaml_parser_delete(&parser);
    return status;
}

int yaml_read(struct yaml *yaml, const char *text, size_t bytes, char *fault) {
    struct reader reader = {.yaml = yaml, .text = text, .fault = fault};
    *yaml = (struct yaml){0};
    if (bytes > YAML_BYTES_MAX) {
        snprintf(fault, YAML_FAULT_CHARS, "1:1: longer than 1 MiB");
        return -1;
    }
    int status = pass(&reader, bytes, check_depth) || pass(&reader, bytes, read_document) ? -1 : 0;
    if (status)
        yaml_clear(yaml); /* half a list would have dictionaries without their entries */
    return status;
}

void yaml_clear(struct yaml *yaml) {
    for (uint32_t i = 0; i < yaml->count; i++) {
        free(yaml->entries[i].key);
        free(yaml->entries[i].value);
    }
    free(yaml->entries);
    *yaml = (struct yaml){0};
}
