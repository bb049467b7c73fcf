/*
 * How bytes are stored to this rank's ring: through the cache, or past it.
 */
#ifndef ACCEL_SHIM_COMM_STAGING_H
#define ACCEL_SHIM_COMM_STAGING_H

#include <stddef.h>
#include <stdint.h>

/* Like memcpy; to the ring. */
typedef void *staging_copy_function(void *to, const void *from, size_t bytes);
staging_copy_function *staging_copy(void);
/* Always past the cache, from 512 bytes up: for memory that is not read and that this core will not need. */
staging_copy_function staging_stream;

/* Nonzero while staging_copy() goes past the cache: results are then better reduced in place and copied. */
int staging_streams(void);

/* Around a chunk's copies to the ring: what they took decides how the next ones are done. */
uint64_t staging_begin(void);
void staging_end(uint64_t start, size_t bytes);

#endif
