#include "lifecycle.h"

/*
 * After a failure nobody waits for a collective (L15): ranks that wait in one see the board's abort word, the others have a moment. A
 * killed rank, a problem: all is over within MOMENT + SHORT = 3 s. The whole grace is given to who is stopped by the user, and by the supervisor to
 * ranks that have come as far as one that has ended with a code: ENDING lasts that long then.
 */
#define STAY(state)                                                                                                                        \
    { LIFECYCLE_##state, 0 }
#define GO(state, actions)                                                                                                                 \
    { LIFECYCLE_##state, actions }
#define ABORT LIFECYCLE_ABORT
#define TERM LIFECYCLE_TERM
#define KILL LIFECYCLE_KILL
#define MOMENT LIFECYCLE_MOMENT
#define SHORT LIFECYCLE_SHORT
#define GRACE LIFECYCLE_GRACE
#define STRAYS_TERM LIFECYCLE_STRAYS_TERM
#define STRAYS_KILL LIFECYCLE_STRAYS_KILL

static const struct lifecycle_step table[LIFECYCLE_STATES][LIFECYCLE_EVENTS] =
    {
        [LIFECYCLE_RUNNING] =
            {
                [LIFECYCLE_RANK_FAILED] = GO(ENDING, ABORT | MOMENT),
                [LIFECYCLE_PROBLEM] = GO(STOPPING, ABORT | TERM | SHORT),
                [LIFECYCLE_INTERRUPT] = GO(INTERRUPTED, 0),
                [LIFECYCLE_INTERRUPT_2] = GO(STOPPING, ABORT | TERM | GRACE),
                [LIFECYCLE_INTERRUPT_3] = GO(KILLING, ABORT | KILL | MOMENT),
                [LIFECYCLE_DEADLINE] = STAY(RUNNING),
                [LIFECYCLE_RANKS_GONE] = GO(SWEEPING, MOMENT),
                [LIFECYCLE_NOTHING_LEFT] = GO(DONE, 0),
            },
        [LIFECYCLE_INTERRUPTED] =
            {
                [LIFECYCLE_RANK_FAILED] = GO(ENDING, ABORT | SHORT),
                [LIFECYCLE_PROBLEM] = GO(STOPPING, ABORT | TERM | SHORT),
                [LIFECYCLE_INTERRUPT] = STAY(INTERRUPTED),
                [LIFECYCLE_INTERRUPT_2] = GO(STOPPING, ABORT | TERM | GRACE),
                [LIFECYCLE_INTERRUPT_3] = GO(KILLING, ABORT | KILL | MOMENT),
                [LIFECYCLE_DEADLINE] = STAY(INTERRUPTED),
                [LIFECYCLE_RANKS_GONE] = GO(SWEEPING, MOMENT),
                [LIFECYCLE_NOTHING_LEFT] = GO(DONE, 0),
            },
        [LIFECYCLE_ENDING] =
            {
                [LIFECYCLE_RANK_FAILED] = STAY(ENDING),
                [LIFECYCLE_PROBLEM] = GO(STOPPING, ABORT | TERM | SHORT),
                [LIFECYCLE_INTERRUPT] = STAY(ENDING),
                [LIFECYCLE_INTERRUPT_2] = GO(STOPPING, TERM | SHORT),
                [LIFECYCLE_INTERRUPT_3] = GO(KILLING, KILL | MOMENT),
                [LIFECYCLE_DEADLINE] = GO(STOPPING, TERM | SHORT),
                [LIFECYCLE_RANKS_GONE] = GO(SWEEPING, MOMENT),
                [LIFECYCLE_NOTHING_LEFT] = GO(DONE, 0),
            },
        [LIFECYCLE_STOPPING] =
            {
                [LIFECYCLE_RANK_FAILED] = STAY(STOPPING),
                [LIFECYCLE_PROBLEM] = STAY(STOPPING),
                [LIFECYCLE_INTERRUPT] = STAY(STOPPING),
                [LIFECYCLE_INTERRUPT_2] = GO(STOPPING, TERM),
                [LIFECYCLE_INTERRUPT_3] = GO(KILLING, KILL | MOMENT),
                [LIFECYCLE_DEADLINE] = GO(KILLING, KILL | MOMENT),
                [LIFECYCLE_RANKS_GONE] = GO(SWEEPING, MOMENT),
                [LIFECYCLE_NOTHING_LEFT] = GO(DONE, 0),
            },
        [LIFECYCLE_KILLING] =
            {
                [LIFECYCLE_RANK_FAILED] = STAY(KILLING),
                [LIFECYCLE_PROBLEM] = STAY(KILLING),
                [LIFECYCLE_INTERRUPT] = STAY(KILLING),
                [LIFECYCLE_INTERRUPT_2] = GO(KILLING, KILL), /* the time runs on: of a key that is held down there is no end */
                [LIFECYCLE_INTERRUPT_3] = GO(KILLING, KILL),
                [LIFECYCLE_DEADLINE] = GO(KILLING, KILL | MOMENT), /* again, until the supervisor gives up */
                [LIFECYCLE_RANKS_GONE] = GO(SWEEP_KILL, STRAYS_KILL | MOMENT),
                [LIFECYCLE_NOTHING_LEFT] = GO(DONE, 0),
            },
        [LIFECYCLE_SWEEPING] =
            {
                [LIFECYCLE_RANK_FAILED] = STAY(SWEEPING),
                [LIFECYCLE_PROBLEM] = STAY(SWEEPING),
                [LIFECYCLE_INTERRUPT] = GO(SWEEP_TERM, STRAYS_TERM | GRACE),
                [LIFECYCLE_INTERRUPT_2] = GO(SWEEP_TERM, STRAYS_TERM | GRACE),
                [LIFECYCLE_INTERRUPT_3] = GO(SWEEP_KILL, STRAYS_KILL | MOMENT),
                [LIFECYCLE_DEADLINE] = GO(SWEEP_TERM, STRAYS_TERM | GRACE),
                [LIFECYCLE_RANKS_GONE] = STAY(SWEEPING),
                [LIFECYCLE_NOTHING_LEFT] = GO(DONE, 0),
            },
        [LIFECYCLE_SWEEP_TERM] =
            {
                [LIFECYCLE_RANK_FAILED] = STAY(SWEEP_TERM),
                [LIFECYCLE_PROBLEM] = STAY(SWEEP_TERM),
                [LIFECYCLE_INTERRUPT] = STAY(SWEEP_TERM),
                [LIFECYCLE_INTERRUPT_2] = GO(SWEEP_KILL, STRAYS_KILL | MOMENT),
                [LIFECYCLE_INTERRUPT_3] = GO(SWEEP_KILL, STRAYS_KILL | MOMENT),
                [LIFECYCLE_DEADLINE] = GO(SWEEP_KILL, STRAYS_KILL | MOMENT),
                [LIFECYCLE_RANKS_GONE] = STAY(SWEEP_TERM),
                [LIFECYCLE_NOTHING_LEFT] = GO(DONE, 0),
            },
        [LIFECYCLE_SWEEP_KILL] =
            {
                [LIFECYCLE_RANK_FAILED] = STAY(SWEEP_KILL),
                [LIFECYCLE_PROBLEM] = STAY(SWEEP_KILL),
                [LIFECYCLE_INTERRUPT] = STAY(SWEEP_KILL),
                [LIFECYCLE_INTERRUPT_2] = GO(SWEEP_KILL, STRAYS_KILL),
                [LIFECYCLE_INTERRUPT_3] = GO(SWEEP_KILL, STRAYS_KILL),
                [LIFECYCLE_DEADLINE] = GO(SWEEP_KILL, STRAYS_KILL | MOMENT), /* again: killing one orphans the next */
                [LIFECYCLE_RANKS_GONE] = STAY(SWEEP_KILL),
                [LIFECYCLE_NOTHING_LEFT] = GO(DONE, 0),
            },
        [LIFECYCLE_DONE] =
            {
                [LIFECYCLE_RANK_FAILED] = STAY(DONE),
                [LIFECYCLE_PROBLEM] = STAY(DONE),
                [LIFECYCLE_INTERRUPT] = STAY(DONE),
                [LIFECYCLE_INTERRUPT_2] = STAY(DONE),
                [LIFECYCLE_INTERRUPT_3] = STAY(DONE),
                [LIFECYCLE_DEADLINE] = STAY(DONE),
                [LIFECYCLE_RANKS_GONE] = STAY(DONE),
                [LIFECYCLE_NOTHING_LEFT] = STAY(DONE),
            },
};

struct lifecycle_step lifecycle_next(enum lifecycle_state state, enum lifecycle_event event) {
    return table[state][event];
}
