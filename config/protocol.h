/*
 * What launcher and shim say to each other: the variables in a rank's environment and the messages on the claim socket.
 *
 * Rules
 *  - Compiled into both sides; libc only; no behaviour, only names and layouts.
 *  - A change of any layout raises PROTOCOL_VERSION. The shim of another version passes through and says so.
 *  - The socket is an abstract unix socket of type SOCK_SEQPACKET: message borders are kept, nothing lies in the file system,
 *    and it vanishes with the launcher. A message is one struct protocol_header followed by `bytes` bytes.
 *  - Whoever can reach the socket is a stranger to the launcher until its user id and the job's secret are right.
 */
#ifndef ACCEL_RUN_PROTOCOL_H
#define ACCEL_RUN_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PROTOCOL_VERSION 16

/* Environment of a rank. Nothing else of ours is exported (RANK, WORLD_SIZE... would switch programs into their own DDP: L29). */
#define PROTOCOL_ENV_SOCKET "ACCEL_RUN_SOCKET" /* name in the abstract name space, without the leading zero byte */
#define PROTOCOL_ENV_COOKIE "ACCEL_RUN_COOKIE" /* PROTOCOL_COOKIE_CHARS hexadecimal characters */
#define PROTOCOL_ENV_RANK "ACCEL_RUN_RANK"     /* the rank this process tree may claim: 0 .. world size - 1 */
#define PROTOCOL_ENV_HOSTS "ACCEL_RUN_HOSTS"   /* how many hosts the job has; only where there are several */

/* How the socket's name ends, where /proc tells: the boot's id and the number of the network namespace, within which alone the name is known. */
#define PROTOCOL_PLACE "%.4s%08llx"
#define PROTOCOL_PLACE_BOOT 4
#define PROTOCOL_PLACE_CHARS 12

/* Set by `accel-run doctor` alone: the rank's first process claims at once, exchanges known numbers with the other ranks, says what it cost, and goes on as
   a process without a launcher (shim/exchange.c). */
#define PROTOCOL_ENV_EXCHANGE "ACCEL_RUN_TEST_EXCHANGE"
#define PROTOCOL_EXCHANGE_WORDS "exchange verified"

/* The hook table in libaccelshim.so, as text (shim/table.c). */
#define PROTOCOL_ROWS_SECTION ".accel_run.rows"

#define PROTOCOL_COOKIE_CHARS 32
#define PROTOCOL_TEXT_MAX 8448 /* two paths and what is said of them */

enum protocol_type {
    PROTOCOL_CLAIM = 1,   /* shim → launcher: struct protocol_claim */
    PROTOCOL_GRANT = 2,   /* launcher → shim: struct protocol_grant, with PROTOCOL_DESCRIPTORS as SCM_RIGHTS */
    PROTOCOL_DENY = 3,    /* launcher → shim: text, the reason; the process becomes OTHER */
    PROTOCOL_LOG = 4,     /* shim → launcher: level (one byte: 'd' 'i' 'w' 'e') then text; printed by the launcher as a whole line */
    PROTOCOL_PROBLEM = 5, /* shim → launcher: struct protocol_problem; the launcher stops the job with it */
    /* shim → launcher: text "kind count name detail" with tabs between; the last one's kind is "end" (end us) or "stopped", its count the steps made */
    PROTOCOL_REPORT = 6,
    PROTOCOL_MEETING =
        7, /* shim → launcher, where there are several hosts: struct protocol_meeting and its texts; it goes on to the others (shim/meeting.h) */
    PROTOCOL_LOOK = 8,   /* shim → launcher of another host than the first: struct protocol_look and a path (shim/first_host.h) */
    PROTOCOL_LOOKED = 9, /* launcher → shim: struct protocol_looked and data */
    PROTOCOL_CHILD =
        10, /* a rank's forked child → launcher, on a connection of its own: struct protocol_child; the launcher stops the job with it */
    PROTOCOL_CHILD_TRAINS =
        11, /* a rank's child → launcher, on a connection of its own: struct protocol_claim; it has begun a backward of its own */
    PROTOCOL_ATTACH =
        12, /* shim → launcher: struct protocol_claim; answered like a claim, but the rank stays free: the process may claim it later, on this connection */
    PROTOCOL_IS_TAKEN =
        14, /* shim → launcher, on a connection of its own: struct protocol_claim; denied: another process is this rank. Else it ends */
    PROTOCOL_CHILD_WRITES =
        13, /* a process that the program has started → launcher, on a connection of its own: struct protocol_child; a warning of its files */
    PROTOCOL_SIGNALLED =
        15, /* shim → launcher: int32_t, the number of a signal that somebody outside the job has sent to this rank alone */
};

/* An operator has thrown for a value in one rank's rows, and the program goes on (AR-RANKS-PARTED). */
#define PROTOCOL_THROWN_CURE                                                                                                               \
    "Look at the values before the operator does, as \"if (p <= 1).all()\", which all ranks answer alike, or run with -n 1."
/* At the end: for two ranks, each with the last operator. */
#define PROTOCOL_THROWN_END                                                                                                                \
    "the program ended well, but operators have thrown exceptions on some ranks alone (the last on rank %u: %s; on rank %u: %s), and it "  \
    "has caught them: what it has printed is not what one process prints"

struct protocol_header {
    uint32_t type;  /* enum protocol_type */
    uint32_t bytes; /* of what follows; at most PROTOCOL_TEXT_MAX */
};

/* What comes with a grant, in this order: the shared memory, and the read end of a pipe that only the launcher can write to and never does. Its end
   of file is the launcher's death. It is a pipe of its own because a shim that has filled the socket's buffer would take the signal that says
   "there is room again" for the one that says "gone". */
enum { PROTOCOL_SEGMENT, PROTOCOL_LIFELINE, PROTOCOL_DESCRIPTORS };
/* The first rank of each of several hosts gets one more: the socket at which it listens for the others' (shim/comm/network_connect.c). */
enum { PROTOCOL_LISTENER = PROTOCOL_DESCRIPTORS, PROTOCOL_DESCRIPTORS_MOST };

struct protocol_claim {
    uint32_t version;                   /* PROTOCOL_VERSION of the shim */
    uint32_t rank;                      /* from PROTOCOL_ENV_RANK */
    int32_t pid;                        /* checked against SO_PEERCRED (a pid of another name space may differ: then the kernel's wins) */
    char cookie[PROTOCOL_COOKIE_CHARS]; /* no terminator. Up to here all versions are alike: one of another is told from a stranger */
    uint64_t program;                   /* the same for the same program of each rank (hooks/seed/program.c); 0: not known */
};

/* How long what all versions have in common is. */
#define PROTOCOL_CLAIM_COMMON (offsetof(struct protocol_claim, cookie) + PROTOCOL_COOKIE_CHARS)

struct protocol_grant {
    uint32_t rank;
    uint32_t world_size;
    uint64_t segment_bytes;         /* of the shared memory segment: board (config/board.h) + communication area */
    uint32_t cores;                 /* cores the job may use: decides how a barrier waits */
    uint32_t collective_timeout_ms; /* deadline of every collective */
    uint32_t flags;                 /* PROTOCOL_FLAG_* */
    uint32_t record_steps;          /* with PROTOCOL_FLAG_RECORD: backward passes */
    uint32_t generation;            /* which program of the job this is: 0, 1, ... */
    uint32_t log_level;             /* 0 errors, 1 warnings and notices, 2 information, 3 debugging */
};

#define PROTOCOL_FLAG_EXPLAIN 1u       /* report every operator that was gathered */
#define PROTOCOL_FLAG_SCALE_BATCH 2u   /* the loaders' batches are as many times as large as there are ranks */
#define PROTOCOL_FLAG_RECORD 8u        /* `accel-run explain`: count what is met, report it, end after record_steps */
#define PROTOCOL_FLAG_WHOLE_LOADING 4u /* every rank reads all rows */

enum protocol_meeting_what {
    PROTOCOL_MEETING_COME,   /* a rank has come: number, kind, its path, what it has thrown in `bytes` */
    PROTOCOL_MEETING_ANSWER, /* rank 0 has answered: number, error, answer, its paths */
    PROTOCOL_MEETING_SEEN,   /* a file's name is there: number */
    PROTOCOL_MEETING_END,    /* it is closed: number, error, how many bytes it could have in `bytes` */
    PROTOCOL_MEETING_DEED, /* on a thread that does not meet (shim/beside.h): number, error, its key in `bytes`, of rank 0 its path and a file's place */
    PROTOCOL_MEETING_CLOSED, /* of a file that such a deed has opened: the same, its place in `answer` */
    PROTOCOL_MEETING_NONE,   /* there will be none any more */
};

struct protocol_meeting {
    uint32_t what, kind; /* enum protocol_meeting_what; enum meeting_kind */
    uint64_t number, bytes;
    int32_t error;
    uint32_t answer;
    uint32_t lengths[2]; /* of the texts that follow, without terminators */
};

/* What the first host is asked about its files. */
enum protocol_look_what {
    PROTOCOL_LOOK_STATUS, /* stat */
    PROTOCOL_LOOK_NAME,   /* lstat */
    PROTOCOL_LOOK_ACCESS, /* access, with the mode in `offset` */
    PROTOCOL_LOOK_READ,   /* stat, and of a regular file what stands there from `offset` on */
    PROTOCOL_LOOK_LIST,   /* entries of a directory from number `offset` on: struct protocol_entry, the name, a zero byte */
    PROTOCOL_LOOK_LINK,   /* readlink */
};

#define PROTOCOL_LOOK_DATA (32u << 10)
#define PROTOCOL_PATH_MAX 4096

struct protocol_look {
    uint64_t number, offset;
    uint32_t what;
    uint32_t path_bytes; /* of what follows, without a terminator: absolute */
};

struct protocol_status {
    uint64_t device, inode, links, size, block_bytes, blocks, special;
    uint32_t mode, user, group, unused;
    int64_t accessed[2], modified[2], changed[2]; /* seconds, nanoseconds */
};

struct protocol_looked {
    uint64_t number;
    int32_t error;  /* errno; 0: done; PROTOCOL_LOOK_LATER: nobody could look, ask again */
    uint32_t bytes; /* of what follows */
    struct protocol_status status;
};
#define PROTOCOL_LOOK_LATER (-1)

struct protocol_entry {
    uint64_t inode;
    unsigned char type; /* DT_... */
} __attribute__((packed));

/* id: the stable message id ("AR-..."), what: what happened and where, cure: what to do. NUL-terminated. */
struct protocol_problem {
    char id[32];
    char what[2048];
    char cure[1024];
};

/* The rank is the one below which the child was started. */
struct protocol_child {
    struct protocol_claim claim;
    struct protocol_problem problem;
};

/* What stands before a line of this level (PROTOCOL_LOG). What begins with an id has the form of all messages: "warning AR-...: what". */
static inline const char *protocol_level_word(char level, const char *text) {
    if (level == 'e')
        return "error: ";
    return level != 'w' ? "" : strncmp(text, "AR-", 3) ? "warning: " : "warning ";
}

#endif
