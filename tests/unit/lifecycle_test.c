// sources: launcher/lifecycle.c launcher/watch.c
#include "unit.h"

#include "../../launcher/lifecycle.h"
#include "../../launcher/watch.h"

static struct lifecycle_step step;
#define FROM(state, event) (step = lifecycle_next(LIFECYCLE_##state, LIFECYCLE_##event))

TEST("a failed rank: the others are told, get a moment, SIGTERM, SIGKILL") {
    FROM(RUNNING, RANK_FAILED);
    EXPECT(step.next == LIFECYCLE_ENDING && step.actions == (LIFECYCLE_ABORT | LIFECYCLE_MOMENT));
    FROM(ENDING, DEADLINE);
    EXPECT(step.next == LIFECYCLE_STOPPING && (step.actions & LIFECYCLE_TERM) && (step.actions & LIFECYCLE_ARM));
    FROM(STOPPING, DEADLINE);
    EXPECT(step.next == LIFECYCLE_KILLING && (step.actions & LIFECYCLE_KILL));
    EXPECT(LIFECYCLE_MOMENT_MS + LIFECYCLE_SHORT_MS < 5000);
}

TEST("a problem stops at once") {
    FROM(RUNNING, PROBLEM);
    EXPECT(step.next == LIFECYCLE_STOPPING && (step.actions & LIFECYCLE_TERM) && (step.actions & LIFECYCLE_ABORT));
}

TEST("the first Ctrl-C only waits") {
    FROM(RUNNING, INTERRUPT);
    EXPECT(step.next == LIFECYCLE_INTERRUPTED && step.actions == 0);
    FROM(INTERRUPTED, DEADLINE);
    EXPECT(step.next == LIFECYCLE_INTERRUPTED);
}

TEST("the third Ctrl-C kills from wherever ranks live, and no event ever revives a run") {
    for (int state = LIFECYCLE_RUNNING; state <= LIFECYCLE_KILLING; state++)
        EXPECT(lifecycle_next((enum lifecycle_state)state, LIFECYCLE_INTERRUPT_3).actions & LIFECYCLE_KILL);
    for (int state = 0; state < LIFECYCLE_STATES; state++)
        for (int event = 0; event < LIFECYCLE_EVENTS; event++) {
            struct lifecycle_step next = lifecycle_next((enum lifecycle_state)state, (enum lifecycle_event)event);
            EXPECT(next.next >= state);
        }
}

TEST("Ctrl-C held down kills again and again, and puts the end off no further") {
    for (int event = LIFECYCLE_INTERRUPT_2; event <= LIFECYCLE_INTERRUPT_3; event++) {
        struct lifecycle_step killing = lifecycle_next(LIFECYCLE_KILLING, (enum lifecycle_event)event),
                              sweeping = lifecycle_next(LIFECYCLE_SWEEP_KILL, (enum lifecycle_event)event);
        EXPECT(killing.next == LIFECYCLE_KILLING && killing.actions == LIFECYCLE_KILL);
        EXPECT(sweeping.next == LIFECYCLE_SWEEP_KILL && sweeping.actions == LIFECYCLE_STRAYS_KILL);
    }
}

TEST("every state that waits for time has armed it on the way in") {
    for (int state = 0; state < LIFECYCLE_STATES; state++)
        for (int event = 0; event < LIFECYCLE_EVENTS; event++) {
            struct lifecycle_step next = lifecycle_next((enum lifecycle_state)state, (enum lifecycle_event)event);
            int waits = next.next == LIFECYCLE_ENDING || next.next == LIFECYCLE_STOPPING || next.next == LIFECYCLE_SWEEPING ||
                        next.next == LIFECYCLE_SWEEP_TERM || next.next == LIFECYCLE_SWEEP_KILL || next.next == LIFECYCLE_KILLING;
            EXPECT(!waits || next.next == state || (next.actions & LIFECYCLE_ARM));
        }
}

TEST("from every state the end is reached when nothing is left") {
    for (int state = 0; state < LIFECYCLE_STATES; state++)
        EXPECT(lifecycle_next((enum lifecycle_state)state, LIFECYCLE_NOTHING_LEFT).next == LIFECYCLE_DONE);
}

TEST("a rank that makes no progress while another waits is named once, and when it goes on") {
    struct watch_rank ranks[2] = {{.generation = 1, .collective = 4, .is_waiting = true}, {.generation = 1, .collective = 3}};
    EXPECT(watch_look(ranks, 2, 1000, 500).finding == WATCH_NOTHING);
    EXPECT(watch_look(ranks, 2, 1499, 500).finding == WATCH_NOTHING);
    struct watch_result result = watch_look(ranks, 2, 1500, 500);
    EXPECT(result.finding == WATCH_STALLED && result.rank == 1 && result.other == 0 && result.waiting == 1);
    EXPECT(watch_look(ranks, 2, 3000, 500).finding == WATCH_NOTHING);
    ranks[1].collective = 4;
    result = watch_look(ranks, 2, 3001, 500);
    EXPECT(result.finding == WATCH_RESUMED && result.rank == 1);
}

TEST("a rank that was stopped while it waited is named when the others are further, or wait with it") {
    struct watch_rank ranks[3] = {{.generation = 1, .collective = 5, .is_waiting = true},
                                  {.generation = 1, .collective = 4, .is_waiting = true}, /* it has not seen that all came */
                                  {.generation = 1, .collective = 5, .is_waiting = true}};
    watch_look(ranks, 3, 1000, 500);
    struct watch_result result = watch_look(ranks, 3, 1500, 500);
    EXPECT(result.finding == WATCH_STALLED && result.rank == 1 && result.waiting == 2);
    struct watch_rank same[2] = {{.generation = 1, .collective = 5, .is_waiting = true}, /* inside one collective */
                                 {.generation = 1, .collective = 5, .is_waiting = true}};
    watch_look(same, 2, 1000, 500);
    EXPECT(watch_look(same, 2, 1500, 500).finding == WATCH_NOTHING);
    same[1].is_stopped = true;
    result = watch_look(same, 2, 1600, 500);
    EXPECT(result.finding == WATCH_STALLED && result.rank == 1 && result.other == 0);
    struct watch_rank chain[3] = {{.generation = 1, .collective = 5, .is_waiting = true},
                                  {.generation = 1, .collective = 4, .is_waiting = true}, /* rank 2 keeps it waiting */
                                  {.generation = 1, .collective = 3}};
    watch_look(chain, 3, 1000, 500);
    result = watch_look(chain, 3, 1500, 500);
    EXPECT(result.finding == WATCH_STALLED && result.rank == 2);
    EXPECT(watch_look(chain, 3, 2000, 500).finding == WATCH_NOTHING);
}

TEST("ranks that all wait for a turn, each in another thread, are told of once, and again when they have gone on in between") {
    struct watch_rank ranks[2] = {{.generation = 1, .collective = 5, .is_waiting = true, .waits_for_turn = true},
                                  {.generation = 1, .collective = 5, .is_waiting = true, .waits_for_turn = true}};
    EXPECT(watch_look(ranks, 2, 1000, 500).finding == WATCH_NOTHING);
    struct watch_result result = watch_look(ranks, 2, 1500, 500);
    EXPECT(result.finding == WATCH_CROSSED && result.waiting == 2 && result.still_ms == 500);
    EXPECT(watch_look(ranks, 2, 3000, 500).finding == WATCH_NOTHING);
    ranks[0].collective = ranks[1].collective = 6;
    EXPECT(watch_look(ranks, 2, 3001, 500).finding == WATCH_NOTHING);
    EXPECT(watch_look(ranks, 2, 3501, 500).finding == WATCH_CROSSED);
    ranks[1].collective = 7;
    EXPECT(watch_look(ranks, 2, 4500, 500).finding != WATCH_CROSSED);
}

TEST("ranks that all wait, one where files are changed and one in a collective, are told of") {
    struct watch_rank ranks[2] = {{.generation = 1, .collective = 5, .meetings = 2, .is_waiting = true},
                                  {.generation = 1, .collective = 5, .meetings = 1, .is_waiting = true, .waits_for_turn = true}};
    EXPECT(watch_look(ranks, 2, 1000, 500).finding == WATCH_NOTHING);
    EXPECT(watch_look(ranks, 2, 1500, 500).finding == WATCH_APART);
    ranks[1].is_waiting = ranks[1].waits_for_turn = false;
    EXPECT(watch_look(ranks, 2, 9000, 500).finding != WATCH_APART);
}

TEST("a rank that was stopped by a signal when all others have ended is named, one that goes on by itself is not") {
    struct watch_rank ranks[2] = {{.generation = 1, .collective = 5, .has_ended = true},
                                  {.generation = 1, .collective = 5, .is_stopped = true}};
    watch_look(ranks, 2, 1000, 500);
    struct watch_result result = watch_look(ranks, 2, 1500, 500);
    EXPECT(result.finding == WATCH_STALLED && result.rank == 1 && result.waiting == 0);
    struct watch_rank slow[2] = {{.generation = 1, .collective = 5, .has_ended = true}, {.generation = 1, .collective = 5}};
    watch_look(slow, 2, 1000, 500);
    EXPECT(watch_look(slow, 2, 9000, 500).finding == WATCH_NOTHING);
    slow[1].is_stopped = true;
    slow[0].has_ended = false;
    EXPECT(watch_look(slow, 2, 9000, 500).finding == WATCH_NOTHING);
}

TEST("slow ranks that nobody waits for are not named, nor is one that computes on") {
    struct watch_rank ranks[2] = {{.generation = 1, .collective = 3}, {.generation = 1, .collective = 3}};
    watch_look(ranks, 2, 1000, 500);
    EXPECT(watch_look(ranks, 2, 9000, 500).finding == WATCH_NOTHING);
    ranks[0].collective = 4;
    ranks[0].is_waiting = true;
    for (uint64_t now = 9100; now < 20000; now += 400) {
        ranks[1].step++;
        EXPECT(watch_look(ranks, 2, now, 500).finding == WATCH_NOTHING);
    }
}

TEST("with no time at all nobody is named, and who has left is found all the same") {
    struct watch_rank ranks[2] = {{.generation = 1, .collective = 4, .is_waiting = true}, {.generation = 1, .collective = 3}};
    for (uint64_t now = 1000; now < 1000000; now += 1000)
        EXPECT(watch_look(ranks, 2, now, 0).finding == WATCH_NOTHING);
    ranks[1].collective = 4;
    ranks[1].is_waiting = ranks[0].waits_for_turn = ranks[1].waits_for_turn = true;
    EXPECT(watch_look(ranks, 2, 1000000, 0).finding == WATCH_NOTHING && watch_look(ranks, 2, 2000000, 0).finding == WATCH_NOTHING);
    ranks[1].collective = 3;
    ranks[1].has_ended = true;
    EXPECT(watch_look(ranks, 2, 2000100, 0).finding == WATCH_EARLY);
}

TEST("a rank that has ended while another waits in a later collective left early") {
    struct watch_rank ranks[3] = {{.generation = 1, .collective = 9, .is_waiting = true},
                                  {.generation = 1, .collective = 9},
                                  {.generation = 1, .collective = 8, .has_ended = true}};
    struct watch_result result = watch_look(ranks, 3, 1000, 500);
    EXPECT(result.finding == WATCH_EARLY && result.rank == 2 && result.other == 0);
    ranks[2].collective = 9; /* it took part: the wait is for rank 1 */
    EXPECT(watch_look(ranks, 3, 1100, 500).finding == WATCH_NOTHING);
    ranks[0].generation = 2; /* the second program of a script: rank 2 never came to it */
    EXPECT(watch_look(ranks, 3, 1200, 500).finding == WATCH_EARLY);
}

TEST("between two programs of a script nobody has left, within one he has") {
    struct watch_rank ranks[2] = {{.generation = 2, .collective = 1, .is_waiting = true},
                                  {.generation = 1, .collective = 9, .trainer_has_ended = true}};
    EXPECT(watch_look(ranks, 2, 1000, 500).finding == WATCH_NOTHING);
    ranks[1].generation = 2;
    ranks[1].collective = 0;
    struct watch_result result = watch_look(ranks, 2, 1100, 500);
    EXPECT(result.finding == WATCH_EARLY && result.rank == 1);
}

TEST("a rank that is in the next program of its script has left those that wait in the one before") {
    struct watch_rank ranks[2] = {{.generation = 1, .program = 1, .collective = 6, .is_waiting = true},
                                  {.generation = 2, .program = 2, .is_waiting = true}};
    EXPECT(watch_look(ranks, 2, 1000, 500).finding == WATCH_NOTHING); /* rank 0 may not have seen yet that all have come */
    struct watch_result result = watch_look(ranks, 2, 1200, 500);
    EXPECT(result.finding == WATCH_EARLY && result.rank == 1 && result.other == 0);
}

TEST("it has not left one that goes on by itself, was stopped, or meets it before its claim") {
    struct watch_rank slow[2] = {{.generation = 1, .program = 1, .collective = 6, .is_waiting = true}, {.generation = 2, .program = 2}};
    watch_look(slow, 2, 1000, 500);
    slow[0].is_waiting = false;
    EXPECT(watch_look(slow, 2, 1200, 500).finding == WATCH_NOTHING);
    struct watch_rank stopped[2] = {{.generation = 1, .program = 1, .collective = 6, .is_waiting = true, .is_stopped = true},
                                    {.generation = 2, .program = 2}};
    watch_look(stopped, 2, 1000, 500);
    EXPECT(watch_look(stopped, 2, 1200, 500).finding == WATCH_NOTHING);
    struct watch_rank attached[2] = {{.generation = 1, .program = 2, .collective = 1, .is_waiting = true}, {.generation = 2, .program = 2}};
    watch_look(attached, 2, 1000, 500);
    EXPECT(watch_look(attached, 2, 1200, 500).finding == WATCH_NOTHING);
}
