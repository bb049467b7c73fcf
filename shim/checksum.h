/* A fast 64-bit checksum of bytes: tells tensors of two ranks apart, no more (not for anybody who wants to be fooled). */
#ifndef ACCEL_SHIM_CHECKSUM_H
#define ACCEL_SHIM_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Of `count` bytes at any alignment, continuing from `before` (a checksum of what came earlier, or any start). Every byte and the count
   matter. */
uint64_t checksum_bytes(uint64_t before, const void *bytes, size_t count);

#endif
