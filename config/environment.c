#include <string.h>

#include "config.h"
#include "protocol.h"

const char *config_variable(char *const *environment, const char *name) {
    size_t n = strlen(name);
    for (; *environment; environment++)
        if (!strncmp(*environment, name, n) && (*environment)[n] == '=')
            return *environment + n + 1;
    return NULL;
}

int config_read_environment(struct config *config, char *const *environment, char *fault) {
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        const char *variable = config_options[i].variable;
        const char *value = *variable ? config_variable(environment, variable) : NULL;
        bool is_given = value && *value; /* an empty one counts as unset, as it does for most programs */
        if (is_given && config_set(config, (enum config_id)i, value, CONFIG_FROM_ENVIRONMENT, variable, fault))
            return -1;
    }
    return 0;
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
        int d = config_distance(name, known);
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
