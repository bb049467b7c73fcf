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
    for (uint64_t i = 1; i <= 3 * ALONE_REMEMBERED; i++)
        alone_owe(1, beside_key(i, i << 1, false), 10);
    EXPECT(!alone_was_owed(1, beside_key(1, 2, false), 1, false));
    EXPECT(alone_was_owed(1, beside_key(3 * ALONE_REMEMBERED, 3 * ALONE_REMEMBERED << 1, false), 1, false));
}
