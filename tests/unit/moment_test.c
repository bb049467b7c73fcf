// sources: shim/moment.c
#include "../../shim/moment.h"

#include "unit.h"

static const int32_t processes[] = {4711, 0, 4712}; /* one is not known yet */

/* Now is 2026-11-24 13:17:02 UTC. */
static const char *spelled_since(const char *text, long long start) {
    static char out[256];
    static const char *const hosts[] = {"gpu", "gpu-01.lab", "n7"};
    moment_spell(text, &(struct moment){start, 1795526222, processes, 3, hosts, 3}, out);
    for (char *c = out; *c; c++)
        *c = *c == '\1' ? '#' : *c;
    return out;
}

static const char *spelled(const char *text) {
    return spelled_since(text, 1795526222);
}

/* The program runs since 2025-12-30 13:17:02 UTC. */
static const char *spelled_long_after(const char *text) {
    return spelled_since(text, 1795526222 - 329 * 24 * 3600);
}

TEST("numbers of the ranks' processes are one, on each rank") {
    EXPECT_TEXT(spelled("log.4711"), "log.#");
    EXPECT_TEXT(spelled("log.4712.txt"), "log.#.txt");
    EXPECT_TEXT(spelled("log.4713"), "log.4713");
    EXPECT_TEXT(spelled("14711"), "14711");
    EXPECT_TEXT(spelled("t0-0"), "t0-0");
}

TEST("names of hosts are one, as words") {
    EXPECT_TEXT(spelled("events.gpu-01.lab.0"), "events.#.0");
    EXPECT_TEXT(spelled("runs/gpu"), "runs/#");
    EXPECT_TEXT(spelled("gpus/a_gpu_b"), "gpus/a_#_b");
    EXPECT_TEXT(spelled("1n7-n7"), "1n7-#");
}

TEST("times in seconds, in parts of a second and with a fraction are one") {
    EXPECT_TEXT(spelled("run-1795526222"), "run-#");
    EXPECT_TEXT(spelled("run-1795526223/a"), "run-#/a");
    EXPECT_TEXT(spelled("1795526222000"), "#");
    EXPECT_TEXT(spelled("1795526222000000000"), "#");
    EXPECT_TEXT(spelled("1795526222.123456/part"), "#/part");
    EXPECT_TEXT(spelled("events.out.tfevents.1795526222.host.4711.1"), "events.out.tfevents.#.host.#.1");
    EXPECT_TEXT(spelled("1695526222"), "1695526222");
    EXPECT_TEXT(spelled("17955262220000000000000"), "17955262220000000000000");
    EXPECT_TEXT(spelled("runs/1795526222.100"), "runs/#.100"); /* a part's number */
    EXPECT_TEXT(spelled("events.out.tfevents.1795526222.12"), "events.out.tfevents.#.12");
}

TEST("today's date is one, with the time of day behind it, as strftime and isoformat write them") {
    EXPECT_TEXT(spelled("20261124-131702/out"), "#/out");
    EXPECT_TEXT(spelled("20261125_001702"), "#");
    EXPECT_TEXT(spelled("20261124131702"), "#");
    EXPECT_TEXT(spelled("run_2026-11-24_13-17-02_a"), "run_#_a");
    EXPECT_TEXT(spelled("2026-11-24T13:17:02.123456"), "#");
    EXPECT_TEXT(spelled("2026-11-24 13:17"), "#");
    EXPECT_TEXT(spelled("2026.11.24"), "#");
    EXPECT_TEXT(spelled("runs/Nov24_13-17-02_host"), "runs/Nov#_host");
    EXPECT_TEXT(spelled("outputs/2026-11-24/13-17-02/model.pt"), "outputs/#/model.pt");
    EXPECT_TEXT(spelled("run202611241317"), "run#");
    EXPECT_TEXT(spelled("ckpt-20261124_0012.pt"), "ckpt-#_0012.pt"); /* epochs and parts are told apart */
    EXPECT_TEXT(spelled("shard-2026-11-24-0005-of-0010"), "shard-#-0005-of-0010");
    EXPECT_TEXT(spelled("run_20261124131702_0007"), "run_#_0007");
    EXPECT_TEXT(spelled("202611240099"), "202611240099");
    EXPECT_TEXT(spelled("20261124T1317"), "#");
}

TEST("what is no time, another day, or a number behind a date stays") {
    EXPECT_TEXT(spelled("20251124-131702"), "20251124-131702");
    EXPECT_TEXT(spelled("Nov24"), "Nov24");
    EXPECT_TEXT(spelled("Mar24_13-17-02"), "Mar24_13-17-02");
    EXPECT_TEXT(spelled("24_13-17-02"), "24_13-17-02");
    EXPECT_TEXT(spelled("2017-10-01"), "2017-10-01");
    EXPECT_TEXT(spelled("20261124-1"), "#-1");
    EXPECT_TEXT(spelled("2026-11-24-007"), "#-007");
    EXPECT_TEXT(spelled("--seed 7 --steps 100000 --lr 0.001"), "--seed 7 --steps 100000 --lr 0.001");
    EXPECT_TEXT(spelled("20261124/131702"), "#/131702");
    EXPECT_TEXT(spelled("2026-11-24/13-17"), "#/13-17");
    EXPECT_TEXT(spelled("20261124_2460"), "#_2460");
    EXPECT_TEXT(spelled("2026-11-24.0007"), "#.0007");
    EXPECT_TEXT(spelled("2026"), "2026");
    EXPECT_TEXT(spelled(""), "");
}

TEST("the time of the start, and what is between it and now, is one for as long as the program runs") {
    EXPECT_TEXT(spelled("runs/1767100622.1234"), "runs/1767100622.1234");
    EXPECT_TEXT(spelled_long_after("runs/1767100622.1234"), "runs/#");
    EXPECT_TEXT(spelled_long_after("20251230-131702"), "#");
    EXPECT_TEXT(spelled_long_after("2025-12-30T13:17:02.123456"), "#");
    EXPECT_TEXT(spelled_long_after("runs/Dec30_13-17-02_host"), "runs/Dec#_host");
    EXPECT_TEXT(spelled_long_after("2026-06-01"), "#");
    EXPECT_TEXT(spelled_long_after("2026-11-24"), "#");
    EXPECT_TEXT(spelled_long_after("2025-12-27"), "2025-12-27");
    EXPECT_TEXT(spelled_long_after("2026-11-27"), "2026-11-27");
    EXPECT_TEXT(spelled_long_after("1695526222"), "1695526222");
    EXPECT(moment_of_start() > 0);
}
