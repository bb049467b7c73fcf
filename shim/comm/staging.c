/*
 * Stores to a ring go through the cache or past it, whichever is fast between the cores at hand.
 *
 * Cores under one third-level cache: plain stores at 9 to 35 GB/s, and the reader takes them from the cache at 40 GB/s. Cores under different ones
 * (two chiplets or sockets; a virtual machine is moved from one case to the other while it runs): a plain store to a line that the other core has
 * read runs at 0.8 to 2.4 GB/s, a streaming store past the cache at 50 GB/s, and the reader has its bytes from memory at 16 GB/s either way.
 *
 * Rules
 *  - Each rank decides for its own stores, from how long they took: no result depends on it, so nothing has to be agreed.
 *  - A rank that was merely interrupted looks slow once; several slow chunks in a row count.
 */
#include "staging.h"

#include "barrier.h"
#include "clock.h"

#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

enum {
    STAGING_SLOW_BYTES_PER_NS = 4, /* below so many GB/s plain stores are slow */
    STAGING_SLOW_CHUNKS = 3,       /* so many in a row turn to streaming */
    STAGING_STREAMED_CHUNKS = 256, /* then one plain chunk is tried again */
    STAGING_LEAST_BYTES = 8 << 10, /* less is not measured */
    STAGING_STREAM_BYTES = 512,    /* less is not worth a fence */
};

static struct {
    int slow;     /* slow plain chunks in a row */
    int streamed; /* streaming chunks still to come */
} staging;

#if defined(__x86_64__)
/* Whole cache lines past the cache; the fence makes them visible before the barrier that follows. */
void *staging_stream(void *to, const void *from, size_t bytes) {
    size_t head = (size_t)(-(uintptr_t)to & 63), done;
    if (bytes < STAGING_STREAM_BYTES) {
        return memcpy(to, from, bytes);
    }
    memcpy(to, from, head);
    for (done = head; done + 64 <= bytes; done += 64) {
        const __m128i *source = (const __m128i *)(const void *)((const char *)from + done);
        __m128i *target = (__m128i *)(void *)((char *)to + done);
        __m128i v0 = _mm_loadu_si128(source), v1 = _mm_loadu_si128(source + 1), v2 = _mm_loadu_si128(source + 2),
                v3 = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, v0);
        _mm_stream_si128(target + 1, v1);
        _mm_stream_si128(target + 2, v2);
        _mm_stream_si128(target + 3, v3);
    }
    memcpy((char *)to + done, (const char *)from + done, bytes - done);
    _mm_sfence();
    return to;
}
#else
void *staging_stream(void *to, const void *from, size_t bytes) {
    return memcpy(to, from, bytes);
}
#endif

int staging_streams(void) {
    return staging.streamed > 0;
}

staging_copy_function *staging_copy(void) {
    return staging.streamed > 0 ? staging_stream : memcpy;
}

uint64_t staging_begin(void) {
    return clock_ns();
}

void staging_end(uint64_t start, size_t bytes) {
    if (staging.streamed > 0) {
        staging.streamed--;
        return;
    }
    if (bytes < STAGING_LEAST_BYTES) {
        return;
    }
    if (bytes >= (clock_ns() - start) * STAGING_SLOW_BYTES_PER_NS) {
        staging.slow = 0;
    } else if (++staging.slow >= STAGING_SLOW_CHUNKS) {
        staging.slow = STAGING_SLOW_CHUNKS - 1;
        staging.streamed = STAGING_STREAMED_CHUNKS;
    }
}
