/* A fast 64-bit checksum of bytes: tells tensors of two ranks apart, no more (not for anybody who wants to be fooled). */
#ifndef ACCEL_SHIM_CHECKSUM_H
#define ACCEL_SHIM_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Of `count` bytes at any alignment, continuing from `before` (a checksum of what came earlier, or any start). Every byte and the count
   matter. */
uint64_t checksum_bytes(uint64_t before, const void *bytes, size_t count);

/* The same of bytes that lie in pieces: as if they lay one behind the other. */
enum { CHECKSUM_LANES = 4 };
struct checksum {
    uint64_t lanes[CHECKSUM_LANES];
    size_t count;
    char tail[8 * CHECKSUM_LANES]; /* what fills no block yet */
};
struct checksum checksum_begin(uint64_t before);
void checksum_add(struct checksum *sum, const void *bytes, size_t count);
uint64_t checksum_end(struct checksum *sum);

/* Of two words, in their order: the finaliser of splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t checksum_mix(uint64_t one, uint64_t other) {
    uint64_t word = (one ^ other * 0x9E3779B97F4A7C15ull) + 0x9E3779B97F4A7C15ull;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ word >> 27) * 0x94D049BB133111EBull;
    return word ^ word >> 31;
}

#endif
