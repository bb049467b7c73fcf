// sources: shim/comm/segment.c shim/comm/barrier.c shim/comm/agree.c shim/comm/turn.c shim/comm/stream.c shim/comm/staging.c shim/comm/kernels.c shim/comm/kernels_avx2.c shim/comm/kernels_avx512.c shim/comm/shared_memory.c shim/comm/all_reduce.c shim/comm/hosts.c shim/comm/hosts_reduce.c shim/comm/network.c shim/comm/network_connect.c shim/comm/own.c
// Runs alone: its ranks have deadlines.
/*
 * Ranks that part, come late, are killed or are stopped: the others end at once, and say who and what.
 */
#include "ranks.h"

#include "../../shim/comm/segment.h"

#include <sched.h>
#include <signal.h>

static int mentions(uint32_t rank, const char *words) {
    if (strstr(shared->reports[rank].text, words)) {
        return 1;
    }
    printf("    rank %u said \"%s\", without \"%s\"\n", rank, shared->reports[rank].text, words);
    return 0;
}

/* ---- ranks that part ---- */

static void other_label(void) {
    comm_barrier("together");
    comm_barrier(self == 1 ? "loss" : "gradients");
}

static void other_count(void) {
    float data[20] = {0};
    comm_all_reduce("gradients", &(struct comm_span){data, self == world - 1 ? 12 : 11}, 1, COMM_FLOAT32, COMM_SUM);
}

static void other_type(void) {
    int64_t data[2] = {0};
    comm_all_reduce("gradients", &(struct comm_span){data, self ? 3 : 1}, 1, self ? COMM_FLOAT32 : COMM_INT64, COMM_SUM);
}

static void other_kind(void) {
    float data = 0;
    if (self == 0) {
        comm_all_reduce("x", &(struct comm_span){&data, 1}, 1, COMM_FLOAT32, COMM_SUM);
    } else {
        comm_broadcast("x", &data, sizeof data, 0);
    }
}

static void other_note(void) {
    comm_barrier("start");
    comm_note("epoch", 3);
    comm_note("batch", self == 1 ? 0xbad : 0x900d);
    comm_note("learning rate", 5);
    comm_barrier("step");
}

static void missing_note(void) {
    comm_note("batch", 7);
    if (self == 1) {
        comm_note("labels", 8);
    }
    comm_barrier("step");
}

static void early_note(void) {
    for (uint64_t index = 0; index < 500; index++) {
        comm_note("parameter", index == 3 && self == 1);
    }
    comm_barrier("step");
}

static void expect_parted(uint32_t ranks, void (*body)(void), const char *first, const char *second) {
    pid_t pids[RANKS_MAX];
    make_segment(ranks);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        pids[rank] = start_rank(rank, body);
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        EXPECT(end_of(pids[rank]) == FAILED);
        EXPECT_TEXT(shared->reports[rank].id, "AR-RANKS-PARTED");
        EXPECT(mentions(rank, first));
        EXPECT(mentions(rank, second));
        EXPECT_TEXT(shared->reports[rank].text, shared->reports[0].text);
    }
}

TEST("ranks with different labels are named with both") {
    expect_parted(2, other_label, "rank 0 is in its collective 2, barrier \"gradients\"",
                  "rank 1 is in its collective 2, barrier \"loss\"");
    expect_parted(4, other_label, "barrier \"gradients\"", "rank 1 is in its collective 2, barrier \"loss\"");
}

TEST("ranks that reduce different counts are named with both") {
    expect_parted(3, other_count, "rank 0 is in its collective 1, all-reduce \"gradients\" (sum of 44 bytes of float32)",
                  "rank 2 is in its collective 1, all-reduce \"gradients\" (sum of 48 bytes of float32)");
}

TEST("ranks that reduce different types are named with both, whatever their sizes") {
    expect_parted(2, other_type, "all-reduce \"gradients\" (sum of 8 bytes of int64)", "(sum of 12 bytes of float32)");
}

TEST("ranks in different kinds of collective are named with both") {
    expect_parted(2, other_kind, "all-reduce \"x\"", "broadcast \"x\" (4 bytes from rank 0)");
}

TEST("a rank with another batch is named, and only the batch is blamed") {
    expect_parted(2, other_note, "rank 1 has another batch than rank 0", "noticed in \"step\"");
    expect_parted(3, other_note, "rank 1 has another batch than rank 0", "0000000000000bad");
}

TEST("a fact that only one rank has noted is named") {
    expect_parted(2, missing_note, "rank 1 has \"labels\"", "rank 0 has not");
}

TEST("a difference before the facts that are kept is still found") {
    expect_parted(2, early_note, "ranks 0 and 1 differ", "noted before");
}

/* ---- what threads have noted before their turn ---- */

static _Atomic uint8_t are_several;

static uint64_t main_thread(void) {
    return 0;
}

/* Of a hundred facts, rank R notes the first 10 R before its program has a second thread. */
static void note_with_threads(uint64_t other) {
    char name[64];
    segment.options.thread = main_thread;
    segment.options.are_several = &are_several;
    for (uint32_t index = 0; index < 100; index++) {
        are_several = index >= 10 * self;
        snprintf(name, sizeof name, "a fact whose name is longer than what is shown: %u", index);
        comm_note(index == 90 ? "fact 90" : name, index == 90 && self == 1 ? other : index);
    }
    comm_ask_turn(0);
    while (comm_take_turn(clock_ns()) != COMM_TURN_TAKEN) {
        sched_yield();
    }
    comm_barrier("step");
    comm_end_turn();
}

static void same_notes(void) {
    note_with_threads(90);
}

static void other_of_many_notes(void) {
    note_with_threads(1);
}

TEST("facts noted before and after the program has a second thread are those of ranks that had it sooner") {
    run_ranks(3, same_notes, 0);
}

TEST("one of them that differs is named") {
    expect_parted(3, other_of_many_notes, "rank 1 has another fact 90 than rank 0 (0000000000000001 against 000000000000005a)",
                  "noticed in \"step\"");
}

/* ---- ranks that do not come ---- */

static void two_collectives(void) {
    comm_barrier("first");
    atomic_store(&board->ranks[self].phase, BOARD_BACKWARD);
    atomic_store(&board->ranks[self].step, 17);
    if (self == 1) {
        _exit(0);
    }
    comm_barrier("second");
}

TEST("at the deadline the rank that did not come is named, with what it was doing") {
    timeout_ms = 1500;
    for (cores = 1; cores <= 4; cores += 3) {
        pid_t pids[3];
        make_segment(3);
        for (uint32_t rank = 0; rank < 3; rank++) {
            pids[rank] = start_rank(rank, two_collectives);
        }
        EXPECT(end_of(pids[1]) == 0);
        for (uint32_t rank = 0; rank < 3; rank += 2) {
            EXPECT(end_of(pids[rank]) == FAILED);
            EXPECT_TEXT(shared->reports[rank].id, "AR-COLLECTIVE-TIMEOUT");
            EXPECT(mentions(rank, "rank 1 has not come (backward, step 17, last seen in \"first\")"));
            EXPECT(mentions(rank, "in \"second\" (collective 2)"));
            EXPECT(!strstr(shared->reports[rank].text, "rank 2 has not come"));
        }
    }
}

static void wait_for_ever(void) {
    if (self == 0) {
        comm_barrier("never");
    }
    for (;;) {
        pause();
    }
}

TEST("the launcher's abort ends a waiting rank, and is given as the reason") {
    make_segment(2);
    pid_t waiting = start_rank(0, wait_for_ever);
    while (!atomic_load(&board->ranks[0].waiting)) {
        sched_yield();
    }
    atomic_store(&board->abort, BOARD_ABORT_LAUNCHER);
    EXPECT(end_of(waiting) == FAILED);
    EXPECT_TEXT(shared->reports[0].id, "AR-ABORTED");
    EXPECT(mentions(0, "the launcher is stopping the job"));
}

static void reduce_until_stopped(void) {
    static float data[200000];
    for (;;) {
        comm_all_reduce("gradients", &(struct comm_span){data, 200000}, 1, COMM_FLOAT32, COMM_SUM);
        atomic_fetch_add(&shared->gate, 1);
    }
}

TEST("a rank killed in the middle of a large all-reduce does not hang the others once the job is aborted") {
    for (cores = 1; cores <= 4; cores += 3) {
        pid_t pids[3];
        make_segment(3);
        for (uint32_t rank = 0; rank < 3; rank++) {
            pids[rank] = start_rank(rank, reduce_until_stopped);
        }
        while (atomic_load(&shared->gate) < 30) {
            sched_yield();
        }
        kill(pids[1], SIGKILL);
        EXPECT(end_of(pids[1]) == 128 + SIGKILL);
        atomic_store(&board->abort, 2);
        EXPECT(end_of(pids[0]) == FAILED);
        EXPECT(end_of(pids[2]) == FAILED);
        EXPECT_TEXT(shared->reports[0].id, "AR-ABORTED");
        EXPECT(mentions(2, "rank 1 has stopped the job"));
    }
}
