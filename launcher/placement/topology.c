#define _GNU_SOURCE
#include "topology.h"

#include <dirent.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup.h"
#include "system_file.h"

#define LIST_CHARS 4096
#define CPU_FOLDER "/sys/devices/system/cpu"
#define NODE_FOLDER "/sys/devices/system/node"
#define LEVELS_MAX 5 /* cache/index0 to index4 */

/* What is read of one processor counts for all that share it, so that a large machine costs a file for each core, not four for each processor. */
struct reading {
    const char *root;
    struct topology *topology;
    uint32_t at[CPUS_MAX]; /* index in the list, plus 1; 0: not in it */
};

static int read_list(const char *root, const char *path, struct cpus *cpus) {
    char text[LIST_CHARS];
    if (system_file_text(root, path, text, sizeof text))
        return -1;
    cpus_read(cpus, text);
    return 0;
}

/* ---- which processors */

/* Returns whether all of them are online: the kernel says so of our own; its list in /proc may name others. */
static bool read_affinity(const char *root, struct cpus *allowed) {
    static const char key[] = "\nCpus_allowed_list:\t";
    char text[LIST_CHARS * 2];
    if (!*root && sched_getaffinity(0, sizeof *allowed, (cpu_set_t *)(void *)allowed) == 0)
        return true;
    const char *found = system_file_text(root, "/proc/self/status", text, sizeof text) ? NULL : strstr(text, key);
    memset(allowed, 0, sizeof *allowed);
    if (found)
        cpus_read(allowed, found + strlen(key));
    else if (sched_getaffinity(0, sizeof *allowed, (cpu_set_t *)(void *)allowed))
        for (long i = 0; i < sysconf(_SC_NPROCESSORS_ONLN); i++)
            cpus_add(allowed, (uint32_t)i);
    return false;
}

/* The container's share of the machine: without a file of its own, our group has what the groups above it have, which may be all. */
static void read_cpuset(const char *root, struct cpus *cpus) {
    char text[LIST_CHARS];
    struct cpus own;
    if (cgroup_text(root, "", "cpuset.cpus.effective", text, sizeof text) &&
        cgroup_text(root, "cpuset", "cpuset.effective_cpus", text, sizeof text) &&
        cgroup_text(root, "cpuset", "cpuset.cpus", text, sizeof text))
        return;
    cpus_read(&own, text);
    if (cpus_count(&own))
        cpus_intersect(cpus, &own);
}

static void read_processors(struct reading *reading) {
    struct topology *topology = reading->topology;
    struct cpus allowed, online, both;
    bool are_online = read_affinity(reading->root, &allowed);
    if (read_list(reading->root, CPU_FOLDER "/online", &online) || !cpus_count(&online))
        online = allowed;
    both = allowed;
    cpus_intersect(&both, &online);
    /* some containers (LXC) are shown as many processors as they have, counted from 0, whatever their numbers are */
    if (!cpus_count(&both) || (are_online && cpus_count(&both) < cpus_count(&allowed)))
        online = allowed;
    topology->online = cpus_count(&online);
    cpus_intersect(&allowed, &online);
    read_cpuset(reading->root, &online);
    topology->machine_cpus = cpus_count(&online);
    for (uint32_t i = 0; i < CPUS_MAX; i++)
        if (cpus_has(&allowed, i)) {
            topology->list[topology->count++] = (struct topology_cpu){.number = i, .core = i, .cache = CPUS_MAX};
            reading->at[i] = topology->count;
        }
}

/* ---- how they lie */

static uint32_t least_of(const struct cpus *cpus) {
    uint32_t i = 0;
    while (i < CPUS_MAX && !cpus_has(cpus, i))
        i++;
    return i;
}

/* core_cpus_list is the name since Linux 5.3 */
static void read_cores(struct reading *reading) {
    struct topology *topology = reading->topology;
    struct cpus siblings;
    char path[128];
    for (uint32_t i = 0; i < topology->count; i++) {
        if (topology->list[i].core != topology->list[i].number)
            continue; /* a sibling of one that was read */
        snprintf(path, sizeof path, CPU_FOLDER "/cpu%u/topology/thread_siblings_list", topology->list[i].number);
        if (read_list(reading->root, path, &siblings))
            continue;
        uint32_t least = least_of(&siblings);
        for (uint32_t j = least; j < CPUS_MAX; j++)
            if (cpus_has(&siblings, j) && reading->at[j])
                topology->list[reading->at[j] - 1].core = least;
    }
}

/* The processors that share the last level of cache with this one. Returns 0 or -1. */
static int last_level(const char *root, uint32_t number, struct cpus *sharing) {
    char path[128];
    for (int level = LEVELS_MAX - 1; level >= 0; level--) {
        snprintf(path, sizeof path, CPU_FOLDER "/cpu%u/cache/index%d/shared_cpu_list", number, level);
        if (read_list(root, path, sharing) == 0)
            return 0;
    }
    return -1;
}

static void read_caches(struct reading *reading) {
    struct topology *topology = reading->topology;
    struct cpus sharing;
    for (uint32_t i = 0; i < topology->count; i++) {
        struct topology_cpu *cpu = &topology->list[i];
        if (cpu->cache != CPUS_MAX)
            continue;
        if (last_level(reading->root, cpu->number, &sharing))
            return; /* virtual machines: unknown, one for all of a node */
        uint32_t least = least_of(&sharing);
        for (uint32_t j = least; j < CPUS_MAX; j++)
            if (cpus_has(&sharing, j) && reading->at[j])
                topology->list[reading->at[j] - 1].cache = least;
    }
}

/* Nodes without processors (memory of devices, expanders) are none to place ranks on. */
static void read_nodes(struct reading *reading) {
    struct topology *topology = reading->topology;
    char path[PATH_MAX], file[PATH_MAX];
    struct cpus cpus;
    snprintf(path, sizeof path, "%s" NODE_FOLDER, reading->root);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char *end = entry->d_name;
        unsigned long node = strncmp(entry->d_name, "node", 4) ? 0 : strtoul(entry->d_name + 4, &end, 10);
        snprintf(file, sizeof file, NODE_FOLDER "/%.64s/cpulist", entry->d_name);
        if (end == entry->d_name || *end || read_list(reading->root, file, &cpus) || !cpus_count(&cpus))
            continue;
        for (uint32_t i = 0; i < topology->count; i++)
            if (cpus_has(&cpus, topology->list[i].number))
                topology->list[i].node = (uint32_t)node;
    }
    if (folder)
        closedir(folder);
}

/* A file for each last level of cache will do. Not for each node: with numa=off one node spans all sockets. */
static void read_sockets(struct reading *reading) {
    struct topology *topology = reading->topology;
    char path[128], text[32];
    for (uint32_t i = 0; i < topology->count; i++) {
        struct topology_cpu *cpu = &topology->list[i];
        uint32_t first =
            cpu->cache == CPUS_MAX ? 0 : reading->at[cpu->cache]; /* the cache's own: the list is still in the order of numbers */
        if (first && first - 1 < i) {
            cpu->socket = topology->list[first - 1].socket;
            continue;
        }
        snprintf(path, sizeof path, CPU_FOLDER "/cpu%u/topology/physical_package_id", cpu->number);
        int socket = system_file_text(reading->root, path, text, sizeof text) ? 0 : atoi(text);
        cpu->socket = socket < 0 ? 0 : (uint32_t)socket;
    }
}

static int by_place(const void *left, const void *right) {
    const struct topology_cpu *a = left, *b = right;
    const uint32_t pairs[][2] = {
        {a->socket, b->socket}, {a->node, b->node}, {a->cache, b->cache}, {a->core, b->core}, {a->number, b->number}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][0] != pairs[i][1])
            return pairs[i][0] < pairs[i][1] ? -1 : 1;
    return 0;
}

/* Neighbours in the list differ where something new begins. */
static void count_units(struct topology *topology) {
    for (uint32_t i = 0; i < topology->count; i++) {
        const struct topology_cpu *cpu = &topology->list[i];
        topology->nodes += !i || cpu->node != cpu[-1].node;
        topology->caches += !i || cpu->node != cpu[-1].node || cpu->cache != cpu[-1].cache;
        topology->cores += !i || cpu->core != cpu[-1].core;
        topology->sockets += !i || cpu->socket != cpu[-1].socket;
    }
}

void topology_read(struct topology *topology, const char *root) {
    static struct reading reading; /* 16 KiB */
    memset(topology, 0, sizeof *topology);
    memset(&reading, 0, sizeof reading);
    reading.root = root;
    reading.topology = topology;
    read_processors(&reading);
    read_cores(&reading);
    read_caches(&reading);
    read_nodes(&reading);
    read_sockets(&reading);
    qsort(topology->list, topology->count, sizeof *topology->list, by_place);
    count_units(topology);
    topology->quota_cores = cgroup_quota_cores(root);
}

uint32_t topology_cores(const struct topology *topology) {
    uint32_t cores = topology->cores ? topology->cores : 1;
    return topology->quota_cores && topology->quota_cores < cores ? topology->quota_cores : cores;
}
