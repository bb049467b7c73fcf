/*
 * Which processors this job may use, and how they lie: cores, caches, NUMA nodes, sockets. Read once, from /sys, /proc and the control group; all that
 * counts or places reads it here (L24, L26).
 *
 * A core counts once, however many processors (SMT siblings) it shows: they share its arithmetic units. So count accelerate launch and MKL.
 */
#ifndef ACCEL_RUN_TOPOLOGY_H
#define ACCEL_RUN_TOPOLOGY_H

#include "cpus.h"

/* A processor that is online and may be used. */
struct topology_cpu {
    uint32_t number;
    uint32_t core, cache; /* the least number among those that share the core, the last level of cache */
    uint32_t node, socket;
};

struct topology {
    struct topology_cpu
        list[CPUS_MAX]; /* NUMA node by node; within a node cores that share a cache, and processors that share a core, together */
    uint32_t count;
    uint32_t online;                        /* processors of the machine */
    uint32_t machine_cpus;                  /* of those the container (cpuset) has; more than count: somebody has bound this process */
    uint32_t cores, caches, nodes, sockets; /* that the list has a processor of */
    uint32_t quota_cores;                   /* of the control group, rounded up; 0 none */
};

/* root: "" for the real system, else a folder that stands for "/" (tests). The affinity is that of root's /proc/self/status; without such a file, our
   real one. What /sys does not say is taken to be simple: each processor a core, one node, one socket. */
void topology_read(struct topology *topology, const char *root);

/* Cores that the job may use at a time: those in the list, and no more than the quota. At least 1. */
uint32_t topology_cores(const struct topology *topology);

#endif
