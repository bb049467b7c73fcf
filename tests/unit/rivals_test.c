// sources: launcher/rivals.c
#include "unit.h"

#include "../../launcher/rivals.h"

static struct rivals ranks[2];

static int are_exchanged(void) {
    int are = rivals_are_exchanged(&ranks[0], &ranks[1]);
    EXPECT(are == rivals_are_exchanged(&ranks[1], &ranks[0]));
    return are;
}

static void begin(void) {
    ranks[0] = ranks[1] = (struct rivals){.grants = 0};
}

TEST("the same program on both ranks, whatever asks besides, is no exchange") {
    begin();
    rivals_grant(&ranks[0], 1, 0);
    rivals_grant(&ranks[1], 1, 0);
    rivals_deny(&ranks[0], 2);
    rivals_deny(&ranks[1], 3);
    EXPECT(!are_exchanged());
}

TEST("programs that differ, and of which neither asks on the other rank, are no exchange") {
    begin();
    rivals_grant(&ranks[0], 1, 0);
    rivals_grant(&ranks[1], 2, 0);
    rivals_deny(&ranks[0], 3);
    rivals_deny(&ranks[1], 4);
    EXPECT(!are_exchanged());
}

TEST("the other rank's program was denied here, before or after it was granted there") {
    begin();
    rivals_grant(&ranks[0], 1, 0);
    rivals_deny(&ranks[0], 2);
    EXPECT(!are_exchanged());
    rivals_grant(&ranks[1], 2, 0);
    EXPECT(are_exchanged());
    begin();
    rivals_grant(&ranks[0], 1, 0);
    rivals_grant(&ranks[1], 2, 0);
    rivals_deny(&ranks[1], 1);
    EXPECT(are_exchanged());
}

TEST("names that are drawn for programs one after the other, and come again, are no exchange") {
    begin();
    for (uint32_t i = 0; i < 3 * RIVALS_KEPT; i++) {
        rivals_grant(&ranks[0], 1 + i % 7, i);
        EXPECT(!are_exchanged());
        rivals_grant(&ranks[1], 1 + i % 5, i);
        EXPECT(!are_exchanged());
    }
}

TEST("what was denied beside an earlier program is none of a later one's") {
    begin();
    rivals_grant(&ranks[0], 1, 0);
    rivals_grant(&ranks[1], 1, 0);
    rivals_deny(&ranks[0], 2);
    rivals_grant(&ranks[0], 1, 1);
    rivals_grant(&ranks[1], 2, 1);
    EXPECT(!are_exchanged());
}

TEST("a program of which nothing is known is no exchange") {
    begin();
    rivals_grant(&ranks[0], 0, 0);
    rivals_grant(&ranks[1], 2, 0);
    rivals_deny(&ranks[0], 2);
    EXPECT(!are_exchanged());
}
