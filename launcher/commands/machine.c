#define _GNU_SOURCE
#include "machine.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../placement/cgroup.h"
#include "../placement/system_file.h"
#include "../placement/topology.h"

static uint64_t read_kib(const char *root, const char *path, const char *key) {
    char value[64];
    return system_file_line(root, path, key, value, sizeof value) ? 0 : strtoull(value, NULL, 10) << 10;
}

static void read_gpus(struct machine *machine, const char *root, const char *path) {
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s%s", root, path);
    DIR *folder = opendir(full);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) && machine->gpu_count < MACHINE_GPUS_MAX;) {
        char information[2 * PATH_MAX];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(information, sizeof information, "%s/%s/information", full, entry->d_name);
        char *model = machine->gpus[machine->gpu_count++];
        if (system_file_line("", information, "Model", model, sizeof machine->gpus[0]))
            snprintf(model, sizeof machine->gpus[0], "unknown model");
    }
    closedir(folder);
}

static uint64_t soft_limit(int resource, int shift) {
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur >> shift;
}

static void read_limits(struct machine *machine) {
    struct rlimit files;
    machine->open_files = soft_limit(RLIMIT_NOFILE, 0);
    machine->open_files_hard = getrlimit(RLIMIT_NOFILE, &files) ? UINT64_MAX : files.rlim_max;
    machine->processes = soft_limit(RLIMIT_NPROC, 0);
    machine->address_space_kib = soft_limit(RLIMIT_AS, 10);
    machine->file_size_kib = soft_limit(RLIMIT_FSIZE, 10);
    machine->locked_kib = soft_limit(RLIMIT_MEMLOCK, 10);
}

static void read_shared_memory(struct machine *machine, const char *root) {
    char path[PATH_MAX];
    struct statvfs status;
    snprintf(path, sizeof path, "%s/dev/shm", root);
    if (statvfs(path, &status))
        return;
    machine->shm_bytes = (uint64_t)status.f_blocks * status.f_frsize;
    machine->shm_available_bytes = (uint64_t)status.f_bavail * status.f_frsize;
}

static void read_group(struct machine *machine, const char *root) {
    char limit[64];
    if (cgroup_text(root, "", "memory.max", limit, sizeof limit) == 0)
        machine->memory_limit_bytes = strtoull(limit, NULL, 10); /* "max" is 0 */
}

static void read_processors(struct machine *machine, const char *root) {
    static struct topology topology; /* 80 KiB */
    topology_read(&topology, root);
    machine->processors_online = topology.online;
    machine->processors_allowed = topology.count;
    machine->cores = topology.cores;
    machine->cores_allowed = topology_cores(&topology);
    machine->is_narrowed = topology.count < topology.machine_cpus;
    machine->sockets = topology.sockets;
    if (topology.quota_cores)
        snprintf(machine->quota, sizeof machine->quota, "%u core%s", topology.quota_cores, topology.quota_cores > 1 ? "s" : "");
    else
        snprintf(machine->quota, sizeof machine->quota, "none");
    machine->numa_nodes = topology.nodes;
}

void machine_read(struct machine *machine, const char *root) {
    struct utsname name;
    memset(machine, 0, sizeof *machine);
    if (uname(&name) == 0)
        snprintf(machine->kernel, sizeof machine->kernel, "%s", name.release);
    system_file_line(root, "/etc/os-release", "PRETTY_NAME", machine->system, sizeof machine->system);
    system_file_line(root, "/proc/cpuinfo", "model name", machine->processor, sizeof machine->processor);
    read_processors(machine, root);
    machine->memory_bytes = read_kib(root, "/proc/meminfo", "MemTotal");
    machine->memory_available_bytes = read_kib(root, "/proc/meminfo", "MemAvailable");
    read_gpus(machine, root, "/proc/driver/nvidia/gpus");
    system_file_line(root, "/proc/driver/nvidia/version", "NVRM version", machine->driver, sizeof machine->driver);
    read_group(machine, root);
    read_shared_memory(machine, root);
    read_limits(machine);
}
