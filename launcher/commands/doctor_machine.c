#define _GNU_SOURCE
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../config/board.h"
#include "../../config/config.h"
#include "capture.h"
#include "doctor.h"
#include "gpu_peers.h"
#include "machine.h"

#define GIB ((double)(1 << 30))
enum { HELPER_MS = 3000 };

static void check_system(struct findings *findings, const struct machine *machine) {
    int major = 0, minor = 0;
    findings_add(findings, FINDING_PASS, "system", "", "", "%s, Linux %s, glibc %s", *machine->system ? machine->system : "unknown system",
                 machine->kernel, gnu_get_libc_version());
    if (sscanf(machine->kernel, "%d.%d", &major, &minor) == 2 && (major < 5 || (major == 5 && minor < 3)))
        findings_add(findings, FINDING_FAIL, "system", "AR-SPAWN", "use a kernel of 2019 or newer",
                     "Linux 5.3 is needed to watch processes");
}

static void check_cores(struct findings *findings, const struct machine *machine) {
    if (machine->cores_allowed < 2)
        findings_add(findings, FINDING_WARN, "cores", "AR-CORES", "allow more cores (taskset, the container's limits)",
                     "1 core may be used, with %u of %u processors (quota: %s): several ranks will wait for each other",
                     machine->processors_allowed, machine->processors_online, machine->quota);
    else
        findings_add(findings, FINDING_PASS, "cores", "", "",
                     "%u may be used, with %u of %u processors%s (quota: %s): '-n %u' at most; %s; NUMA nodes: %u%s",
                     machine->cores_allowed, machine->processors_allowed, machine->processors_online,
                     machine->is_narrowed ? " (bound by srun, taskset or the like)" : "", machine->quota, machine->cores_allowed,
                     machine->processor, machine->numa_nodes,
                     machine->numa_nodes > 1 ? "; '--bind numa' keeps each rank beside its memory" : "");
}

static void check_memory(struct findings *findings, const struct machine *machine) {
    double limit = machine->memory_limit_bytes ? (double)machine->memory_limit_bytes : (double)machine->memory_bytes;
    double needed = (double)board_segment_bytes(machine->cores_allowed < BOARD_RANKS_MAX ? machine->cores_allowed : 1);
    double available = (double)machine->memory_available_bytes;
    available = available < limit ? available : limit; /* how much of the limit can be given back is not asked */
    bool is_short = available < needed + (1 << 28);
    findings_add(findings, is_short ? FINDING_WARN : FINDING_PASS, "memory", is_short ? "AR-MEMORY" : "",
                 is_short ? "end other programs, or use fewer ranks" : "",
                 "%.1f GiB free of %.1f GiB%s; the ranks' shared memory takes %.0f MiB for %u ranks", available / GIB, limit / GIB,
                 machine->memory_limit_bytes ? " (limit of the control group)" : "", needed / (1 << 20), machine->cores_allowed);
}

/* Loaders of Python with workers exchange through it; the ranks do not. */
static void check_shm(struct findings *findings, const struct machine *machine) {
    double available = (double)machine->shm_available_bytes / (1 << 20);
    if (machine->shm_bytes && machine->shm_available_bytes >= (64u << 20))
        findings_add(findings, FINDING_PASS, "/dev/shm", "", "", "%.0f MiB free; accel-run itself does not use it", available);
    else
        findings_add(findings, FINDING_WARN, "/dev/shm", "AR-SHM",
                     "start the container with more (--shm-size=1g), or use loaders without workers",
                     "%.0f MiB free: accel-run does not use it, but Python's data loaders with workers do, in every rank", available);
}

static void check_limits(struct findings *findings, const struct machine *machine) {
    uint64_t needed = 64 + 8ull * machine->cores_allowed;
    if (machine->open_files_hard < needed)
        findings_add(findings, FINDING_FAIL, "limits", "AR-SPAWN", "ulimit -n 1024", "%llu open files are too few for %u ranks",
                     (unsigned long long)machine->open_files_hard, machine->cores_allowed);
    if (machine->file_size_kib != UINT64_MAX)
        findings_add(findings, FINDING_WARN, "limits", "AR-SEGMENT", "ulimit -f unlimited",
                     "files of at most %llu KiB can be written; the shared memory of the ranks counts as one",
                     (unsigned long long)machine->file_size_kib);
    if (machine->address_space_kib != UINT64_MAX)
        findings_add(findings, FINDING_WARN, "limits", "AR-SEGMENT", "ulimit -v unlimited", "a process may have %llu KiB of address space",
                     (unsigned long long)machine->address_space_kib);
    if (machine->open_files_hard >= needed && machine->file_size_kib == UINT64_MAX && machine->address_space_kib == UINT64_MAX)
        findings_add(findings, FINDING_PASS, "limits", "", "", "open files %llu, memory and file sizes unlimited",
                     (unsigned long long)machine->open_files_hard);
}

/* NCCL as the program's libtorch has it, or anywhere the loader looks. */
static void check_nccl(struct doctor *doctor) {
    const struct library *nccl = libraries_find(&doctor->torch.libraries, "libnccl");
    findings_add(&doctor->findings, nccl && *nccl->path ? FINDING_PASS : FINDING_WARN, "nccl", nccl ? "" : "AR-DEVICE",
                 nccl ? "" : "install NCCL, or a libtorch for CUDA", nccl ? "%s" : "GPUs are there, but no NCCL with this libtorch%s",
                 nccl ? nccl->path : "");
}

/* Asked of the driver's tool: CUDA itself is no library of ours. */
static void check_peers(struct doctor *doctor) {
    static struct capture capture; /* 512 KiB */
    struct gpu_peers peers;
    struct problem problem;
    char path[PATH_MAX];
    char *arguments[] = {path, (char *)(uintptr_t) "topo", (char *)(uintptr_t) "-p2p", (char *)(uintptr_t) "r", NULL};
    struct capture_request request = {path, arguments, doctor->environment, NULL, HELPER_MS, NULL};
    bool is_known = !preflight_find("nvidia-smi", config_variable(doctor->environment, "PATH"), path, &problem) &&
                    !capture_run(&request, &capture) && !gpu_peers_read(capture.out, &peers);
    if (!is_known)
        findings_add(&doctor->findings, FINDING_WARN, "peer access", "AR-DEVICE", "put nvidia-smi, which comes with the driver, into PATH",
                     "not known: 'nvidia-smi topo -p2p r' does not say");
    else if (peers.reachable == peers.pairs)
        findings_add(&doctor->findings, FINDING_PASS, "peer access", "", "", "every GPU can read every other one's memory");
    else
        findings_add(&doctor->findings, FINDING_WARN, "peer access", "AR-DEVICE",
                     "'nvidia-smi topo -p2p r' shows all pairs; 'CNS' and 'TNS' are the machine's, often its IOMMU's",
                     "%u of %u pairs of GPUs cannot read each other's memory (%s): exchange goes through the host's",
                     peers.pairs - peers.reachable, peers.pairs, peers.first_fault);
}

static void check_gpus(struct doctor *doctor, const struct machine *machine) {
    char models[512] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < machine->gpu_count && used < sizeof models - 80; i++)
        used += (size_t)snprintf(models + used, sizeof models - used, "%s%s", i ? ", " : "", machine->gpus[i]);
    if (!machine->gpu_count) {
        findings_add(&doctor->findings, FINDING_PASS, "gpus", "", "", "none, the ranks compute on the CPU%s%s",
                     *machine->driver ? "; driver: " : "", machine->driver);
        return;
    }
    findings_add(&doctor->findings, FINDING_WARN, "gpus", "AR-DEVICE",
                 "train on the CPU (CUDA_VISIBLE_DEVICES= in front of the command), or compare the first steps with -n 1",
                 "%u: %s; driver: %s. All ranks use the GPU that the program names, and exchange through the host's memory",
                 machine->gpu_count, models, *machine->driver ? machine->driver : "unknown");
    check_nccl(doctor);
    if (machine->gpu_count > 1)
        check_peers(doctor);
}

void doctor_machine(struct doctor *doctor) {
    struct machine machine;
    machine_read(&machine, "");
    check_system(&doctor->findings, &machine);
    check_cores(&doctor->findings, &machine);
    check_memory(&doctor->findings, &machine);
    check_shm(&doctor->findings, &machine);
    check_limits(&doctor->findings, &machine);
    check_gpus(doctor, &machine);
}
