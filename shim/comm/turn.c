/*
 * Threads of one program take turns in the same order on all ranks of a host: its first rank lets one go first that waits on all of them.
 *
 * Rules
 *  - A thread is known by its word (comm_options.thread), the same on all ranks. It asks before it waits for the caller's lock: the first rank sees all.
 *  - As long as a rank has one thread (comm_options.are_several) it asks nobody: it says what it has come to.
 */
#include "agree.h"

#include "barrier.h"
#include "clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

enum { TURN_TEXT = 1024 };

int turn_are_several(void) {
    return segment.options.are_several && atomic_load_explicit(segment.options.are_several, memory_order_relaxed);
}

/* Who looks at the board sees a rank that has come to its next collective. */
static void show_waiting(void) {
    struct board_rank *shown = &segment.board->ranks[segment.options.rank];
    atomic_store_explicit(&shown->collective, segment.sequence + 1, memory_order_relaxed);
    atomic_store_explicit(&shown->waiting, BOARD_WAITS_FOR_TURN, memory_order_relaxed);
}

static void show_going(void) {
    if (segment.options.world_size < 2) {
        return;
    }
    struct board_rank *shown = &segment.board->ranks[segment.options.rank];
    atomic_store_explicit(&shown->waiting, BOARD_WAITS_NOT, memory_order_relaxed);
    atomic_store_explicit(&shown->collective, segment.sequence, memory_order_relaxed);
}

/* late: the rank on which the thread is not first, or has not come. */
static void give_up_turn(uint32_t late, uint64_t since_ns) {
    char text[TURN_TEXT];
    if (atomic_load_explicit(&segment.board->abort, memory_order_relaxed)) {
        segment.options.fail("AR-ABORTED", "the job is being stopped");
    }
    if (segment.options.look) {
        segment.options.look(late);
    }
    if (clock_ns() - since_ns > segment.options.collective_timeout_ms * (uint64_t)1000000) {
        int used = barrier_describe(text, sizeof text, late);
        snprintf(
            text + used, sizeof text - (size_t)used,
            "a thread of rank %u has waited %u s for its turn: on rank %u that thread has not come, or another one is first (does a lock "
            "of the program's keep it, or have all threads of a pool other tasks there?)",
            segment.options.rank, segment.options.collective_timeout_ms / 1000, late);
        segment.options.fail("AR-COLLECTIVE-TIMEOUT", text);
    }
}

static void ask(int kind, uint64_t thread) {
    struct segment_turn *turn = &segment_control(segment.options.rank)->turns[kind];
    for (uint32_t i = 0; i < SEGMENT_WAITERS; i++) {
        uint64_t empty = 0;
        if (atomic_load(&turn->waiting[i]) == thread + 1 || atomic_compare_exchange_strong(&turn->waiting[i], &empty, thread + 1)) {
            uint32_t used = atomic_load(&turn->used);
            while (used <= i && !atomic_compare_exchange_weak(&turn->used, &used, i + 1)) {
            }
            return;
        }
    }
}

static void ask_no_more(int kind, uint64_t thread) {
    struct segment_turn *turn = &segment_control(segment.options.rank)->turns[kind];
    uint32_t used = atomic_load(&turn->used);
    for (uint32_t i = 0; i < used; i++) {
        if (atomic_load(&turn->waiting[i]) == thread + 1) {
            atomic_store(&turn->waiting[i], 0);
        }
    }
}

/* Does the thread of another rank wait, too; if not, do others? */
static enum comm_turn turn_there(const struct segment_turn *turn, uint64_t number, uint64_t thread) {
    enum comm_turn whose = COMM_TURN_UNKNOWN;
    if (!thread && atomic_load_explicit(&turn->alone, memory_order_acquire) >= number) {
        return COMM_TURN_TAKEN;
    }
    uint32_t used = atomic_load_explicit(&turn->used, memory_order_acquire);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t waiting = atomic_load_explicit(&turn->waiting[i], memory_order_acquire);
        if (waiting == thread + 1) {
            return COMM_TURN_TAKEN;
        }
        whose = waiting ? COMM_TURN_OTHERS : whose;
    }
    return whose;
}

/* The first rank lets the thread go first that all ranks have waiting: one that has come here alone may wait there for another one to go first, as a task does
   in a queue before a pool that is full. */
static enum comm_turn take_first(int kind, uint64_t number, uint64_t thread, uint32_t *late) {
    struct segment_turn *turn = &segment_control(segment.first)->turns[kind];
    if (turn->number == number &&
        turn->threads[number % SEGMENT_TURNS] == thread) /* it has not used it: others may have gone on with theirs */
        return COMM_TURN_TAKEN;
    for (uint32_t rank = segment.first + 1; turn_are_several() && rank < segment.last; rank++) {
        enum comm_turn whose = turn_there(&segment_control(rank)->turns[kind], number, thread);
        if (whose != COMM_TURN_TAKEN) {
            *late = rank;
            return whose;
        }
    }
    atomic_store_explicit(&turn->threads[number % SEGMENT_TURNS], thread, memory_order_relaxed);
    atomic_store_explicit(&turn->number, number, memory_order_release);
    return COMM_TURN_TAKEN;
}

static enum comm_turn take_next(int kind, uint64_t number, uint64_t thread) {
    const struct segment_turn *turn = &segment_control(segment.first)->turns[kind];
    if (!turn_are_several()) {
        atomic_store_explicit(&segment_control(segment.options.rank)->turns[kind].alone, number, memory_order_release);
        return COMM_TURN_TAKEN;
    }
    uint64_t reached = atomic_load_explicit(&turn->number, memory_order_acquire);
    if (reached < number) {
        return COMM_TURN_UNKNOWN;
    }
    bool is_kept = reached - number < SEGMENT_TURNS - 1; /* one more is being written */
    bool is_own = !is_kept || atomic_load_explicit(&turn->threads[number % SEGMENT_TURNS], memory_order_relaxed) == thread;
    return is_own ? COMM_TURN_TAKEN : COMM_TURN_OTHERS;
}

/* number: of what is to come. */
static enum comm_turn take(int kind, uint64_t number, uint64_t thread, uint64_t since_ns) {
    uint32_t late = segment.first;
    if (turn_are_several()) {
        ask(kind, thread);
    }
    enum comm_turn whose = segment_is_leader() ? take_first(kind, number, thread, &late) : take_next(kind, number, thread);
    if (whose != COMM_TURN_TAKEN) {
        show_waiting();
        give_up_turn(late, since_ns);
        return whose;
    }
    if (turn_are_several()) {
        ask_no_more(kind, thread);
    }
    return COMM_TURN_TAKEN;
}

static uint64_t own_thread(void) {
    return segment.options.thread ? segment.options.thread() : 0;
}

void comm_ask_turn(int is_for_backward) {
    if (segment.options.world_size > 1 && turn_are_several()) {
        ask(is_for_backward ? TURN_BACKWARD : TURN_COLLECTIVE, own_thread());
    }
}

enum comm_turn comm_take_turn(uint64_t since_ns) {
    uint64_t thread = own_thread();
    if (segment.options.world_size < 2) {
        return COMM_TURN_TAKEN;
    }
    enum comm_turn whose = take(TURN_COLLECTIVE, segment.sequence + 1, thread, since_ns);
    if (whose != COMM_TURN_TAKEN) {
        return whose;
    }
    segment.thread = thread;
    segment.has_turn = 1;
    agree_take_notes(thread);
    return COMM_TURN_TAKEN;
}

enum comm_turn comm_take_backward(uint64_t since_ns) {
    enum comm_turn whose =
        segment.options.world_size < 2 ? COMM_TURN_TAKEN : take(TURN_BACKWARD, segment.backwards + 1, own_thread(), since_ns);
    if (whose == COMM_TURN_TAKEN) {
        segment.backwards++;
        show_going();
    }
    return whose;
}

void comm_end_turn(void) {
    show_going();
    if (segment.options.world_size > 1 && turn_are_several()) { /* it has asked, and then did not need it */
        ask_no_more(TURN_COLLECTIVE, own_thread());
    }
    segment.has_turn = 0;
    segment.thread = 0;
}
