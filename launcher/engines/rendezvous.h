/*
 * Where the fronts of one job meet before they become ranks (front.c): an abstract unix socket whose name follows from what they have in common. Rank 0's
 * front listens, hears everybody, and answers all.
 *
 * Rules
 *  - Every wait has a deadline; a front whose rank 0 has gone hears the end of its connection.
 *  - Peers of another user are dropped: the name can be guessed.
 */
#ifndef ACCEL_RUN_RENDEZVOUS_H
#define ACCEL_RUN_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

#include "../../config/protocol.h"
#include "../placement/cpus.h"
#include "../problem.h"

enum { RENDEZVOUS_MEMORY, RENDEZVOUS_OUT, RENDEZVOUS_ERROR, RENDEZVOUS_DESCRIPTORS };

struct rendezvous_hello {
    uint32_t version, rank, world_size;
    uint32_t cores;         /* topology_cores() */
    uint64_t front, engine; /* join_process() */
    uint64_t settings;      /* hash of options, program and arguments: the same on all ranks */
    struct cpus cpus;       /* that it may run on */
    struct problem problem; /* exit_code 0: none */
};

struct rendezvous_answer {
    struct problem problem; /* exit_code 0: go on */
    char cookie[PROTOCOL_COOKIE_CHARS + 1];
    uint32_t cores; /* of the job */
    uint32_t share; /* of the rank that is answered */
    bool are_alike; /* all ranks may use the same processors: nobody has bound them */
    uint64_t zero;  /* join_process() of rank 0's front */
    int32_t memory; /* its descriptor there */
};

/* Rank 0. The listener, or -1 with errno. key: text, any length. */
int rendezvous_listen(const char *key);

/* Rank 0: hears those of ranks 1 .. world_size - 1 whose connection is -1. hellos[world_size] and connections[world_size] are filled at their rank; connections
   stay -1 where nobody has come by deadline_ms. Returns how many are missing. */
uint32_t rendezvous_hear(int listener, uint32_t world_size, uint64_t deadline_ms, struct rendezvous_hello *hellos, int *connections);

/* Rank 0: one answer, with descriptors or NULL. Returns 0 or -1 with errno. */
int rendezvous_answer(int connection, const struct rendezvous_answer *answer, const int *descriptors);

/* The others: says hello, within deadline_ms. Returns the connection, or -1. */
int rendezvous_greet(const char *key, const struct rendezvous_hello *hello, uint64_t deadline_ms);

/* The others: waits for the answer. Returns 0, or -1: rank 0 has gone, or is silent. */
int rendezvous_await(int connection, uint64_t deadline_ms, struct rendezvous_answer *answer, int *descriptors);

#endif
