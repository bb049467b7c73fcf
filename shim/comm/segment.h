/*
 * What this rank knows of the communication area, and its layout.
 *
 *   [ board | common words | control block x world_size | ring of staging memory x world_size ]
 *
 * Rules
 *  - A rank writes only its own control block and its own ring; everybody reads all of them. Over several hosts the leader, the host's first rank, also
 *    fills those of other hosts' ranks with what comes over the network, and its ring is where the host's ranks put the sum of the host together.
 *  - Rings are claimed in step on all ranks, a turn at a time, the same offset on each. Whoever has passed a barrier knows that all others have left
 *    the turn before the last, so the next turn may be written without a barrier of its own as long as it lies elsewhere than the last two: a turn
 *    is at most a quarter of the ring. Posts come in pairs for the same reason.
 *  - The ring is larger than a core's second-level cache on purpose. Storing to a line that another core has just read runs at 9 GB/s (its copy
 *    must be revoked first), to one that has meanwhile left both caches at 35 GB/s.
 *  - Nothing here is thread-local: collectives come from one thread at a time (comm.h).
 */
#ifndef ACCEL_SHIM_COMM_SEGMENT_H
#define ACCEL_SHIM_COMM_SEGMENT_H

#include <pthread.h>

#include "clock.h"
#include "comm.h"

#define SEGMENT_LABEL_CHARS 64
#define SEGMENT_NOTE_CHARS 40
#define SEGMENT_NOTES 64 /* kept per collective, for messages; all of them are in the hash */

enum segment_kind { KIND_BARRIER, KIND_ALL_REDUCE, KIND_ALL_GATHER, KIND_BROADCAST, KIND_ALL_GATHER_WORDS, SEGMENT_KINDS };

struct segment_note {
    uint64_t value;
    char name[SEGMENT_NOTE_CHARS];
};

/* What a rank is about to do, in words, for the message when ranks differ. */
struct segment_post {
    uint64_t sequence, bytes, blocks, shape, notes_hash;
    uint32_t kind, dtype, op, root, note_count;
    char label[SEGMENT_LABEL_CHARS];
    struct segment_note notes[SEGMENT_NOTES]; /* note n at n % SEGMENT_NOTES */
};

/* Of a host's first rank, who is next, written one after the other; of each, which of its threads (+ 1) wait, in any order. There is room for all threads of a
   program: three ranks of which each had its own 32 of a hundred threads here would wait for ever. */
enum { SEGMENT_WAITERS = 4096, SEGMENT_TURNS = 16 };
struct segment_turn {
    _Atomic uint64_t number;                 /* of the latest turn */
    _Atomic uint64_t threads[SEGMENT_TURNS]; /* whose turn n is, at n % SEGMENT_TURNS: another rank may be some backwards behind */
    _Atomic uint64_t alone;                  /* the number that a rank without a second thread has come to last */
    _Atomic uint32_t used;                   /* waiting[used] and what follows have never held anything */
    _Atomic uint64_t waiting[SEGMENT_WAITERS];
};
enum { TURN_COLLECTIVE, TURN_BACKWARD };

/* One rank's control block. The first line alone is read by the others at every barrier: 128 bytes, because lines are fetched in pairs. */
struct segment_control {
    _Atomic uint64_t arrived;   /* barriers entered since the start */
    _Atomic uint64_t check[2];  /* hash of the post of the same turn */
    _Atomic uint64_t list[2];   /* hash of the list of the same turn: the ranks may differ in it without having parted */
    _Atomic uint32_t wishes[2]; /* comm_wish() of this rank when it entered the turn's collective */
    struct segment_post posts[2] __attribute__((aligned(128)));
    struct segment_turn turns[2] __attribute__((aligned(128))); /* the collective to come, the backward */
};

_Static_assert(sizeof(struct segment_control) <= BOARD_COMM_CONTROL_BYTES, "a control block holds both posts");

/* Words of all ranks: where those sleep who waited too long to spin. */
struct segment_common {
    _Atomic uint32_t bell __attribute__((aligned(128)));     /* futex, rung by the last rank to arrive */
    _Atomic uint32_t sleepers __attribute__((aligned(128))); /* ranks that are, or are about to be, asleep */
    _Atomic uint32_t same_list[2]; /* of several hosts: the leader's word on the lists of the collective with this parity */
    _Atomic uint32_t wishes[2];    /* and on what all ranks wish for */
};

struct segment {
    struct comm_options options;
    struct board *board;
    struct segment_common *common;
    unsigned char *controls, *rings;
    uint32_t first, last;                    /* ranks of this host: [first, last); the first is the leader */
    uint32_t hosts, host;                    /* how many, and which this is; 1, 0 without others */
    uint64_t arrivals;                       /* barriers this rank has entered */
    uint64_t sequence;                       /* collectives this rank has entered */
    size_t ring_offset;                      /* where the next turn begins */
    uint64_t entered_ns;                     /* when the collective in progress was entered */
    uint64_t deadline_ns;                    /* when the wait in progress is given up */
    uint64_t looked_ns;                      /* when that was last looked at */
    const char *label;                       /* of the collective in progress */
    uint64_t left_ns;                        /* when the last one was left */
    uint64_t pause_ns, pause_before_ns;      /* the longest time between two, in this step and in the one before */
    _Atomic uint32_t wishes, wishes_of_main; /* comm_wish() */
    uint64_t thread;                         /* whose turn it is (comm_take_turn()) */
    int has_turn;
    uint64_t backwards; /* taken in turn (comm_take_backward()) */
    struct comm_statistics statistics;
};

/* The one of this process; options.world_size is 0 while not open. */
extern struct segment segment;

/* From now on nothing has moved: a barrier was passed, bytes came from another host. A collective may take as long as it has to while it goes on. */
static inline void segment_wait_begins(void) {
    segment.looked_ns = clock_ns();
    segment.deadline_ns = segment.looked_ns + segment.options.collective_timeout_ms * (uint64_t)1000000;
}

/* Has the wait in progress lasted too long? */
static inline int segment_is_late(void) {
    segment.deadline_ns += clock_pause_ns(&segment.looked_ns);
    uint64_t held_ns = clock_held_ns(), later_ns = held_ns + segment.options.collective_timeout_ms * (uint64_t)1000000;
    segment.deadline_ns = held_ns && later_ns > segment.deadline_ns ? later_ns : segment.deadline_ns;
    return segment.looked_ns >= segment.deadline_ns;
}

static inline struct segment_control *segment_control(uint32_t rank) {
    return (struct segment_control *)(segment.controls + (size_t)rank * BOARD_COMM_CONTROL_BYTES);
}

/* Does this host's leader speak to others for us? */
static inline int segment_is_spread(void) {
    return segment.hosts > 1;
}

static inline int segment_is_leader(void) {
    return segment.options.rank == segment.first;
}

/* The first rank of a host, its leader. */
static inline uint32_t segment_leader(uint32_t host) {
    return segment.board->list[host].first;
}

enum { SEGMENT_TURN_MAX = BOARD_COMM_RING_BYTES / 4 };

/* The ring offset of a new turn of `bytes` bytes, at most SEGMENT_TURN_MAX; a cache line at least. Called in step on all ranks. */
static inline size_t segment_claim(size_t bytes) {
    size_t offset = segment.ring_offset + bytes > BOARD_COMM_RING_BYTES ? 0 : segment.ring_offset;
    segment.ring_offset = offset + (bytes + 127) / 128 * 128;
    return offset;
}

static inline unsigned char *segment_stage(uint32_t rank, size_t offset) {
    return segment.rings + (size_t)rank * BOARD_COMM_RING_BYTES + offset;
}

#endif
