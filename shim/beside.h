/*
 * Files on threads that do not meet: a checkpoint is written, renamed and pruned beside the training, by a thread of its own or one of several.
 *
 * Rules
 *  - Which thread of a rank belongs to which of another one nobody knows. So the ranks come together by what is done, and to which name: the key. The
 *    second time that something is done to a name is the other ranks' second time.
 *  - Rank 0 waits until all have come with the key, and acts; the others get its result. So a thread that does the same on all ranks sees, between two of
 *    its changes, what it would see in one process.
 *  - A key that another rank does not come with: that rank has ended, or it waits for this one meanwhile and does nothing else (patience.h), or the deadline
 *    is over. Then it is gone on without, with a warning: threads that work by the clock do not do the same everywhere. What rank 0 does is what one process
 *    would do. Rank 0 goes on first, so that the others find what it does: they wait for longer, and for as long as it says that it waits, too.
 *  - Who comes late is not taken for its next time (alone.h). Whoever has waited in vain waits less, until enough have come in time again, for files that are
 *    called alike, and on that thread when it happens often, or for a whole deadline: nobody else does.
 *  - Names in which only a process number or the time differs are the same name, where none of the same letters comes, and both ranks' have a number of
 *    their own process or a time.
 *  - While waiting, a thread has given up Python's lock: the training goes on.
 *  - Any thread; over several hosts the launchers carry what is said, as of meetings (meeting.h).
 */
#ifndef ACCEL_SHIM_BESIDE_H
#define ACCEL_SHIM_BESIDE_H

#include <stdbool.h>
#include <stdint.h>

enum beside_kind {
    BESIDE_OPEN,
    BESIDE_SAVE,
    BESIDE_SAVE_ENDS, /* beside_end_of() */
    BESIDE_CHANGE,    /* and what is added to it */
};

/* A file that rank 0 has opened. */
struct beside_file {
    uint64_t number; /* 0: nobody is told of its end */
    uint32_t place;
};

struct beside {
    uint64_t key, likeness; /* likeness: of names that differ in numbers alone */
    const char *path;       /* the program's; borrowed */
    int error;              /* rank 0's answer; number: of its deeds, the one that is it */
    uint64_t number;
    char rank_0s[240]; /* how it spells the path; empty: not known */
    struct beside_file file;
};

/* At the claim: world size, deadline. */
void beside_begin(uint32_t world_size, uint32_t timeout_ms);

/* Do the names, this rank's and rank 0's, differ in nothing but the folder that each was started in, in times, and in numbers of processes? */
bool beside_spells_alike(const char *own, const char *rank_0s);
/* What is to be done to these names; second: "" for none. */
void beside_name(struct beside *beside, enum beside_kind kind, const char *path, const char *second);
/* Comes to do it. Rank 0: returns when all have come who will, to be followed by beside_answer(). The others: at once, to be followed by beside_await(). */
void beside_come(struct beside *beside);
void beside_answer(struct beside *beside, int error);
/* The same of a file that rank 0 has opened: its place in rank 0's table (below BOARD_ENDS) is its until it is closed. */
void beside_answer_file(struct beside *beside, uint32_t place);
/* False: rank 0 does not do it. */
bool beside_await(struct beside *beside);
/* The key of the end of a save, when its beginning has been answered: of that one alone, however often the name is saved to. */
uint64_t beside_end_of(const struct beside *begun);
/* The same as beside_await() for what rank 0 is certain to do, if only after a while: it has begun it. */
bool beside_await_end(struct beside *beside);
/* Rank 0 has closed the file. most: as of meeting_file_ends(). */
void beside_file_ends(struct beside_file file, uint64_t most, int error);
/* The others wait for that. False: rank 0 ended without, or its answer has been lost. */
bool beside_await_file(struct beside_file file, uint64_t *most, int *error);
/* The rank ends. */
void beside_end(void);

#endif
