/*
 * What a host's leader does for its ranks, so that collectives are those of the whole job.
 *
 * Rules
 *  - Inside a host everything goes through shared memory as without other hosts; only the leader, its first rank, sends and receives. The host's other ranks
 *    wait for it in a barrier.
 *  - Every collective begins with one message from each leader to each other: what it is about to do (its hash, agree.h), the hash of its list, and what its
 *    ranks have on their stages. Small collectives are then done: every rank has every other's bytes before it, as on one host, and reduces them in the order
 *    of the ranks.
 *  - Leaders that are about to do different things send each other the words, and all of them end the job with the same ones.
 */
#ifndef ACCEL_SHIM_COMM_HOSTS_H
#define ACCEL_SHIM_COMM_HOSTS_H

#include "agree.h"
#include "all_reduce.h"

/* All ranks of a host, after they have agreed among themselves. */
void hosts_agree(const struct agree_stage *stage);
/* After a barrier: what all ranks have on their stages comes to all hosts. Nothing on one host. */
void hosts_bring(const struct agree_stage *stage);
/* The all-reduce of what is too long for one message, from agree_pass() on. 0: the ranks' lists differ, nothing was changed. */
int hosts_reduce(struct reduction *reduction);

#endif
