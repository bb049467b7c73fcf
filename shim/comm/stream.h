/*
 * Many spans read and written as one stream of bytes.
 */
#ifndef ACCEL_SHIM_COMM_STREAM_H
#define ACCEL_SHIM_COMM_STREAM_H

#include <stddef.h>

#include "comm.h"

/* A place in the concatenation of spans. Copied freely; owns nothing. */
struct stream {
    const struct comm_span *spans;
    size_t count, element; /* spans; bytes of an element */
    size_t index, offset;  /* span, and bytes into it */
};

/* Moves on by at most `want` bytes, as far as memory is contiguous: returns how many, and where they are in *data. 0 only at the end. */
size_t stream_take(struct stream *stream, size_t want, unsigned char **data);
void stream_skip(struct stream *stream, size_t bytes);
/* The next `bytes` bytes of the stream to `to`, by memcpy or another function of its kind. */
void stream_read(struct stream *stream, unsigned char *to, size_t bytes, void *(*copy)(void *to, const void *from, size_t bytes));
/* The next `bytes` bytes of the stream from `from`. */
void stream_write(struct stream *stream, const unsigned char *from, size_t bytes);

#endif
