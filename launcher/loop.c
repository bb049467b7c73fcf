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

int loop_round(struct loop *loop, int timeout_ms) {
    size_t count = loop->count;
    int ready = poll(loop->descriptors, count, timeout_ms);
    loop->count = 0;
    if (ready < 0)
        return errno == EINTR ? 0 : -1;
    for (size_t i = 0; ready > 0 && i < count; i++) {
        if (!loop->descriptors[i].revents)
            continue;
        ready--;
        loop->entries[i].ready(loop->entries[i].context, loop->entries[i].index, loop->descriptors[i].revents);
    }
    return 0;
}

void loop_clear(struct loop *loop) {
    free(loop->descriptors);
    free(loop->entries);
    memset(loop, 0, sizeof *loop);
}
