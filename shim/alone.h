/*
 * What this rank has gone on without another one on threads beside the training (beside.h). Pure; one caller at a time.
 *
 *  - A key that it has gone on without is owed: when the other rank comes with it late, that is taken for none of the same key that comes after it: a
 *    thread that has been late once would be one behind for good.
 *  - A mark is what makes it lose patience sooner: files that are called alike, a thread to which it happens again and again, or whose like has not come for a
 *    whole deadline. Others keep theirs: a rank that is merely late must not be gone on without.
 */
#ifndef ACCEL_SHIM_ALONE_H
#define ACCEL_SHIM_ALONE_H

#include <stdbool.h>
#include <stdint.h>

enum { ALONE_REMEMBERED = 256 }; /* of each, the last ones */

/* last: the number of what the rank may still come with for it; what is behind that is another's. */
void alone_owe(uint32_t rank, uint64_t key, uint64_t last);
/* The rank has come with this key, as its deed of this number: was it owed? Then it no longer is. also_other: as beside_key_is(). */
bool alone_was_owed(uint32_t rank, uint64_t key, uint64_t number, bool also_other);

enum alone_kind {
    ALONE_NAMES,          /* alone_likeness() */
    ALONE_THREAD,         /* its number */
    ALONE_THREAD_IN_VAIN, /* for a whole deadline */
};
uint64_t alone_mark_of(uint32_t rank, enum alone_kind kind, uint64_t what);
void alone_mark(uint64_t mark);
void alone_unmark(uint64_t mark);
/* How often it has been marked. */
uint32_t alone_times(uint64_t mark);

/* What names have in common that differ in numbers, or in such hashes as programs name files by. */
uint64_t alone_likeness(const char *name);

#endif
