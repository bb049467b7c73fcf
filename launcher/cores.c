#define _GNU_SOURCE
#include "cores.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUP_CHARS 1024

static int read_text(const char *root, const char *path, char *text, size_t size) {
    char full[GROUP_CHARS + 256];
    snprintf(full, sizeof full, "%s%s", root, path);
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return -1;
    text[n] = 0;
    return 0;
}

uint32_t cores_of_quota(long long quota, long long period) {
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

int cores_cgroup_of(const char *text, const char *controller, char *group, int size) {
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
int cores_group_text(const char *root, const char *controller, const char *file, char *text, size_t size) {
    char groups[4096], group[GROUP_CHARS / 2], path[GROUP_CHARS];
    const char *mount = *controller ? controller : "";
    if (read_text(root, "/proc/self/cgroup", groups, sizeof groups) || cores_cgroup_of(groups, controller, group, sizeof group))
        return -1;
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s%s/%s", mount, group, file);
    if (read_text(root, path, text, size) == 0)
        return 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s/%s", mount, file);
    return read_text(root, path, text, size);
}

static uint32_t quota_cores(const char *root) {
    char text[128], period[128];
    long long quota = 0, length = 0;
    if (cores_group_text(root, "", "cpu.max", text, sizeof text) == 0)
        return sscanf(text, "%lld %lld", &quota, &length) == 2 ? cores_of_quota(quota, length) : 0;
    if (cores_group_text(root, "cpu", "cpu.cfs_quota_us", text, sizeof text) == 0 &&
        cores_group_text(root, "cpu", "cpu.cfs_period_us", period, sizeof period) == 0)
        return cores_of_quota(atoll(text), atoll(period));
    return 0;
}

uint32_t cores_allowed(const char *root) {
    cpu_set_t set;
    long cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t quota = quota_cores(root);
    uint32_t allowed = cores < 1 ? 1 : (uint32_t)cores;
    return quota && quota < allowed ? quota : allowed;
}

long long cores_oom_kills(const char *root) {
    char text[1024];
    if (cores_group_text(root, "", "memory.events", text, sizeof text) &&
        cores_group_text(root, "memory", "memory.oom_control", text, sizeof text))
        return 0;
    const char *found = strstr(text, "oom_kill ");
    return found ? atoll(found + strlen("oom_kill ")) : 0;
}
