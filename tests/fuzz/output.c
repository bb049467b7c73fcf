// sources: launcher/streams/output.c launcher/streams/compare.c
/*
 * What the ranks print, and its comparison. Input: pieces, each after a byte for the rank (two bits) and the clock (six bits), and a byte of length. Equal
 * bytes of all ranks must never be shown as different.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../launcher/streams/output.h"

enum { RANKS = 3 };

static int shown;

static void show(void *context, uint32_t rank, const char *line, size_t bytes) {
    if (rank == 0 || rank >= RANKS || bytes > OUTPUT_LINE_MAX || (bytes && memchr(line, '\n', bytes)))
        abort();
    shown++;
}

static void feed(const uint8_t *data, size_t size, int all_say_it) {
    struct output *output = output_new(RANKS, show, NULL);
    uint64_t now_ms = 1;
    while (size >= 2) {
        uint32_t rank = data[0] & 3;
        size_t bytes = data[1];
        now_ms += data[0] >> 2;
        data += 2;
        size -= 2;
        if (bytes > size)
            bytes = size;
        for (uint32_t i = 0; i < RANKS; i++)
            if (all_say_it || i == rank)
                output_feed(output, i, (const char *)data, bytes, now_ms);
        data += bytes;
        size -= bytes;
        output_settle(output, now_ms, 0);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        output_end(output, i, now_ms);
    output_settle(output, now_ms, 1);
    output_free(output);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    feed(data, size, 0);
    shown = 0;
    feed(data, size, 1);
    if (shown)
        abort();
    return 0;
}
