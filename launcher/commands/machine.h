/*
 * Facts about the machine for `doctor` and `env`, from /proc and /sys alone: no call of CUDA, nothing is started.
 */
#ifndef ACCEL_RUN_MACHINE_H
#define ACCEL_RUN_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define MACHINE_GPUS_MAX 16

struct machine {
    char system[128];    /* "Debian GNU/Linux 12 (bookworm)" */
    char kernel[128];    /* release */
    char processor[128]; /* model name */
    uint32_t processors_online, processors_allowed;
    uint32_t cores, cores_allowed; /* of the allowed processors; and no more than the quota */
    bool is_narrowed;              /* somebody has bound this process: taskset, srun */
    char quota[32];                /* of the control group, in words: "none", "2 cores" */
    uint32_t numa_nodes, sockets;  /* that have allowed processors */
    uint64_t memory_bytes, memory_available_bytes;
    uint64_t memory_limit_bytes;                                                  /* of the control group; 0 none */
    uint64_t shm_bytes, shm_available_bytes;                                      /* /dev/shm; 0 none */
    uint64_t open_files, processes, address_space_kib, file_size_kib, locked_kib; /* soft limits; UINT64_MAX none */
    uint64_t open_files_hard;
    uint32_t gpu_count;
    char gpus[MACHINE_GPUS_MAX][64]; /* models */
    char driver[160];                /* of NVIDIA, first line; "" none */
};

/* root: "" for the real system, else a folder that stands for "/" (tests); limits and affinity are always the real ones. */
void machine_read(struct machine *machine, const char *root);

#endif
