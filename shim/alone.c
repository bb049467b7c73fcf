#include "alone.h"

#include <string.h>

#include "beside_key.h"
#include "checksum.h"

static struct {
    uint32_t rank;
    uint64_t key, last; /* last 0: none */
} owed[ALONE_REMEMBERED];
static uint32_t owed_next;

static struct {
    uint64_t mark; /* 0: none */
    uint32_t times;
} marks[ALONE_REMEMBERED];
static uint32_t marks_next;

void alone_owe(uint32_t rank, uint64_t key, uint64_t last) {
    uint32_t at = owed_next++ % ALONE_REMEMBERED;
    owed[at].rank = rank;
    owed[at].key = key;
    owed[at].last = last;
}

bool alone_was_owed(uint32_t rank, uint64_t key, uint64_t number, bool also_other) {
    for (uint32_t i = 0; i < ALONE_REMEMBERED; i++)
        if (owed[i].rank == rank && number <= owed[i].last && beside_key_is(key, owed[i].key, also_other)) {
            owed[i].last = 0;
            return true;
        }
    return false;
}

uint64_t alone_mark_of(uint32_t rank, enum alone_kind kind, uint64_t what) {
    return checksum_mix(checksum_mix(what, kind), rank) | 1;
}

static uint32_t place_of(uint64_t mark) {
    uint32_t i = 0;
    while (i < ALONE_REMEMBERED && marks[i].mark != mark)
        i++;
    return i;
}

uint32_t alone_times(uint64_t mark) {
    uint32_t place = place_of(mark);
    return place < ALONE_REMEMBERED ? marks[place].times : 0;
}

void alone_mark(uint64_t mark) {
    uint32_t place = place_of(mark);
    if (place == ALONE_REMEMBERED) {
        place = marks_next++ % ALONE_REMEMBERED;
        marks[place].mark = mark;
        marks[place].times = 0;
    }
    marks[place].times++;
}

void alone_unmark(uint64_t mark) {
    uint32_t place = place_of(mark);
    if (place < ALONE_REMEMBERED)
        marks[place].mark = 0;
}

/* One sign stands for each run of digits, with the letters of a hash beside them. */
uint64_t alone_likeness(const char *name) {
    uint64_t sum = 0;
    while (*name) {
        size_t length = strspn(name, "0123456789abcdef");
        bool is_number = strcspn(name, "0123456789") < length;
        length += !length;
        sum = is_number ? checksum_bytes(sum, "#", 1) : checksum_bytes(sum, name, length);
        name += length;
    }
    return sum;
}
