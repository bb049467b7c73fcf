/* FNV-1a of 64 bits: tells texts apart, no more. Who shares our user id could do worse than find two that are alike. */
#ifndef ACCEL_RUN_HASH_H
#define ACCEL_RUN_HASH_H

#include <stdint.h>

#define HASH_BEGIN 0xcbf29ce484222325u

/* Goes on from `hash` with the text and its terminator: "ab", "c" is not "a", "bc". */
static inline uint64_t hash_text(uint64_t hash, const char *text) {
    for (;; text++) {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
        if (!*text)
            return hash;
    }
}

#endif
