#include "patience.h"

#include <string.h>

#include "checksum.h"

static struct {
    _Atomic uint64_t mark; /* 0: none */
    _Atomic uint32_t times, forgiven;
    _Atomic uint32_t in_time; /* since the last time */
} marks[PATIENCE_REMEMBERED];
static _Atomic uint32_t marked; /* so many so far; the last ones are remembered */

uint64_t patience_idle_ms(struct patience *patience, bool waits, uint64_t done) {
    if (!waits || done != patience->done)
        *patience = patience_begin(done);
    return clock_waited_ms(&patience->idle);
}

uint64_t patience_mark_of(uint32_t rank, enum patience_kind kind, uint64_t what) {
    return what ? checksum_mix(checksum_mix(what, kind), rank) | 1 : 0;
}

static uint32_t place_of(uint64_t mark) {
    uint32_t count = atomic_load(&marked), i = 0;
    while (i < PATIENCE_REMEMBERED && i < count && atomic_load(&marks[i].mark) != mark)
        i++;
    return mark && i < count ? i : PATIENCE_REMEMBERED;
}

uint32_t patience_times(uint64_t mark) {
    uint32_t place = place_of(mark);
    return place < PATIENCE_REMEMBERED ? atomic_load(&marks[place].times) : 0;
}

static uint32_t new_place(uint64_t mark) {
    uint32_t place = atomic_fetch_add(&marked, 1) % PATIENCE_REMEMBERED;
    atomic_store(&marks[place].times, 0);
    atomic_store(&marks[place].forgiven, 0);
    atomic_store(&marks[place].mark, mark);
    return place;
}

void patience_mark(uint64_t mark) {
    if (!mark)
        return;
    uint32_t place = place_of(mark);
    place = place < PATIENCE_REMEMBERED ? place : new_place(mark);
    atomic_store(&marks[place].in_time, 0);
    atomic_fetch_add(&marks[place].times, 1);
}

void patience_note_coming(uint64_t mark) {
    uint32_t place = place_of(mark);
    if (place == PATIENCE_REMEMBERED || !atomic_load(&marks[place].times))
        return;
    uint32_t forgiven = atomic_load(&marks[place].forgiven);
    if (atomic_fetch_add(&marks[place].in_time, 1) + 1 < (uint32_t)PATIENCE_FORGIVES << forgiven)
        return;
    atomic_store(&marks[place].times, 0);
    if (forgiven < PATIENCE_FORGIVES_AT_MOST)
        atomic_store(&marks[place].forgiven, forgiven + 1);
}

void patience_unmark(uint64_t mark) {
    uint32_t place = place_of(mark);
    if (place < PATIENCE_REMEMBERED)
        atomic_store(&marks[place].times, 0);
}

/* One sign stands for each run of digits, with the letters of a hash beside them. */
uint64_t patience_likeness(const char *name) {
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
