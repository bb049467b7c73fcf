#include <string.h>

#include "config.h"

#define DISTANCE_MOST 40 /* letters of a name that are compared */

const struct config_option config_options[CONFIG_OPTIONS] = {
#define OPTION(field, type, initial, name, letter, key, variable, argument, group, shown, since, help)                                     \
    {CONFIG_##type,        offsetof(struct config, field), initial, name, letter, key, variable, argument,                                 \
     CONFIG_GROUP_##group, CONFIG_SHOWN_##shown,           since,   help},
#include "options.def"
#undef OPTION
};

const char *const config_group_titles[CONFIG_GROUP_COUNT] = {
#define GROUP(id, title) title,
    CONFIG_GROUPS(GROUP)
#undef GROUP
};

static bool name_is(const char *known, const char *name, size_t n) {
    if (strlen(known) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (known[i] != (name[i] == '_' ? '-' : name[i]))
            return false;
    return true;
}

int config_find(const char *name, size_t n) {
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        if (name_is(config_options[i].name, name, n))
            return i;
    return -1;
}

int config_find_letter(char letter) {
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        if (letter && config_options[i].letter == letter)
            return i;
    return -1;
}

int config_find_key(const char *key) {
    for (int i = 0; i < CONFIG_OPTIONS; i++)
        if (*config_options[i].key && !strcmp(config_options[i].key, key))
            return i;
    return -1;
}

static bool differ(char a, char b) {
    return (a == '_' ? '-' : a) != (b == '_' ? '-' : b);
}

int config_distance(const char *a, const char *b) {
    int row[DISTANCE_MOST + 1];
    int nb = (int)strnlen(b, DISTANCE_MOST);
    for (int j = 0; j <= nb; j++)
        row[j] = j;
    for (int i = 1; i <= DISTANCE_MOST && a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int change = diagonal + differ(a[i - 1], b[j - 1]);
            int best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = change < best ? change : best;
        }
    }
    return row[nb];
}

const char *config_nearest(const char *name) {
    int best = 0;
    for (int i = 1; i < CONFIG_OPTIONS; i++)
        if (config_distance(name, config_options[i].name) < config_distance(name, config_options[best].name))
            best = i;
    return config_options[best].name;
}

bool config_is_near(const char *misspelt, const char *name) {
    size_t length = strlen(misspelt);
    return length <= DISTANCE_MOST && config_distance(misspelt, name) <= 1 + (int)length / 4;
}
