/*
 * Many spans read and written as one stream of bytes.
 */
#include "stream.h"

#include <string.h>

size_t stream_take(struct stream *stream, size_t want, unsigned char **data) {
    while (stream->index < stream->count) {
        const struct comm_span *span = &stream->spans[stream->index];
        size_t left = span->count * stream->element - stream->offset;
        if (left && want) {
            size_t taken = left < want ? left : want;
            *data = (unsigned char *)span->data + stream->offset;
            stream->offset += taken;
            return taken;
        }
        if (left) {
            break;
        }
        stream->index++;
        stream->offset = 0;
    }
    return 0;
}

void stream_skip(struct stream *stream, size_t bytes) {
    unsigned char *data;
    size_t taken;
    while (bytes && (taken = stream_take(stream, bytes, &data))) {
        bytes -= taken;
    }
}

void stream_read(struct stream *stream, unsigned char *to, size_t bytes, void *(*copy)(void *to, const void *from, size_t bytes)) {
    unsigned char *data;
    size_t taken;
    while (bytes && (taken = stream_take(stream, bytes, &data))) {
        copy(to, data, taken);
        to += taken;
        bytes -= taken;
    }
}

void stream_write(struct stream *stream, const unsigned char *from, size_t bytes) {
    unsigned char *data;
    size_t taken;
    while (bytes && (taken = stream_take(stream, bytes, &data))) {
        memcpy(data, from, taken);
        from += taken;
        bytes -= taken;
    }
}
