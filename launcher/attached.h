/*
 * Shared memory of processes that meet the other ranks' before they are ranks: Python programs that change files before they import torch, or never do.
 *
 * The k-th process of a rank that does a program meets the k-th ones of the others that do the same. Each such group has a segment of its own, which is the
 * ranks' when they claim. It is let go when all ranks' processes have come and ended.
 */
#ifndef ACCEL_RUN_ATTACHED_H
#define ACCEL_RUN_ATTACHED_H

#include <stdbool.h>
#include <stdint.h>

#include "segment.h"

struct attached {
    struct attached *next;
    uint64_t program;
    struct segment segment;
    uint32_t world_size, come, open; /* processes that there will be, have been, and are */
    bool is_kept;                    /* one has claimed: its board is looked at later, too */
    bool has_come[BOARD_RANKS_MAX];
};

/* Newest first; NULL: none. */
struct attached_list {
    struct attached *newest;
};

/* The rank's next process that does this program has come. Borrowed, until attached_leave(); NULL with errno. */
struct attached *attached_come(struct attached_list *list, const struct segments *job, uint64_t program, uint32_t rank);
/* One of its processes has ended. */
void attached_leave(struct attached_list *list, struct attached *attached);
/* Tells all of them to stop. */
void attached_abort(const struct attached_list *list);
void attached_clear(struct attached_list *list);

#endif
