// sources: launcher/rivals.c
#include "unit.h"

#include "../../launcher/rivals.h"

static struct rivals ranks[2];

static void run_as(uint32_t rank, uint64_t program, uint32_t segment) {
    rivals_ask(&ranks[rank], program);
    rivals_grant(&ranks[rank], program, segment);
}

static int are_exchanged(void) {
    int are = rivals_are_exchanged(&ranks[0], &ranks[1]);
    EXPECT(are == rivals_are_exchanged(&ranks[1], &ranks[0]));
    return are;
}

static void begin(void) {
    ranks[0] = ranks[1] = (struct rivals){.asks = 0};
}

TEST("the same program on both ranks, whatever asks besides, is no exchange") {
    begin();
    run_as(0, 1, 0);
    run_as(1, 1, 0);
    rivals_ask(&ranks[0], 2);
    rivals_ask(&ranks[1], 3);
    EXPECT(!are_exchanged());
}

TEST("programs that differ, and of which neither is asked for on the other rank, are no exchange") {
    begin();
    run_as(0, 1, 0);
    run_as(1, 2, 0);
    rivals_ask(&ranks[0], 3);
    rivals_ask(&ranks[1], 4);
    EXPECT(!are_exchanged());
}

TEST("the other rank's program was asked for here, before or after it was granted there") {
    begin();
    run_as(0, 1, 0);
    rivals_ask(&ranks[0], 2);
    EXPECT(!are_exchanged());
    run_as(1, 2, 0);
    EXPECT(are_exchanged());
    begin();
    run_as(0, 1, 0);
    run_as(1, 2, 0);
    rivals_ask(&ranks[1], 1);
    EXPECT(are_exchanged());
}

TEST("programs one after the other are no exchange, in another order they are one") {
    begin();
    for (uint32_t i = 0; i < 3 * RIVALS_KEPT; i++) {
        run_as(0, i + 1, i);
        EXPECT(!are_exchanged());
        run_as(1, i + 1, i);
        EXPECT(!are_exchanged());
    }
    run_as(0, 1001, 3 * RIVALS_KEPT);
    run_as(0, 1002, 3 * RIVALS_KEPT + 1);
    run_as(1, 1002, 3 * RIVALS_KEPT);
    EXPECT(are_exchanged());
}

TEST("a program of which nothing is known is no exchange") {
    begin();
    run_as(0, 0, 0);
    run_as(1, 2, 0);
    rivals_ask(&ranks[0], 2);
    EXPECT(!are_exchanged());
}
