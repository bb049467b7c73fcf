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

/* entry: owned from now on; NULL: there was no memory for it. A list with a hole would end there, before what makes the process a rank. */
static bool put(char **list, size_t *count, char *entry) {
    list[*count] = entry;
    *count += entry != NULL;
    return entry;
}

static bool set(char **list, size_t *count, const char *name, const char *value) {
    char *entry;
    return put(list, count, asprintf(&entry, "%s=%s", name, value) < 0 ? NULL : entry);
}

#define OURS 5 /* LD_PRELOAD, the three of the claim, the number of hosts */

char **environ_build(const struct plan *plan, char *const *environment, const struct environ_claim *claim) {
    size_t count = 0, n = 0;
    bool is_whole = true;
    char rank[16], hosts[16];
    while (environment[count])
        count++;
    char **list = calloc(count + plan->added_count + OURS + 1, sizeof *list);
    if (!list)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (!is_replaced(plan, environment[i]))
            is_whole &= put(list, &n, strdup(environment[i]));
    for (uint32_t i = 0; i < plan->added_count; i++)
        is_whole &= set(list, &n, plan->added[i].name, plan->added[i].value);
    is_whole &= set(list, &n, "LD_PRELOAD", plan->preload);
    is_whole &= claim->joined ? set(list, &n, JOIN_ENV, claim->joined) : set(list, &n, PROTOCOL_ENV_SOCKET, claim->socket);
    is_whole &= set(list, &n, PROTOCOL_ENV_COOKIE, claim->cookie);
    snprintf(rank, sizeof rank, "%u", claim->rank);
    is_whole &= set(list, &n, PROTOCOL_ENV_RANK, rank);
    snprintf(hosts, sizeof hosts, "%u", claim->hosts);
    if (claim->hosts > 1)
        is_whole &= set(list, &n, PROTOCOL_ENV_HOSTS, hosts);
    if (is_whole)
        return list;
    environ_free(list);
    return NULL;
}

void environ_free(char **list) {
    for (char **entry = list; entry && *entry; entry++)
        free(*entry);
    free(list);
}
