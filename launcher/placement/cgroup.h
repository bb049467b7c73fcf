/*
 * What our control group allows, in versions 1 and 2. root: "" for the real system, else a folder that stands for "/" (tests).
 */
#ifndef ACCEL_RUN_CGROUP_H
#define ACCEL_RUN_CGROUP_H

#include <stddef.h>
#include <stdint.h>

/* Pure: cores of a quota of `quota` microseconds in each `period`, rounded up; 0 when there is no quota (quota <= 0). */
uint32_t cgroup_cores_of(long long quota, long long period);

/* Path below /sys/fs/cgroup of the process's own group in hierarchy `controller` ("" = version 2) from the text of /proc/self/cgroup.
   Returns 0 and fills group[size], or -1. Pure. */
int cgroup_of(const char *text, const char *controller, char *group, int size);

/* Text of a file of our own control group: controller "" of version 2, else that of version 1; text[size]. Returns 0 or -1. */
int cgroup_text(const char *root, const char *controller, const char *file, char *text, size_t size);

/* The least quota of our group and of all above it, in cores; 0: none. A pod's limit stands above the container's. */
uint32_t cgroup_quota_cores(const char *root);

/* The kernel's count of processes killed for memory in our cgroup (memory.events, or memory.oom_control of version 1); 0 when unknown. */
long long cgroup_oom_kills(const char *root);

#endif
