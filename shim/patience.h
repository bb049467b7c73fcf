/*
 * Patience with another rank that may never come: it has gone another way, and waits for this one.
 *
 *  - Who has done nothing but wait for this rank for long is gone on without. A rank that is merely late must not be: it computes, or writes other files.
 *  - Where that has happened before, little is waited. A mark says where: files that are called alike, a thread. Others keep their patience.
 *  - A mark does not stay for ever, since a disk that was slow once goes on to be as fast as before: it is forgiven when so many have come in time, one after
 *    the other. The next time that takes twice as many, so a program whose threads part again and again does not wait long again and again.
 *  - Any thread. No lock: of two that are marked at one moment, one may be lost.
 */
#ifndef ACCEL_SHIM_PATIENCE_H
#define ACCEL_SHIM_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/clock.h"

enum { PATIENCE_MS = 10000, PATIENCE_LITTLE_MS = 100 };
enum { PATIENCE_REMEMBERED = 256, PATIENCE_FORGIVES = 8, PATIENCE_FORGIVES_AT_MOST = 16 /* times */ };

/* Since when the other one has done nothing but wait. */
struct patience {
    struct clock_wait idle;
    uint64_t done;
};

static inline struct patience patience_begin(uint64_t done) {
    return (struct patience){clock_wait_begin(), done};
}

/* How long it has done so. waits: for this rank, now; done: changes with what it does. To be asked in each nap. */
uint64_t patience_idle_ms(struct patience *patience, bool waits, uint64_t done);

enum patience_kind {
    PATIENCE_NAMES,          /* patience_likeness() */
    PATIENCE_THREAD,         /* its number */
    PATIENCE_THREAD_IN_VAIN, /* likewise, for a whole deadline */
    PATIENCE_ENDS,           /* of files of such names, or of none on that thread */
    PATIENCE_ENDS_HERE,      /* the same on the thread that meets */
};
/* what 0: of no mark. */
uint64_t patience_mark_of(uint32_t rank, enum patience_kind kind, uint64_t what);
void patience_mark(uint64_t mark);
/* The other one has come in time. */
void patience_note_coming(uint64_t mark);
void patience_unmark(uint64_t mark);
/* How often it has been marked. */
uint32_t patience_times(uint64_t mark);

/* What names have in common that differ in numbers, or in such hashes as programs name files by: such files are written alike. 0: of no name. */
uint64_t patience_likeness(const char *name);

#endif
