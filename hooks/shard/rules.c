/* The rule table and the way from an operator to its row. */
#include "shard.h"

static const struct rule rules[] = {
#define RULE(name, function, a, b, partial, entry) {name, rule_##function, a, b, partial, entry},
#include "rules.def"
#undef RULE
};

static const struct rule rule_none = {"none", NULL, 0, 0, PARTIAL_MATERIALISE, ENTRY_NONE};

static const struct rule *rule_named(const char *name, size_t length, const char *overload) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strncmp(rules[i].name, name, length))
            continue;
        const char *rest = rules[i].name + length;
        if (overload ? *rest == '.' && !strcmp(rest + 1, overload) : !*rest)
            return &rules[i];
    }
    return NULL;
}

static bool is_among(const struct rule *rule, rule_function *const *functions, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (rule->decide == functions[i])
            return true;
    return false;
}

bool rule_only_records(const struct rule *rule) {
    static rule_function *const families[] = {
        rule_pointwise,        rule_like,    rule_view,      rule_reshape_alias, rule_memory, rule_expand, rule_transpose,
        rule_matrix_transpose, rule_permute, rule_unsqueeze, rule_squeeze,       rule_select, rule_slice};
    return rule->entry == ENTRY_NONE && is_among(rule, families, sizeof families / sizeof *families);
}

bool rule_suits_direct(const struct rule *rule) {
    static rule_function *const families[] = {rule_pointwise,  rule_like, rule_matrix_transpose, rule_transpose, rule_permute,
                                              rule_unsqueeze,  rule_view, rule_expand,           rule_linear,    rule_mm,
                                              rule_reduce_sum, rule_along};
    return is_among(rule, families, sizeof families / sizeof *families);
}

/* Dimensions by their names, which rules would take for numbers (libtorch up to 2.9: squeeze.dimname, sum.dim_DimnameList, cat.names). */
static bool names_dims(const char *overload) {
    return strstr(overload, "imname") || strstr(overload, "names");
}

/* Only operators of aten have rows: another library's operator of the same name is another operator. */
const struct rule *rule_find(const struct operator *op) {
    if (strncmp(op->name, "aten::", 6) || names_dims(op->overload))
        return &rule_none;
    const char *name = op->short_name;
    size_t length = strlen(name);
    const struct rule *rule = rule_named(name, length, op->overload);
    if (!rule)
        rule = rule_named(name, length, NULL);
    if (!rule && op->is_in_place && name[length - 1] == '_') {
        rule = rule_named(name, length - 1, op->overload);
        if (!rule)
            rule = rule_named(name, length - 1, NULL);
    }
    return rule ? rule : &rule_none;
}
