// sources:
// Runs alone: it measures.
#include "unit.h"

#include "../../shim/comm/clock.h"

const _Atomic uint64_t *_Atomic clock_held;

#define SECOND (uint64_t)1000000000

TEST("a process that was stopped while it waited has not waited meanwhile") {
    struct clock_wait wait = clock_wait_begin();
    wait.since_ns -= 100 * SECOND; /* as if it had been stopped 90 seconds ago, for 90 seconds, and 10 seconds after it began */
    wait.looked_ns -= 90 * SECOND;
    uint64_t waited_ms = clock_waited_ms(&wait);
    EXPECT(waited_ms >= 10000 && waited_ms < 40000);
    EXPECT(clock_waited_ms(&wait) < 40000);
}

TEST("one that is only slow waits on, and its wait ends") {
    struct clock_wait wait = clock_wait_begin();
    wait.since_ns -= 100 * SECOND;
    wait.looked_ns -= SECOND / 2;
    EXPECT(clock_waited_ms(&wait) >= 100000);
}

TEST("a wait begins anew when rank 0 was held up, and goes on from there") {
    static _Atomic uint64_t held_ns;
    struct clock_wait wait = clock_wait_begin();
    atomic_store(&clock_held, &held_ns);
    wait.since_ns -= 100 * SECOND;
    EXPECT(clock_waited_ms(&wait) >= 100000);
    atomic_store(&held_ns, clock_ns() - 20 * SECOND);
    uint64_t waited_ms = clock_waited_ms(&wait);
    EXPECT(waited_ms >= 20000 && waited_ms < 50000);
    atomic_store(&held_ns, clock_ns() + 1000 * SECOND); /* of another clock */
    EXPECT(clock_waited_ms(&wait) >= 20000);
    atomic_store(&clock_held, NULL);
}
