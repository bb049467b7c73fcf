// sources: shim/alone.c shim/checksum.c
#include "../../shim/alone.h"

#include "../../shim/beside_key.h"
#include "unit.h"

TEST("what has been gone on without is owed once, by that rank, of that key") {
    uint64_t key = beside_key(7, 8, false), other = beside_key(7, 10, false);
    EXPECT(!alone_was_owed(1, key, 5, false));
    alone_owe(1, key, 100);
    EXPECT(!alone_was_owed(2, key, 5, false));
    EXPECT(!alone_was_owed(1, other, 5, true));
    EXPECT(!alone_was_owed(1, key, 101, false));
    EXPECT(alone_was_owed(1, key, 5, false));
    EXPECT(!alone_was_owed(1, key, 6, false));
}

TEST("of names with a process number the late one is the same under another number, where that is asked for") {
    uint64_t own = beside_key(7, 8, true), its = beside_key(7, 10, true);
    alone_owe(0, own, 100);
    EXPECT(!alone_was_owed(0, its, 5, false));
    EXPECT(alone_was_owed(0, its, 5, true));
}

TEST("the end of what has been begun is of that one alone, whatever the numbers in names") {
    uint64_t end = beside_key_of_end(5, 2);
    EXPECT(beside_key_is(end, beside_key_of_end(5, 2), false));
    EXPECT(!beside_key_is(end, beside_key_of_end(6, 2), true));
    EXPECT(!beside_key_is(end, beside_key_of_end(5, 3), true));
}

TEST("the last ones are remembered, however many there are") {
    for (uint64_t i = 1; i <= 3 * ALONE_REMEMBERED; i++) {
        alone_owe(1, beside_key(i, i << 1, false), 10);
        alone_mark(alone_mark_of(1, ALONE_NAMES, i));
    }
    EXPECT(!alone_was_owed(1, beside_key(1, 2, false), 1, false));
    EXPECT(alone_was_owed(1, beside_key(3 * ALONE_REMEMBERED, 3 * ALONE_REMEMBERED << 1, false), 1, false));
    EXPECT(!alone_times(alone_mark_of(1, ALONE_NAMES, 1)));
    EXPECT(alone_times(alone_mark_of(1, ALONE_NAMES, 3 * ALONE_REMEMBERED)) == 1);
}

TEST("marks are of one rank and one kind, counted, and taken away") {
    uint64_t mark = alone_mark_of(1, ALONE_THREAD, 4711);
    EXPECT(!alone_times(mark));
    alone_mark(mark);
    alone_mark(mark);
    EXPECT(alone_times(mark) == 2);
    EXPECT(!alone_times(alone_mark_of(2, ALONE_THREAD, 4711)));
    EXPECT(!alone_times(alone_mark_of(1, ALONE_THREAD_IN_VAIN, 4711)));
    alone_unmark(mark);
    EXPECT(!alone_times(mark));
    alone_unmark(mark);
    alone_mark(mark);
    EXPECT(alone_times(mark) == 1);
}

TEST("names are alike that differ in numbers and hashes alone") {
    EXPECT(alone_likeness("ck12.txt") == alone_likeness("ck3.txt"));
    EXPECT(alone_likeness("cache0.bin.5.tmp") == alone_likeness("cache4.bin.19.tmp"));
    EXPECT(alone_likeness("4f2a09b1.pt") == alone_likeness("0c77ffe2.pt"));
    EXPECT(alone_likeness("ck.tmp") != alone_likeness("ck1.tmp"));
    EXPECT(alone_likeness("ab.tmp") != alone_likeness("cd.tmp"));
    EXPECT(alone_likeness("ck1.txt") != alone_likeness("ck1.txt.tmp"));
    EXPECT(alone_likeness("") != alone_likeness("1"));
}
