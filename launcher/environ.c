#define _GNU_SOURCE
#include "environ.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../config/join.h"
#include "../config/protocol.h"
#include "plan.h"

static bool name_is(const char *variable, const char *name) {
    size_t n = strlen(name);
    return !strncmp(variable, name, n) && (variable[n] == '=' || name[n - 1] == '_');
}

static bool is_replaced(const struct plan *plan, const char *variable) {
    static const char *const ours[] = {"LD_PRELOAD",      PROTOCOL_ENV_SOCKET, PROTOCOL_ENV_COOKIE,
                                       PROTOCOL_ENV_RANK, PROTOCOL_ENV_HOSTS,  JOIN_ENV};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (name_is(variable, ours[i]))
            return true;
    for (uint32_t i = 0; i < plan->removed_count; i++)
        if (!strcmp(variable, plan->removed[i]))
            return true;
    for (uint32_t i = 0; i < plan->added_count; i++)
        if (name_is(variable, plan->added[i].name))
            return true;
    return false;
}

#define OURS 5 /* LD_PRELOAD, the three of the claim, the number of hosts */

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
    n += claim->joined ? asprintf(&list[n], JOIN_ENV "=%s", claim->joined) >= 0
                       : asprintf(&list[n], PROTOCOL_ENV_SOCKET "=%s", claim->socket) >= 0;
    n += asprintf(&list[n], PROTOCOL_ENV_COOKIE "=%s", claim->cookie) >= 0;
    n += asprintf(&list[n], PROTOCOL_ENV_RANK "=%u", claim->rank) >= 0;
    if (claim->hosts > 1)
        n += asprintf(&list[n], PROTOCOL_ENV_HOSTS "=%u", claim->hosts) >= 0;
    list[n] = NULL;
    return list;
}

void environ_free(char **list) {
    for (char **entry = list; entry && *entry; entry++)
        free(*entry);
    free(list);
}
