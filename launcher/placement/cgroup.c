#define _GNU_SOURCE
#include "cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system_file.h"

#define GROUP_CHARS 1024

uint32_t cgroup_cores_of(long long quota, long long period) {
    if (quota <= 0 || period <= 0)
        return 0;
    return (uint32_t)((quota + period - 1) / period);
}

/* Does the comma-separated list contain the controller? The list of version 2 is empty. */
static int lists(const char *list, size_t n, const char *controller) {
    size_t length = strlen(controller);
    if (!length)
        return n == 0;
    for (size_t i = 0; i + length <= n; i++)
        if ((i == 0 || list[i - 1] == ',') && !strncmp(list + i, controller, length) && (i + length == n || list[i + length] == ','))
            return 1;
    return 0;
}

int cgroup_of(const char *text, const char *controller, char *group, int size) {
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        const char *list = memchr(line, ':', n);
        const char *path = list ? memchr(list + 1, ':', n - (size_t)(list + 1 - line)) : NULL;
        if (path && lists(list + 1, (size_t)(path - list - 1), controller)) {
            snprintf(group, (size_t)size, "%.*s", (int)(n - (size_t)(path + 1 - line)), path + 1);
            return 0;
        }
        line += n + (line[n] == '\n');
    }
    return -1;
}

/* A container often sees its group as the root of the hierarchy while /proc names the host's path. */
int cgroup_text(const char *root, const char *controller, const char *file, char *text, size_t size) {
    char groups[4096], group[GROUP_CHARS / 2], path[GROUP_CHARS];
    if (system_file_text(root, "/proc/self/cgroup", groups, sizeof groups) || cgroup_of(groups, controller, group, sizeof group))
        return -1;
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s%s/%s", controller, group, file);
    if (system_file_text(root, path, text, size) == 0)
        return 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s/%s", controller, file);
    return system_file_text(root, path, text, size);
}

/* Quota in cores of one group, whose folder is below the mount; 0: none. */
static uint32_t quota_of(const char *root, bool is_version_2, const char *group) {
    char path[GROUP_CHARS], text[128], period[128];
    long long quota = 0, length = 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s%s/%s", is_version_2 ? "" : "/cpu", group, is_version_2 ? "cpu.max" : "cpu.cfs_quota_us");
    if (system_file_text(root, path, text, sizeof text))
        return 0;
    if (is_version_2)
        return sscanf(text, "%lld %lld", &quota, &length) == 2 ? cgroup_cores_of(quota, length) : 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", group);
    return system_file_text(root, path, period, sizeof period) ? 0 : cgroup_cores_of(atoll(text), atoll(period));
}

static uint32_t quota_cores_in(const char *root, const char *groups, bool is_version_2) {
    char group[GROUP_CHARS / 2];
    uint32_t least = 0;
    if (cgroup_of(groups, is_version_2 ? "" : "cpu", group, sizeof group))
        return 0;
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        *end = 0;
        uint32_t cores = quota_of(root, is_version_2, group);
        least = cores && (!least || cores < least) ? cores : least;
    }
    return least;
}

uint32_t cgroup_quota_cores(const char *root) {
    char groups[4096];
    if (system_file_text(root, "/proc/self/cgroup", groups, sizeof groups))
        return 0;
    uint32_t cores = quota_cores_in(root, groups, true);
    return cores ? cores : quota_cores_in(root, groups, false);
}

long long cgroup_oom_kills(const char *root) {
    char text[1024];
    if (cgroup_text(root, "", "memory.events", text, sizeof text) && cgroup_text(root, "memory", "memory.oom_control", text, sizeof text))
        return 0;
    const char *found = strstr(text, "oom_kill ");
    return found ? atoll(found + strlen("oom_kill ")) : 0;
}
