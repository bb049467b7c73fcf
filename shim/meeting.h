/*
 * Meetings: the ranks come together where the program changes something that they share, the file system. Rank 0 acts, the others wait for
 * its answer.
 *
 * Rules
 *  - A meeting is not a collective: it has its own words on the board, so it does not mix with collectives of another thread.
 *  - Only the thread that claimed the rank meets: it does the same things in the same order on all ranks. Other threads do not.
 *  - Over several hosts the launchers carry what is said from board to board: that a rank has come to rank 0's, rank 0's answers to all.
 *  - All ranks come with the same kind; paths may be spelled differently (by a pid or the time): rank 0's counts. Ranks with other kinds
 *    have parted: the job stops by name. Every wait has the deadline of collectives and looks at the board's abort word.
 *  - Allocates nothing, keeps errno, takes no lock.
 */
#ifndef ACCEL_SHIM_MEETING_H
#define ACCEL_SHIM_MEETING_H

#include <stdbool.h>
#include <stdint.h>

enum meeting_kind {
    MEETING_START, /* the ranks have been claimed, and files are open already */
    MEETING_OPEN,
    MEETING_DIRECTORY,
    MEETING_NODE, /* a named pipe or a device */
    MEETING_RENAME,
    MEETING_REMOVE,
    MEETING_LINK,
    MEETING_TRUNCATE,
    MEETING_ATTRIBUTES,
    MEETING_LOCK, /* rank 0 may wait for another program, as long as that will */
    MEETING_PIPE, /* rank 0 waits for who reads it */
    MEETING_CHILD,
    MEETING_COMMAND, /* rank 0 runs it, as long as it takes */
    MEETING_KINDS
};

struct meeting {
    uint64_t number;      /* 1, 2, ... */
    int error;            /* rank 0's errno, or 0 */
    uint32_t answer;      /* rank 0's, as it gave it */
    const char *paths[2]; /* rank 0's; valid until the next meeting */
};

/* At the claim: world size and deadline. */
void meeting_begin(uint32_t world_size, uint32_t timeout_ms);
/* Before the claim: a thread that opens a file is about to claim, and is not the one that trains. */
void meeting_will_be_of_main_thread(void);
/* Threads have claimed that differ between the ranks: it is the main thread, then, that changes files together with the others. */
void meeting_is_of_main_thread(void);
/* True on the thread that claimed, in a rank of several, never in a child. Costs a system call. */
bool meeting_is_here(void);

/* Comes to the next meeting. On rank 0: returns when all ranks have come; to be followed by meeting_answer(). On the others: returns at
   once; to be followed by meeting_await(). path, second: the names, second may be NULL. */
void meeting_come(struct meeting *meeting, enum meeting_kind kind, const char *path, const char *second);
/* After coming: waits until all have, where this host knows. */
void meeting_await_all(const struct meeting *meeting);
/* Rank 0, between coming and answering: have all come with the same? Of the beginning of their paths. */
bool meeting_is_of_one_name(bool (*is_same)(const char *rank_0s, const char *other));
void meeting_answer(struct meeting *meeting, int error, uint32_t answer);
void meeting_await(struct meeting *meeting);
/* A meeting at which rank 0 has nothing to do: all go on when all have come. */
void meeting_hold(enum meeting_kind kind, const char *path, const char *second);

/* The bell on the board (struct board_meetings): rung at every change; sleeps until it is rung after it has shown `bell`, a moment at most. Any thread. */
void meeting_ring(void);
void meeting_nap(uint32_t bell);
/* Of a wait, in which rounds of yielding come first, since most others come at once: false when it is time to nap. Then it is also to be looked whether the
   job is being stopped, or the late rank's launcher. */
bool meeting_yields(unsigned round);
void meeting_look_for_end(uint32_t late);
/* Does the rank wait for that one: at a meeting or in a collective to which that one has not come yet? Any thread. */
bool meeting_waits_for(uint32_t rank, uint32_t whom);

/* A file that was opened in meeting `number`, 0: none. place: below BOARD_ENDS, no other file's while rank 0 has it open. */
struct meeting_file {
    uint64_t number;
    uint32_t place;
    uint64_t likeness; /* meeting_likeness() */
};
/* Of files that are written alike (patience.h), by their name; 0: it has none. */
uint64_t meeting_likeness(const char *path);
/* Rank 0: its name can be seen. It is closed and whole. most: it could have no more bytes, since the disk has no more room. */
void meeting_file_is_seen(struct meeting_file file);
void meeting_file_ends(struct meeting_file file, uint64_t most, int error);
/* The others: waits until its name can be seen, unless rank 0 goes on without. Waits until it is closed, on any thread; false: rank 0 has gone on without. */
void meeting_await_name(struct meeting_file file);
bool meeting_await_file(struct meeting_file file, uint64_t *most, int *error);

#endif
