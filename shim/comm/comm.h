/*
 * Collectives between the ranks of a job: through shared memory on a host (shared_memory.c), by TCP between hosts (hosts.c, network.c).
 *
 * Rules
 *  - Called from one thread at a time per rank (the callers hold the shim's communication lock).
 *  - Every rank calls the same collectives in the same order with the same label, counts and types. Each call carries a sequence number and a
 *    hash of all that (and of what comm_note() folded in); a difference ends the job by name ("ranks have parted"), never in a hang.
 *  - Every wait has a deadline (struct comm_options), of what does not go on, and looks at the board's abort word.
 *  - Results are bit-identical on all ranks: each element is reduced once, in the order of the ranks 0 .. world_size - 1. Over several hosts sums that are
 *    too long for one message are made of the hosts' sums, in the order of the hosts.
 *  - A collective that cannot be finished does not return: it calls options.fail (which tells the launcher and waits for the end).
 *  - Knows nothing of libtorch. Tested and measured by programs of its own: tests/unit/comm_test.c, tests/bench/all_reduce.c.
 */
#ifndef ACCEL_SHIM_COMM_H
#define ACCEL_SHIM_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "../../config/board.h"

enum comm_dtype {
    COMM_FLOAT32,
    COMM_FLOAT64,
    COMM_FLOAT16,  /* accumulated in float32, rounded to nearest even once */
    COMM_BFLOAT16, /* likewise */
    COMM_INT64,
    COMM_INT32,
    COMM_INT16,
    COMM_INT8,
    COMM_UINT8, /* and bool: SUM of bool is a logical or */
    COMM_BOOL,
    COMM_DTYPES
};

enum comm_op { COMM_SUM, COMM_MIN, COMM_MAX, COMM_OPS };

struct comm_span {
    void *data;   /* contiguous, aligned to its element */
    size_t count; /* elements */
};

struct comm_options {
    uint32_t rank, world_size;
    uint32_t cores;                 /* cores of the job on this host: spin when ranks <= cores, else yield early, then futex */
    uint32_t collective_timeout_ms; /* deadline of one wait of a collective */
    void *segment;                  /* mapped memfd: board + communication area, zero when the job starts */
    size_t segment_bytes;
    /* Called now and then while rank `late` is waited for; NULL: nobody looks. May not return. */
    void (*look)(uint32_t late);
    /* Where the board says that there are several hosts, their first ranks (leaders) connect to each other: */
    int listener;        /* of a leader: the socket of its address on the board; taken over */
    const char *secret;  /* of the job: who does not know it is no leader */
    uint32_t generation; /* which program of the job this is: 0, 1, ... */
    /* Not 0: the program has several threads, which take turns (comm_take_turn()). NULL: there is one. */
    const _Atomic uint8_t *are_several;
    uint64_t (*thread)(void); /* which this is, the same word on all ranks; 0: the main one */
    /* What a user who asks for more may want to know; NULL: nobody. */
    void (*say)(const char *what);
    /* Never returns. id: message id; what: text that names ranks and labels. */
    void (*fail)(const char *id, const char *what) __attribute__((noreturn));
};

/* Attaches to the segment; a leader of several hosts waits for the others. Returns 0, or -1 with a text in *problem when the segment does
   not fit the options. One per process. */
int comm_open(const struct comm_options *options, const char **problem);
/* Forgets everything (in a forked child). Touches no shared memory. */
void comm_forget(void);
uint32_t comm_rank(void);
uint32_t comm_world_size(void);

/* Element size of a type in bytes. */
size_t comm_dtype_bytes(enum comm_dtype dtype);

/* Before the lock: this thread is going to ask for a turn. */
void comm_ask_turn(int is_for_backward);
/* Threads of a program take turns, in the order of the host's first rank (turn.c). Inside the caller's lock, before the first of one or several collectives:
   may this thread have them now? COMM_TURN_OTHERS: another one is first; leave the lock and ask again. COMM_TURN_UNKNOWN: nobody knows yet; likewise, but
   it may be soon. since_ns: of the first time, by clock_ns(); at the deadline of collectives it does not return. comm_end_turn() before the lock is left
   for good. */
enum comm_turn { COMM_TURN_OTHERS, COMM_TURN_UNKNOWN, COMM_TURN_TAKEN };
enum comm_turn comm_take_turn(uint64_t since_ns);
/* The same inside a lock that is held over several turns, of a thread that will have at least one. */
enum comm_turn comm_take_backward(uint64_t since_ns);
void comm_end_turn(void);

/* Folds a fact that must be the same on every rank (a checksum of a batch, a size) into the hash that the next collective compares.
   what: a short name, shown when the ranks differ (its first 39 characters; copied). Free of waiting. Of several threads each one's are kept
   for its next turn. */
void comm_note(const char *what, uint64_t value);
/* What a thread, or a task, that is done has noted since its last turn. To be asked for first, without a lock: are there any such notes of some thread? */
int comm_has_notes(void);
void comm_note_no_more(uint64_t thread);

/* Waits for all ranks. label: a literal or any string that lives during the call. */
void comm_barrier(const char *label);

/* Reduces, in place, the concatenation of `count` spans of one type over all ranks. Spans may be of any size and need not be adjacent: they pass
   through staging memory in cache-sized chunks as one stream. Bit-identical on all ranks. */
void comm_all_reduce(const char *label, const struct comm_span *spans, size_t count, enum comm_dtype dtype, enum comm_op op);

/* The same, of a list that the ranks may have made different (gradients of parameters that only some of them reached). list: a hash of it, not 0. Returns 1;
   or, where the lists, bytes or types differ, 0 on all ranks with nothing changed, at the price of one barrier. */
int comm_all_reduce_listed(const char *label, uint64_t list, const struct comm_span *spans, size_t count, enum comm_dtype dtype,
                           enum comm_op op);

/* The same as comm_all_reduce(), for large spans, where there is an arena (arena_is_open()): those that lie in all ranks' arenas are summed where they are.
   onto: for each span NULL, or as much memory, the same on all ranks, that the sum is added to instead of being left in the span, whose contents are then
   undefined. Spans and these do not overlap each other. */
void comm_all_reduce_in_place(const char *label, const struct comm_span *spans, void *const *onto, size_t count, enum comm_dtype dtype,
                              enum comm_op op);

/* full: `blocks` blocks, each the concatenation over the ranks of bytes[r] bytes (bytes has world_size entries, the same on all ranks). On entry the
   rank's own part of each block is in place; on return all parts are. */
void comm_all_gather(const char *label, void *full, size_t blocks, const size_t *bytes);

/* Copies `bytes` bytes from rank root's data to everybody's. */
void comm_broadcast(const char *label, void *data, size_t bytes, uint32_t root);

/* One word from each rank, in rank order, into all[world_size]. */
void comm_all_gather_words(const char *label, uint64_t mine, uint64_t *all);
/* Of such words: the first rank whose word is not that of rank 0; the number of ranks: none. No collective. */
uint32_t comm_first_other(const uint64_t *all);

/* Something (a bit of `bits`) that is to be done by all ranks between the same two collectives; by_main: of the main thread. Any thread, and signal
   handlers. */
void comm_wish(uint32_t bits, int by_main);
void comm_wish_no_more(uint32_t bits);
/* Bits that all ranks had wished for when they entered one and the same collective of this thread, since the last call; those wishes are fulfilled. Every
   rank gets them between the same two collectives. */
uint32_t comm_granted(void);
/* A step of the training is done: the pace of the step before counts no more. */
void comm_step(void);
/* How long, in nanoseconds, the next collective may be away at the pace of the last two steps; 0: none is to be expected. Signal handlers may ask. */
uint64_t comm_patience_ns(void);

/* How often and how long (nanoseconds) this rank was in collectives so far; for the report. */
struct comm_statistics {
    uint64_t collectives, bytes, wait_ns;
    uint64_t in_place; /* of the bytes: summed where they lay */
};
struct comm_statistics comm_statistics(void);

#endif
