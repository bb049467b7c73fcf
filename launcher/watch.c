#include "watch.h"

#include <stdio.h>

/* Has `a` done less than `b`, so that b's collective cannot end without it? */
static bool is_behind(const struct watch_rank *a, const struct watch_rank *b) {
    return a->generation < b->generation || (a->generation == b->generation && a->collective < b->collective);
}

/* Will it never come? When only its trainer has ended, it will not come to this generation, but perhaps to the next. */
static bool has_left(const struct watch_rank *rank, const struct watch_rank *waiter) {
    return rank->has_ended || (rank->trainer_has_ended && rank->generation == waiter->generation);
}

static uint64_t mark_of(const struct watch_rank *rank) {
    uint64_t mark = rank->generation;
    mark = mark * 1000003u + rank->phase;
    mark = mark * 1000003u + rank->step;
    mark = mark * 1000003u + rank->collective;
    return mark * 1000003u + rank->is_waiting + rank->waits_for_turn;
}

/*
 * The live ranks that wait for `index`: in a collective that it has not reached, or anywhere when it was stopped by a signal, which may have been inside
 * the collective in which they are, too. *other is the first of them.
 */
static uint32_t waiting_for(const struct watch_rank *ranks, uint32_t world_size, uint32_t index, uint32_t *other) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < world_size; i++) {
        bool waits = is_behind(&ranks[index], &ranks[i]) || ranks[index].is_stopped;
        if (i == index || ranks[i].has_ended || !ranks[i].is_waiting || !waits)
            continue;
        if (!count++)
            *other = i;
    }
    return count;
}

/* Who says so may be the first to have come, and not have noticed that all others are further now. */
static bool waits_itself(const struct watch_rank *ranks, uint32_t world_size, uint32_t index) {
    bool is_last = true;
    for (uint32_t i = 0; i < world_size; i++)
        is_last &= i == index || !is_behind(&ranks[i], &ranks[index]);
    return ranks[index].is_waiting && !ranks[index].is_stopped && !is_last;
}

/* It was stopped by a signal, and all others have ended: only the user waits. */
static bool is_left_stopped(const struct watch_rank *ranks, uint32_t world_size, uint32_t index) {
    bool is_left = ranks[index].is_stopped && !ranks[index].has_ended;
    for (uint32_t i = 0; i < world_size; i++)
        is_left &= i == index || ranks[i].has_ended;
    return is_left;
}

static void refresh(struct watch_rank *rank, uint64_t now_ms) {
    uint64_t mark = mark_of(rank);
    if (mark != rank->mark || !rank->since_ms) {
        rank->mark = mark;
        rank->since_ms = now_ms;
    }
}

/* Since when all have waited, each as far as the others and not at the same place; 0: they do not. Inside a collective they may be for long. *for_turns: for
   their turn in the same one. */
static uint64_t crossed_since(const struct watch_rank *ranks, uint32_t world_size, bool *for_turns) {
    bool are_apart = false;
    uint64_t since_ms = 1;
    *for_turns = true;
    for (uint32_t i = 0; i < world_size; i++) {
        bool is_alike = ranks[i].generation == ranks[0].generation && ranks[i].collective == ranks[0].collective;
        if (!is_alike || !ranks[i].is_waiting || ranks[i].is_stopped || ranks[i].has_ended)
            return 0;
        *for_turns &= ranks[i].waits_for_turn;
        are_apart |= ranks[i].meetings != ranks[0].meetings;
        since_ms = ranks[i].since_ms > since_ms ? ranks[i].since_ms : since_ms;
    }
    return *for_turns || are_apart ? since_ms : 0;
}

/* Who has claimed the next program of its script comes no more to where this one waits: it was killed there, or has left. Not at the first look, which may
   come before this one has seen that all were there. */
static bool is_left_behind(const struct watch_rank *ranks, uint32_t world_size, uint32_t index, uint32_t *gone) {
    const struct watch_rank *waiter = &ranks[index];
    for (uint32_t i = 0; i < world_size; i++)
        if (ranks[i].program > waiter->program && waiter->program && waiter->is_waiting && !waiter->is_stopped && !waiter->has_ended) {
            *gone = i;
            return true;
        }
    return false;
}

static bool look_for_left(struct watch_rank *ranks, uint32_t world_size, uint64_t now_ms, struct watch_result *result) {
    for (uint32_t i = 0; i < world_size; i++) {
        uint32_t gone = 0;
        bool is_left = is_left_behind(ranks, world_size, i, &gone);
        if (is_left && ranks[i].is_left && ranks[i].since_ms && ranks[i].mark == mark_of(&ranks[i])) {
            *result = (struct watch_result){WATCH_EARLY, gone, i, 1, now_ms - ranks[i].since_ms};
            return true;
        }
        ranks[i].is_left = is_left;
    }
    return false;
}

static void look_for_crossed(struct watch_rank *ranks, uint32_t world_size, uint64_t now_ms, uint64_t stall_ms,
                             struct watch_result *result) {
    bool for_turns = false;
    uint64_t since_ms = world_size > 1 ? crossed_since(ranks, world_size, &for_turns) : 0;
    bool is_long = since_ms && now_ms - since_ms >= stall_ms;
    if (is_long && !ranks[0].is_crossed && !result->finding) {
        *result = (struct watch_result){for_turns ? WATCH_CROSSED : WATCH_APART, 0, 1, world_size, now_ms - since_ms};
        ranks[0].is_crossed = true;
    }
    ranks[0].is_crossed &= is_long;
}

struct watch_result watch_look(struct watch_rank *ranks, uint32_t world_size, uint64_t now_ms, uint64_t stall_ms) {
    struct watch_result result = {WATCH_NOTHING, 0, 0, 0, 0};
    stall_ms = stall_ms ? stall_ms : UINT64_MAX;
    if (look_for_left(ranks, world_size, now_ms, &result))
        return result;
    for (uint32_t i = 0; i < world_size && result.finding != WATCH_EARLY; i++) {
        uint32_t other = 0, waiting = waiting_for(ranks, world_size, i, &other);
        refresh(&ranks[i], now_ms);
        uint64_t still_ms = now_ms - ranks[i].since_ms;
        bool is_waited_for = waiting ? !waits_itself(ranks, world_size, i) : is_left_stopped(ranks, world_size, i);
        if (waiting && has_left(&ranks[i], &ranks[other])) {
            result = (struct watch_result){WATCH_EARLY, i, other, waiting, still_ms};
        } else if (is_waited_for && !ranks[i].is_named && still_ms >= stall_ms && !result.finding) {
            ranks[i].is_named = true;
            result = (struct watch_result){WATCH_STALLED, i, other, waiting, still_ms};
        } else if (ranks[i].is_named && still_ms < stall_ms && !result.finding) {
            ranks[i].is_named = false;
            result = (struct watch_result){WATCH_RESUMED, i, other, waiting, still_ms};
        }
    }
    look_for_crossed(ranks, world_size, now_ms, stall_ms, &result);
    return result;
}

void watch_words(const struct watch_rank *rank, char *text, size_t size) {
    static const char *const phases[BOARD_PHASES] = {"starting",
                                                     "being set up",
                                                     "in the forward pass",
                                                     "in the backward pass",
                                                     "reducing gradients",
                                                     "between backward pass and next batch",
                                                     "writing a checkpoint"};
    if (!rank->generation || rank->phase >= BOARD_PHASES)
        snprintf(text, size, "before its first use of libtorch");
    else
        snprintf(text, size, "%s, step %llu%s%.*s%s", phases[rank->phase], (unsigned long long)rank->step + 1, *rank->where ? " (" : "",
                 BOARD_WHERE_CHARS, rank->where, *rank->where ? ")" : "");
}
