#include "loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int loop_grow(struct loop *loop) {
    size_t capacity = loop->capacity ? 2 * loop->capacity : 64;
    struct pollfd *descriptors = realloc(loop->descriptors, capacity * sizeof *descriptors);
    if (descriptors)
        loop->descriptors = descriptors;
    struct loop_entry *entries = descriptors ? realloc(loop->entries, capacity * sizeof *entries) : NULL;
    if (!entries)
        return -1;
    loop->entries = entries;
    loop->capacity = capacity;
    return 0;
}

int loop_add(struct loop *loop, int descriptor, short events, loop_ready *ready, void *context, size_t index) {
    if (descriptor < 0)
        return 0;
    if (loop->count == loop->capacity && loop_grow(loop))
        return -1;
    loop->descriptors[loop->count] = (struct pollfd){descriptor, events, 0};
    loop->entries[loop->count++] = (struct loop_entry){ready, context, index};
    return 0;
}

int loop_wait(struct loop *loop, int timeout_ms) {
    loop->ready = poll(loop->descriptors, loop->count, timeout_ms);
    return loop->ready < 0 && errno != EINTR ? -1 : 0;
}

void loop_call(struct loop *loop) {
    size_t count = loop->count;
    loop->count = 0;
    for (size_t i = 0; loop->ready > 0 && i < count; i++) {
        if (!loop->descriptors[i].revents)
            continue;
        loop->ready--;
        loop->entries[i].ready(loop->entries[i].context, loop->entries[i].index, loop->descriptors[i].revents);
    }
}

int loop_round(struct loop *loop, int timeout_ms) {
    int result = loop_wait(loop, timeout_ms);
    loop_call(loop);
    return result;
}

void loop_clear(struct loop *loop) {
    free(loop->descriptors);
    free(loop->entries);
    memset(loop, 0, sizeof *loop);
}
