/*
 * The launchers of several hosts, each with one connection to that of the first host.
 *
 * Rules
 *  - Before anything is started all come together at --master-addr (hosts_meet.c): the first host's launcher tells the others the job's secret, the first rank
 *    of each host and where its leader is reached; what must be the same everywhere is compared, and refused by name.
 *  - Then messages go from the others to the first host, and from the first host to all (hosts.c). Nothing blocks; every connection is written to at least
 *    HOSTS_BEAT_MS apart, so that a host that has vanished is noticed after --host-timeout. One that is stopped on purpose says so before.
 *  - Whoever can reach the port is a stranger until it has said what job it belongs to; lengths are checked before bytes are read.
 *  - What the messages mean for the run is together.c's.
 */
#ifndef ACCEL_RUN_HOSTS_H
#define ACCEL_RUN_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../config/board.h"
#include "../../config/config.h"
#include "../../config/protocol.h"
#include "../loop.h"
#include "../plan.h"
#include "../problem.h"

#define HOSTS_BEAT_MS 200
#define HOSTS_MESSAGE_MAX (128u << 10)

enum hosts_type {
    HOSTS_HELLO = 1, /* to the first host: struct hosts_hello */
    HOSTS_WELCOME,   /* from it: struct hosts_welcome */
    HOSTS_REFUSE,    /* from it: struct protocol_problem */
    HOSTS_LINES,     /* both ways: struct together_line for each rank; also the beat */
    HOSTS_COME,      /* to the first host: struct together_meeting, a rank has come to a meeting */
    HOSTS_ANSWER,    /* from it: the same, rank 0's answer */
    HOSTS_END,       /* from it: the same, rank 0 has done with a file */
    HOSTS_FAILED,    /* both ways: struct together_failure, the first of the job */
    HOSTS_SIGNAL,    /* both ways: struct together_asked, a signal of the user */
    HOSTS_PAUSE,     /* both ways: the sender is about to be stopped; whatever it sends next says that it goes on */
    HOSTS_DONE,      /* to the first host: int32_t, nothing is left here, and the exit code */
    HOSTS_VERDICT,   /* from it: int32_t, the exit code of the job */
    HOSTS_LOOK,      /* to the first host: struct look_sent, a rank asks about its files (look.h) */
    HOSTS_LOOKED,    /* from it: uint32_t, the rank, and the answer */
    HOSTS_CANNOT,    /* to the first host, in place of the hello: struct hosts_cannot, that one has refused its part */
};

struct hosts_header {
    uint32_t type, bytes; /* bytes: of what follows */
};

struct hosts_hello {
    uint32_t magic, protocol; /* up to the job's word the same in every version: what follows may be anything */
    char version[16], job_id[64];
    uint32_t nnodes, host, ranks;
    uint32_t flags, collective_timeout_ms; /* of every grant */
    uint32_t threads, threads_are_users;   /* of each rank; set by the user */
    uint32_t port;                         /* where the host's leader listens */
    char program[256];                     /* without its folders */
    uint64_t arguments;                    /* a hash of them */
    char words[512];                       /* their beginning, to be shown */
    char processor[64], node[BOARD_HOST_CHARS];
};

struct hosts_cannot {
    uint32_t magic, host;
    char job_id[64];
    struct protocol_problem problem;
};

struct hosts_welcome {
    char cookie[PROTOCOL_COOKIE_CHARS];
    uint32_t threads, hosts, port; /* port: of the first host's leader; its address is the one that was connected to */
    struct board_host list[BOARD_RANKS_MAX];
};

/* One connection: on the first host to each other, elsewhere to the first. */
struct hosts_peer {
    int descriptor; /* owned; -1: none */
    uint64_t heard_ms;
    bool is_paused; /* it has said so, and nothing since */
    bool is_done;
    bool is_lost; /* without having said that it is done */
    int code;     /* when it is done */
    char *out;    /* owned: not written yet, [out_begin, out_end) */
    size_t out_begin, out_end, out_capacity;
    bool is_full; /* a message was dropped: there was no room for it */
    char *in;     /* owned: the beginning of a message */
    size_t in_bytes;
};

struct hosts_events {
    void (*message)(void *context, uint32_t host, uint32_t type, const char *body, uint32_t bytes);
    void (*gone)(void *context, uint32_t host, const char *how);
    void *context;
};

struct hosts {
    uint32_t count, host, world_size;
    struct board_host list[BOARD_RANKS_MAX];
    char cookie[PROTOCOL_COOKIE_CHARS + 1]; /* the job's */
    uint32_t threads;                       /* of each rank, the same on all hosts; 0: as the program chooses */
    int leader_listener;                    /* owned: where this host's leader listens */
    uint32_t timeout_ms;                    /* --host-timeout */
    uint32_t pause_ms;                      /* so much longer one is waited for that has said that it is stopped */
    uint64_t ends_ms;                       /* when the job has come to its end here, and not well: from then on no longer; 0: it has not */
    bool is_refused;                        /* the meeting has failed by what a host said: those that come later wait for an answer still */
    bool is_told[BOARD_RANKS_MAX];          /* on the first host: it has come, or has refused */
    int looks;                /* owned: to the thread that looks at this host's files for the others (look.h); -1: there is none yet */
    struct hosts_peer *peers; /* owned: count; elsewhere than on the first host only peers[0] is used */
    struct hosts_events events;
};

/* hosts_meet.c: waits for all hosts. Returns 0, or -1 with *problem. plan: its program and threads are compared. The caller clears. */
int hosts_meet(struct hosts *hosts, const struct config *config, const struct plan *plan, struct problem *problem);

/* hosts_refuse.c: the others are told, as long as they may come; where somebody reads at a terminal for some seconds. hosts: NULL when this host has refused
   its part before it came to the meeting, else what the meeting has left. */
void hosts_refuse(const struct config *config, struct hosts *hosts, const struct problem *problem);

/* hosts.c */
static inline bool hosts_is_first(const struct hosts *hosts) {
    return hosts->host == 0;
}
/* Queues a message for one host, or for all that there is a connection to, but `except` (-1: none): the first host tells each, the others tell the first. */
void hosts_tell_peer(struct hosts_peer *peer, uint32_t type, const void *body, size_t bytes);
void hosts_tell(struct hosts *hosts, uint32_t host, uint32_t type, const void *body, size_t bytes);
void hosts_tell_all(struct hosts *hosts, int except, uint32_t type, const void *body, size_t bytes);
/* The same for what the next of its kind replaces: one that is stopped, and reads nothing for hours, gets it when it goes on. */
void hosts_tell_ready(struct hosts *hosts, uint32_t type, const void *body, size_t bytes);
/* Writes what can be written now. */
void hosts_flush(struct hosts *hosts);
void hosts_add(struct hosts *hosts, struct loop *loop);
/* Who has not been heard for too long is gone, and who lets too much wait. */
void hosts_on_time(struct hosts *hosts, uint64_t now_ms);
/* This launcher was stopped itself: nobody was silent. */
void hosts_forget_clocks(struct hosts *hosts, uint64_t now_ms);
/* Reads one message from a connection into *body, borrowed until the next call. 1: a message; 0: none now; -1: closed, or nonsense. */
int hosts_read(struct hosts_peer *peer, struct hosts_header *header, const char **body);
void hosts_close(struct hosts_peer *peer);
void hosts_clear(struct hosts *hosts);

#endif
