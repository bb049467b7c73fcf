#define _GNU_SOURCE
#include "environ.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../config/protocol.h"
#include "plan.h"

/* A name that ends with '_' stands for all names that begin so. */
static const char *const launchers_names[] = {
    "RANK",        "WORLD_SIZE",      "LOCAL_RANK",       "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "MASTER_ADDR",
    "MASTER_PORT", "ROLE_WORLD_SIZE", "GROUP_WORLD_SIZE", "TORCHELASTIC_",    "PMI_",       "PMIX_",     "OMPI_"};

static bool name_is(const char *variable, const char *name) {
    size_t n = strlen(name);
    return !strncmp(variable, name, n) && (variable[n] == '=' || name[n - 1] == '_');
}

bool environ_is_launchers(const char *variable) {
    for (size_t i = 0; i < sizeof(launchers_names) / sizeof(*launchers_names); i++)
        if (name_is(variable, launchers_names[i]))
            return true;
    return false;
}

static bool is_replaced(const struct plan *plan, const char *variable) {
    static const char *const ours[] = {"LD_PRELOAD", PROTOCOL_ENV_SOCKET, PROTOCOL_ENV_COOKIE, PROTOCOL_ENV_RANK};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (name_is(variable, ours[i]))
            return true;
    if (environ_is_launchers(variable))
        return true;
    for (uint32_t i = 0; i < plan->added_count; i++)
        if (name_is(variable, plan->added[i].name))
            return true;
    return false;
}

#define OURS 4 /* LD_PRELOAD and the three of the claim */

char **environ_build(const struct plan *plan, char *const *environment, const struct environ_claim *claim) {
    size_t count = 0, n = 0;
    while (environment[count])
        count++;
    char **list = calloc(count + plan->added_count + OURS + 1, sizeof *list);
    if (!list)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (!is_replaced(plan, environment[i]))
            list[n++] = strdup(environment[i]);
    for (uint32_t i = 0; i < plan->added_count; i++)
        if (asprintf(&list[n], "%s=%s", plan->added[i].name, plan->added[i].value) >= 0)
            n++;
    n += asprintf(&list[n], "LD_PRELOAD=%s", plan->preload) >= 0;
    n += asprintf(&list[n], PROTOCOL_ENV_SOCKET "=%s", claim->socket) >= 0;
    n += asprintf(&list[n], PROTOCOL_ENV_COOKIE "=%s", claim->cookie) >= 0;
    n += asprintf(&list[n], PROTOCOL_ENV_RANK "=%u", claim->rank) >= 0;
    list[n] = NULL;
    return list;
}

void environ_free(char **list) {
    for (char **entry = list; entry && *entry; entry++)
        free(*entry);
    free(list);
}
