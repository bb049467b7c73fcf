/*
 * The claim socket: grants each rank once at a time and receives what the shims have to say (config/protocol.h).
 *
 * Rules
 *  - Whoever connects is a stranger until cookie and user id are right: lengths are checked before bytes are read, nothing a peer sends can
 * stop the launcher; a stranger is told "no" and dropped.
 *  - One live grant per rank: a second claim is denied while the first connection is open; a connection that closes frees the grant (P10).
 *  - A rank's first process may meet the other ranks' before it claims, or without (shim/attach.h): it has the segment that its claim would get.
 *  - At most CLAIMS_STRANGERS_MAX connections wait to be heard: the oldest makes room, so that a flood cannot keep a rank from its claim.
 */
#ifndef ACCEL_RUN_CLAIMS_H
#define ACCEL_RUN_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../config/protocol.h"
#include "loop.h"
#include "rank.h"
#include "segment.h"

#define CLAIMS_STRANGERS_MAX 64
#define CLAIMS_CONNECTIONS_MAX (2 * BOARD_RANKS_MAX + CLAIMS_STRANGERS_MAX)

struct claims_connection {
    int descriptor;  /* -1: free slot */
    int rank;        /* -1: a stranger */
    pid_t pid;       /* the peer's, from the kernel */
    uint64_t age;    /* number in the order of accepting */
    bool is_heard;   /* its message is being handled */
    bool is_granted; /* it has the rank */
    bool is_attached;
    uint32_t segment; /* granted or attached: its number */
};

/* What happens, told to the owner. All called from the loop. */
struct claims_events {
    void (*log)(void *context, uint32_t rank, char level, const char *text);
    void (*problem)(void *context, uint32_t rank, const struct protocol_problem *problem);
    void (*report)(void *context, uint32_t rank, const char *text);
    /* a child of the rank's process trains by itself */
    void (*child)(void *context, uint32_t rank);
    /* one writes files by itself */
    void (*child_writes)(void *context, const struct protocol_problem *warning);
    /* body: struct protocol_meeting and texts, not looked at yet */
    void (*meeting)(void *context, uint32_t rank, const char *body, uint32_t bytes);
    /* body: struct protocol_look and a path, not looked at yet */
    void (*look)(void *context, uint32_t rank, const char *body, uint32_t bytes);
    /* somebody has sent it a signal: to it alone, as far as it knows. is_granted: to the process that has the rank */
    void (*signalled)(void *context, uint32_t rank, bool is_granted, int signal);
    void *context;
};

struct claims {
    int listener;  /* owned */
    char name[64]; /* in the abstract name space, without the leading zero */
    char cookie[PROTOCOL_COOKIE_CHARS + 1];
    struct claims_events events;
    struct rank *ranks;          /* borrowed: of this host */
    uint32_t first, local_size;  /* their numbers: [first, first + local_size) */
    int leader_listener;         /* borrowed: for the first of them; -1: one host */
    struct protocol_grant grant; /* template of every grant */
    struct segments segments;
    struct claims_connection *connections; /* owned */
    uint32_t count;                        /* slots ever used */
    uint64_t accepted;                     /* connections so far */
    int lifeline[2];                       /* owned: a pipe that is never written to; every rank has a read end of its own */
    bool is_full;                          /* no room for another one: the listener rests for a round */
};

/* Binds. Returns 0 or -1 with errno. */
int claims_open(struct claims *claims);
void claims_add(struct claims *claims, struct loop *loop);
/* Reads all that is already there, without waiting: before a rank is declared dead (L9). */
void claims_drain(struct claims *claims);
/* A message for the process that has the rank, without waiting: one that does not read its answers does without. */
void claims_tell(const struct claims *claims, uint32_t rank, uint32_t type, const void *payload, size_t bytes);
/* A signal for the processes that are ranks, or may become them: not for scripts around them. Not for those of rank `but`; -1: for all. is_granted: for those
   that have their rank; else for those that were there before it was claimed, a program that starts the one that trains. Where a rank has but one, for that. */
void claims_signal(const struct claims *claims, int but, bool is_granted, int signal);
/* The same for those that are not their ranks' first processes. */
void claims_signal_others(const struct claims *claims, int signal);
/* Is it one of this host's ranks? */
bool claims_is_here(const struct claims *claims, uint32_t rank);
/* Does a connection hold the rank's grant? */
bool claims_is_granted(const struct claims *claims, uint32_t rank);
void claims_clear(struct claims *claims);

#endif
