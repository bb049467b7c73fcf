/*
 * SipHash-2-4 of 64-bit words (J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012): a keyed pseudo-random
 * function, so that nobody who sees some of the numbers can compute the others or the key.
 */
#ifndef ACCEL_HOOKS_SEED_SIPHASH_H
#define ACCEL_HOOKS_SEED_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t low, high;
};

static inline uint64_t siphash_rotate(uint64_t word, int bits) {
    return word << bits | word >> (64 - bits);
}

static inline void siphash_round(uint64_t v[4]) {
    v[0] += v[1], v[1] = siphash_rotate(v[1], 13) ^ v[0], v[0] = siphash_rotate(v[0], 32);
    v[2] += v[3], v[3] = siphash_rotate(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = siphash_rotate(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = siphash_rotate(v[1], 17) ^ v[2], v[2] = siphash_rotate(v[2], 32);
}

/* The hash of the 8 * count bytes of the words (little endian), as the paper defines it for whole words. */
static inline uint64_t siphash(struct siphash_key key, const uint64_t *words, size_t count) {
    uint64_t v[4] = {key.low ^ 0x736f6d6570736575ull, key.high ^ 0x646f72616e646f6dull, key.low ^ 0x6c7967656e657261ull,
                     key.high ^ 0x7465646279746573ull};
    for (size_t i = 0; i <= count; i++) {
        uint64_t word = i < count ? words[i] : (uint64_t)(8 * count) << 56;
        v[3] ^= word;
        siphash_round(v);
        siphash_round(v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        siphash_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
