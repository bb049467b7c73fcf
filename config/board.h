/*
 * The board: first page of the shared memory segment, where every rank writes what it is doing and anybody can stop the job.
 *
 * The segment is a memfd made by the launcher and handed to each rank with its grant: no name in /dev/shm, no size limit of a
 * container's /dev/shm (L27), gone with its last user whatever kills it. Launcher and ranks map the same pages.
 *
 *   [ struct board, each rank's deeds: board_bytes(world_size) | communication area of shim/comm: board_comm_bytes(world_size) ]
 *
 * All fields are written with atomics; nobody waits here (waiting is shim/comm's).
 *
 * Over several hosts each has a segment of its own, laid out alike: everything is indexed by the rank in the whole job. Lines, arrivals and answers of other
 * hosts' ranks are copied in by the launcher (launcher/hosts/relay.c), control blocks and staging memory by the host's leader (shim/comm/hosts.c). Pages that
 * nobody writes cost nothing.
 */
#ifndef ACCEL_RUN_BOARD_H
#define ACCEL_RUN_BOARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define BOARD_MAGIC 0x6172626fu
#define BOARD_RANKS_MAX 256
#define BOARD_WHERE_CHARS 48
#define BOARD_THROWER_CHARS 40

/* What a rank is doing, for the words of the launcher's messages ("rank 2 was in backward, step 17"). */
enum board_phase {
    BOARD_STARTING = 0, /* before the claim */
    BOARD_SETUP,        /* claimed, before the first shard */
    BOARD_FORWARD,      /* last event: a batch was cut */
    BOARD_BACKWARD,     /* inside the autograd engine */
    BOARD_REDUCE,       /* reducing gradients */
    BOARD_STEP,         /* after a backward: optimizer and everything until the next batch */
    BOARD_SAVE,         /* writing a checkpoint */
    BOARD_PHASES
};

/* One host of several: its ranks are [first, first + count). */
#define BOARD_HOST_CHARS 64
struct board_host {
    uint32_t first, count;
    uint32_t address_bytes;
    unsigned char
        address[28]; /* struct sockaddr_in or sockaddr_in6: where the host's leader, its first rank, is reached by those of the others */
    char name[BOARD_HOST_CHARS]; /* for messages */
    char node[BOARD_HOST_CHARS]; /* as it calls itself (uname), and as its programs name files */
};

enum board_waiting {
    BOARD_WAITS_NOT,
    BOARD_WAITS,          /* inside a collective */
    BOARD_WAITS_FOR_TURN, /* before it: a thread whose turn has not come */
};

struct board_rank {
    _Atomic int32_t pid;
    _Atomic uint32_t phase;        /* enum board_phase */
    _Atomic uint64_t step;         /* backwards finished */
    _Atomic uint64_t collective;   /* collectives entered */
    _Atomic uint32_t waiting;      /* enum board_waiting: a rank that does not wait is the one the others wait for */
    char where[BOARD_WHERE_CHARS]; /* label of the last collective or phase; may be torn, for messages only */
    _Atomic uint64_t thrown;       /* of the operators that have thrown so far (shim/torch/thrown.c), and the last one's name */
    char thrower[BOARD_THROWER_CHARS];
} __attribute__((aligned(128)));

/*
 * Where the ranks meet when the program changes the file system (shim/meeting.h): apart from the collectives, which may run on another
 * thread meanwhile.
 */
#define BOARD_PATH_CHARS 4096
#define BOARD_MEETING_CHARS 240
#define BOARD_ENDS 8192 /* how many files may be open at a time, as far as their ends are told of (hooks/files/written.c) */

struct board_arrival {
    _Atomic uint64_t number;        /* meetings this rank has come to */
    uint64_t thrown;                /* as its line had it then */
    uint32_t kind;                  /* what it wants: enum meeting_kind */
    char path[BOARD_MEETING_CHARS]; /* for messages */
} __attribute__((aligned(64)));

/* What rank 0 has done with a file that was opened in a meeting. */
struct board_end {
    _Atomic uint64_t seen;   /* number of the meeting: the name is there */
    _Atomic uint64_t number; /* likewise: it is closed */
    _Atomic uint64_t most;   /* bytes that it could have */
    _Atomic int32_t error;   /* of close, an errno */
};

struct board_meetings {
    _Atomic uint32_t bell;             /* futex, rung at every change */
    _Atomic uint64_t answered;         /* meetings that rank 0 has answered; its answer to the last: */
    int32_t error;                     /* an errno, or 0 */
    uint32_t answer;                   /* what it did: the hook's */
    char paths[2][BOARD_PATH_CHARS];   /* rank 0's spelling of the names */
    struct board_end ends[BOARD_ENDS]; /* at the file's place in rank 0's table: nobody else's before it is closed */
    struct board_arrival arrivals[BOARD_RANKS_MAX];
};

/*
 * What ranks do with files on threads that do not meet (shim/beside.h): rank 0's line holds what it has done, the others' what they have come to do.
 */
#define BOARD_NO_FILE BOARD_ENDS     /* what has been done opened none */
#define BOARD_COMES (BOARD_ENDS + 1) /* it is not done yet: rank 0 waits for the others */
#define BOARD_DEEDS 1024             /* how many of each rank are remembered: each of its threads has one that is waited for */

struct board_deed {
    _Atomic uint64_t number; /* 1, 2, ... of the rank; written last */
    uint64_t key;            /* what is done, and to which name */
    int32_t error;           /* of rank 0: an errno, or what the hook makes of it */
    uint32_t place;          /* of rank 0, of a file that it has opened: where its end is told of; else one of those above */
};

struct board_deeds {
    _Atomic uint64_t count;
    _Atomic uint32_t has_ended;          /* the rank does nothing any more */
    _Atomic uint32_t waiting;            /* how many of its threads wait for another rank's */
    struct board_deed list[BOARD_DEEDS]; /* at number % BOARD_DEEDS */
} __attribute__((aligned(64)));

/* Of a file that has been opened so. Rank 0 may close it, and do much else, long before another rank does: the end stays until its place is another file's. */
struct board_beside_end {
    _Atomic uint64_t number; /* of rank 0's deed that opened it: it is closed */
    _Atomic uint64_t most;   /* bytes that it could have */
    _Atomic int32_t error;
};

/* By one writer at a time. A younger file may have had the place, and be closed, before an older one's end is told. */
static inline void board_end_beside(struct board_beside_end *end, uint64_t number, uint64_t most, int32_t error) {
    if (atomic_load(&end->number) >= number)
        return;
    atomic_store(&end->most, most);
    atomic_store(&end->error, error);
    atomic_store(&end->number, number);
}

struct board {
    uint32_t magic;
    uint32_t world_size;
    uint32_t hosts, host; /* how many share the job, and which this one is; hosts 0 or 1: this one has all ranks */
    struct board_host list[BOARD_RANKS_MAX];
    _Atomic uint32_t abort;      /* 0 running; else the job is being stopped: 1 + rank that asked, or BOARD_ABORT_LAUNCHER */
    _Atomic uint32_t last_words; /* the job is being stopped, and rank 0 has written what the program had printed */
    /* By the monotonic clock: when rank 0 was last seen to be held up by what it alone does for the program, by who reads the output or by a disk that takes
       what it saves (launcher/held.c); the others' deadlines begin anew then. */
    _Atomic uint64_t held_ns;
    struct board_rank ranks[BOARD_RANKS_MAX];
    struct board_meetings meetings;
    char deed_paths[BOARD_DEEDS][BOARD_MEETING_CHARS]; /* of rank 0's; empty: too long */
    struct board_beside_end beside_ends[BOARD_ENDS];   /* at the file's place in rank 0's table */
    struct board_deeds deeds[];                        /* of each rank: a limit of file size (ulimit -f) counts what nobody uses, too */
};

#define BOARD_ABORT_LAUNCHER 0xffffffffu

/* The communication area (shim/comm/segment.h): one page of common words, a control block per rank, a ring of staging memory per rank. */
#define BOARD_COMM_COMMON_BYTES 4096u
#define BOARD_COMM_CONTROL_BYTES (72u << 10) /* per rank; pages that nobody needs are never made */
#define BOARD_COMM_RING_BYTES (2u << 20)     /* per rank; more than a core's second-level cache holds: see shim/comm/segment.h */

/* As it is shown. */
static inline const char *board_thrower(const char *thrower) {
    return *thrower ? thrower : "none";
}

static inline size_t board_bytes(uint32_t world_size) {
    return (sizeof(struct board) + world_size * sizeof(struct board_deeds) + 4095) & ~(size_t)4095;
}

static inline size_t board_comm_bytes(uint32_t world_size) {
    return BOARD_COMM_COMMON_BYTES + (size_t)world_size * (BOARD_COMM_CONTROL_BYTES + (size_t)BOARD_COMM_RING_BYTES);
}

/* The whole memory through which a job's ranks exchange: the board, and the communication area behind it. */
static inline size_t board_segment_bytes(uint32_t world_size) {
    return board_bytes(world_size) + board_comm_bytes(world_size);
}

#endif
