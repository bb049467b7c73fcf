/*
 * What this rank has gone on without another one on threads beside the training (beside.h). Pure; one caller at a time.
 *
 * A key that it has gone on without is owed: when the other rank comes with it late, that is taken for none of the same key that comes after it: a
 * thread that has been late once would be one behind for good.
 */
#ifndef ACCEL_SHIM_ALONE_H
#define ACCEL_SHIM_ALONE_H

#include <stdbool.h>
#include <stdint.h>

enum { ALONE_REMEMBERED = 256 }; /* the last ones */

/* last: the number of what the rank may still come with for it; what is behind that is another's. */
void alone_owe(uint32_t rank, uint64_t key, uint64_t last);
/* The rank has come with this key, as its deed of this number: was it owed? Then it no longer is. also_other: as beside_key_is(). */
bool alone_was_owed(uint32_t rank, uint64_t key, uint64_t number, bool also_other);

#endif
