// sources: shim/patience.c shim/checksum.c
#include "../../shim/patience.h"

#include "unit.h"

#define SECOND 1000000000ull

const _Atomic uint64_t *_Atomic clock_held;

TEST("a rank is idle since it has done nothing but wait") {
    struct patience patience = patience_begin(3);
    patience.idle.since_ns -= 9 * SECOND;
    EXPECT(patience_idle_ms(&patience, true, 3) >= 9000);
    EXPECT(patience_idle_ms(&patience, true, 4) < 1000);
    patience.idle.since_ns -= 9 * SECOND;
    EXPECT(patience_idle_ms(&patience, true, 4) >= 9000);
    EXPECT(patience_idle_ms(&patience, false, 4) < 1000);
    EXPECT(patience_idle_ms(&patience, true, 4) < 1000);
}

TEST("marks are of one rank and one kind, counted, and taken away") {
    uint64_t mark = patience_mark_of(1, PATIENCE_THREAD, 4711);
    EXPECT(!patience_times(mark));
    patience_mark(mark);
    patience_mark(mark);
    EXPECT(patience_times(mark) == 2);
    EXPECT(!patience_times(patience_mark_of(2, PATIENCE_THREAD, 4711)));
    EXPECT(!patience_times(patience_mark_of(1, PATIENCE_THREAD_IN_VAIN, 4711)));
    patience_unmark(mark);
    EXPECT(!patience_times(mark));
    patience_unmark(mark);
    patience_mark(mark);
    EXPECT(patience_times(mark) == 1);
}

TEST("changes of files without a name leave no mark: any two of them would be alike") {
    uint64_t mark = patience_mark_of(1, PATIENCE_NAMES, 0);
    patience_mark(patience_mark_of(1, PATIENCE_NAMES, 5));
    patience_mark(mark);
    patience_note_coming(mark);
    EXPECT(!patience_times(mark));
    EXPECT(patience_times(patience_mark_of(1, PATIENCE_NAMES, 5)) == 1);
}

static void note_coming(uint64_t mark, int times) {
    for (int i = 0; i < times; i++)
        patience_note_coming(mark);
}

TEST("a mark is forgiven when enough have come in time, one after the other") {
    uint64_t mark = patience_mark_of(1, PATIENCE_NAMES, 5);
    note_coming(mark, 100);
    patience_mark(mark);
    note_coming(mark, PATIENCE_FORGIVES - 1);
    EXPECT(patience_times(mark) == 1);
    patience_mark(mark);
    note_coming(mark, PATIENCE_FORGIVES - 1);
    EXPECT(patience_times(mark) == 2);
    note_coming(mark, 1);
    EXPECT(!patience_times(mark));
}

TEST("names that part again and again are forgiven later each time, but not never") {
    uint64_t mark = patience_mark_of(1, PATIENCE_NAMES, 5);
    for (int i = 0; i < PATIENCE_FORGIVES_AT_MOST + 3; i++) {
        int doublings = i < PATIENCE_FORGIVES_AT_MOST ? i : PATIENCE_FORGIVES_AT_MOST;
        patience_mark(mark);
        note_coming(mark, (PATIENCE_FORGIVES << doublings) - 1);
        EXPECT(patience_times(mark) == 1);
        note_coming(mark, 1);
        EXPECT(!patience_times(mark));
    }
}

TEST("the last marks are remembered, however many there are") {
    for (uint64_t i = 1; i <= 3 * PATIENCE_REMEMBERED; i++)
        patience_mark(patience_mark_of(1, PATIENCE_NAMES, i));
    EXPECT(!patience_times(patience_mark_of(1, PATIENCE_NAMES, 1)));
    EXPECT(patience_times(patience_mark_of(1, PATIENCE_NAMES, 3 * PATIENCE_REMEMBERED)) == 1);
}

TEST("names are alike that differ in numbers and hashes alone") {
    EXPECT(patience_likeness("ck12.txt") == patience_likeness("ck3.txt"));
    EXPECT(patience_likeness("cache0.bin.5.tmp") == patience_likeness("cache4.bin.19.tmp"));
    EXPECT(patience_likeness("4f2a09b1.pt") == patience_likeness("0c77ffe2.pt"));
    EXPECT(patience_likeness("ck.tmp") != patience_likeness("ck1.tmp"));
    EXPECT(patience_likeness("ab.tmp") != patience_likeness("cd.tmp"));
    EXPECT(patience_likeness("ck1.txt") != patience_likeness("ck1.txt.tmp"));
    EXPECT(!patience_likeness("") && patience_likeness("1"));
}
