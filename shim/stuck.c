#include "stuck.h"

#include <stdatomic.h>

#include "asleep.h"
#include "link.h"
#include "shim.h"

/* A rank's word on the board: how many looks it has taken, and whether it was asleep from the last but one to the last. */
enum { ASLEEP = 1, LOOK = 2 };

static uint32_t ranks;
static _Atomic uint64_t waits;               /* have begun or ended: one that waits again has run meanwhile */
static atomic_flag looks = ATOMIC_FLAG_INIT; /* somebody looks; the rest is that one's */
static uint64_t mark, mark_waits;
static bool was_asleep;
static uint64_t seen[BOARD_RANKS_MAX]; /* what the others' words were when this rank fell asleep */

void stuck_begin(uint32_t world_size) {
    ranks = world_size;
}

static _Atomic uint64_t *word_of(uint32_t rank) {
    return &link_board()->deeds[rank].asleep;
}

static void say(bool is_asleep) {
    atomic_store(word_of(shim_rank()), ((atomic_load(word_of(shim_rank())) | ASLEEP) + 1) | is_asleep);
}

static void wake(void) {
    atomic_fetch_add(&waits, 1);
    atomic_fetch_and(word_of(shim_rank()), ~(uint64_t)ASLEEP);
}

int stuck_wait(void) {
    wake();
    return asleep_wait();
}

void stuck_wait_no_more(int place) {
    asleep_wait_no_more(place);
    wake();
}

/* Have all threads been asleep since the last look? */
static bool is_still_asleep(void) {
    uint64_t now, waits_now = atomic_load(&waits);
    bool is_asleep = asleep_look(&now), is_still = is_asleep && was_asleep && now == mark && waits_now == mark_waits;
    was_asleep = is_asleep;
    mark = now;
    mark_waits = waits_now;
    return is_still && atomic_load(&waits) == waits_now;
}

/* Has each of the others begun to look since this one fell asleep, and found that it was asleep? The one look that it had begun before does not count. */
static bool are_all_asleep(void) {
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint64_t word = atomic_load(word_of(rank));
        if (rank != shim_rank() && (!(word & ASLEEP) || word < seen[rank] + 2 * LOOK))
            return false;
    }
    return true;
}

static bool look(bool may_go_on) {
    bool has_just = !(atomic_load(word_of(shim_rank())) & ASLEEP), is_asleep = is_still_asleep();
    for (uint32_t rank = 0; rank < ranks && has_just && is_asleep; rank++)
        seen[rank] = atomic_load(word_of(rank)) | ASLEEP;
    say(is_asleep);
    if (!is_asleep || has_just || !may_go_on || !are_all_asleep())
        return false;
    was_asleep = false; /* one goes on, and wakes others */
    say(false);
    return true;
}

bool stuck_look(bool may_go_on) {
    if (link_board()->hosts > 1 || atomic_flag_test_and_set(&looks))
        return false;
    bool is_stuck = look(may_go_on && shim_rank() == 0);
    atomic_flag_clear(&looks);
    return is_stuck;
}
