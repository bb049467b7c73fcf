/*
 * Ranks that another launcher has started (torchrun, mpirun, srun): what they share in place of a process of ours.
 *
 * accel-run is started once for each rank. These fronts meet, rank 0's makes one memfd, and each becomes its program by exec. Nobody of ours is left: what
 * the launcher does elsewhere (claims, messages, noticing the dead) the ranks do on this page.
 *
 *   [ struct join_page | JOIN_SLOTS x (struct board | communication area) ]
 *
 * Rules
 *  - Compiled into both sides; layouts only. A change raises PROTOCOL_VERSION.
 *  - The k-th training process of every rank belongs to slot k % JOIN_SLOTS. When all ranks have come to k, slot k - 1 has no user any more: the last to
 *    come empties it, and then process k - 1 + JOIN_SLOTS may begin.
 *  - A process is known by its number and its start time, because numbers are given away again.
 */
#ifndef ACCEL_RUN_JOIN_H
#define ACCEL_RUN_JOIN_H

#include <stdatomic.h>

#include "board.h"
#include "protocol.h"

/* In a rank's environment: "PID:FD PID:FD", where the memfd can be opened: in the process that the other launcher has started as this rank, and as rank 0. */
#define JOIN_ENV "ACCEL_RUN_JOINED"

#define JOIN_MAGIC 0x6172706au
#define JOIN_SLOTS 4
#define JOIN_SAID 128
#define JOIN_PROGRAM_CHARS 256
#define JOIN_ENGINE_CHARS 64

struct join_rank {
    _Atomic uint64_t claimer; /* join_process() of the process that trains, or did; 0: none yet */
    _Atomic uint32_t claims;  /* processes that have trained so far */
    _Atomic uint32_t ended;   /* 0, or 1 + the exit status with which the claimer ended by itself */
    _Atomic uint32_t left;    /* and the front */
    uint64_t front;           /* join_process() of the process that the other launcher has started */
    uint64_t engine;          /* and of that launcher, or its parent */
    int32_t errors;           /* descriptor of the front: standard error as the other launcher has made it; -1: none */
    int32_t last_words;       /* descriptor of rank 0's front: what this rank prints; -1: none (rank 0) */
    _Atomic uint32_t stalled; /* it has been named as one that makes no progress */
} __attribute__((aligned(64)));

struct join_page {
    uint32_t magic, version, world_size;
    char cookie[PROTOCOL_COOKIE_CHARS + 1];
    char program[JOIN_PROGRAM_CHARS], engine[JOIN_ENGINE_CHARS]; /* for messages */
    struct protocol_grant grant;                                 /* of every rank, but for its number */
    uint64_t slot_bytes;
    uint64_t stall_timeout_ms;            /* 0: no rank is named for it */
    _Atomic uint32_t stopped;             /* 0, or 1 + the rank that says why the job ends */
    _Atomic uint32_t started[JOIN_SLOTS]; /* ranks that have claimed the slot's generation */
    _Atomic uint32_t freed;               /* generations whose slot is empty again */
    _Atomic uint64_t said[JOIN_SAID];     /* hashes of lines that need not be said again */
    struct join_rank ranks[BOARD_RANKS_MAX];
};

static inline size_t join_page_bytes(void) {
    return (sizeof(struct join_page) + 4095) & ~(size_t)4095;
}

static inline uint64_t join_process(int32_t pid, uint64_t started) {
    return (uint64_t)(uint32_t)pid << 32 | (uint32_t)started;
}

static inline int32_t join_pid(uint64_t process) {
    return (int32_t)(process >> 32);
}

/* The process that trains, or did; before one has come, the one that was started. */
static inline uint64_t join_trainer(const struct join_rank *rank) {
    uint64_t claimer = atomic_load(&rank->claimer);
    return claimer ? claimer : rank->front;
}

#endif
