/* Keys of what is done to a name (beside.h): what the names are but for numbers of processes and times, what they are letter by letter, and whether this rank's
   have such of its own. Pure. */
#ifndef ACCEL_SHIM_BESIDE_KEY_H
#define ACCEL_SHIM_BESIDE_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "checksum.h"

#define BESIDE_LETTERS 0xfffffffeu
enum { BESIDE_MAY_DIFFER = 1, BESIDE_SPELLING_BITS = 32 };

static inline uint64_t beside_key(uint64_t spelling, uint64_t letters, bool may_differ) {
    return spelling << BESIDE_SPELLING_BITS | (letters & BESIDE_LETTERS) | (may_differ ? BESIDE_MAY_DIFFER : 0);
}

/* Of the end of what rank 0 has begun as its deed of this number. */
static inline uint64_t beside_key_of_end(uint64_t number, uint64_t kind) {
    uint64_t sum = checksum_mix(number, kind);
    return beside_key(sum >> BESIDE_SPELLING_BITS, sum, false);
}

/* Is `other`, which another rank has come with, the same as `key`: by the letters, or (also_other) of names in which numbers of processes or times differ? */
static inline bool beside_key_is(uint64_t other, uint64_t key, bool also_other) {
    bool is_same = other >> BESIDE_SPELLING_BITS == key >> BESIDE_SPELLING_BITS;
    return is_same && (!((other ^ key) & BESIDE_LETTERS) || (also_other && other & BESIDE_MAY_DIFFER));
}

#endif
