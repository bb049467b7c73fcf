/*
 * How many cores this job may use: the affinity mask and the cgroup's quota, not the machine's number (L24, L26).
 */
#ifndef ACCEL_RUN_CORES_H
#define ACCEL_RUN_CORES_H

#include <stddef.h>
#include <stdint.h>

/* At least 1. root: "" for the real system, else a folder that stands for "/" (tests); the affinity is always the real one. */
uint32_t cores_allowed(const char *root);

/* Pure: cores of a quota of `quota` microseconds in each `period`, rounded up; 0 when there is no quota (quota <= 0). */
uint32_t cores_of_quota(long long quota, long long period);

/* Path below /sys/fs/cgroup of the process's own group in hierarchy `controller` ("" = version 2) from the text of /proc/self/cgroup.
   Returns 0 and fills group[size], or -1. Pure. */
int cores_cgroup_of(const char *text, const char *controller, char *group, int size);

/* Text of a file of our own control group: controller "" of version 2, else that of version 1; text[size]. Returns 0 or -1. */
int cores_group_text(const char *root, const char *controller, const char *file, char *text, size_t size);

/* The kernel's count of processes killed for memory in our cgroup (memory.events, or memory.oom_control of version 1); 0 when unknown. */
long long cores_oom_kills(const char *root);

#endif
