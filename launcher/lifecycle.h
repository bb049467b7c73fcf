/*
 * What the launcher does when something happens: one table, states × events → next state and actions. Pure.
 */
#ifndef ACCEL_RUN_LIFECYCLE_H
#define ACCEL_RUN_LIFECYCLE_H

enum lifecycle_state {
    LIFECYCLE_RUNNING,
    LIFECYCLE_INTERRUPTED, /* the user's signal was forwarded; the program may save and end by itself */
    LIFECYCLE_ENDING,      /* a rank has failed; the others get a moment to fail, and say why, by themselves */
    LIFECYCLE_STOPPING,    /* asked to end (SIGTERM) */
    LIFECYCLE_KILLING,
    LIFECYCLE_SWEEPING, /* all ranks have ended; processes they started have not: a moment to end by themselves */
    LIFECYCLE_SWEEP_TERM,
    LIFECYCLE_SWEEP_KILL,
    LIFECYCLE_DONE, /* no process is left; output may be */
    LIFECYCLE_STATES
};

enum lifecycle_event {
    LIFECYCLE_RANK_FAILED,  /* by itself: a code other than 0, or a signal not ours */
    LIFECYCLE_PROBLEM,      /* training would be wrong: stop */
    LIFECYCLE_INTERRUPT,    /* first SIGINT; SIGTERM, SIGHUP, SIGQUIT: forwarded */
    LIFECYCLE_INTERRUPT_2,  /* second Ctrl-C */
    LIFECYCLE_INTERRUPT_3,  /* third and later */
    LIFECYCLE_DEADLINE,     /* the time armed last is over */
    LIFECYCLE_RANKS_GONE,   /* the last rank has ended */
    LIFECYCLE_NOTHING_LEFT, /* no descendant is left */
    LIFECYCLE_EVENTS
};

enum lifecycle_action {
    LIFECYCLE_ABORT = 1,  /* tell the ranks through the board: nobody waits in a collective for the dead */
    LIFECYCLE_TERM = 2,   /* SIGTERM to all groups */
    LIFECYCLE_KILL = 4,   /* SIGKILL to all groups */
    LIFECYCLE_MOMENT = 8, /* arm LIFECYCLE_MOMENT_MS */
    LIFECYCLE_SHORT = 16, /* arm LIFECYCLE_SHORT_MS */
    LIFECYCLE_GRACE = 32, /* arm --grace */
    LIFECYCLE_STRAYS_TERM = 64,
    LIFECYCLE_STRAYS_KILL = 128,
    LIFECYCLE_ARM = 8 | 16 | 32,
};

#define LIFECYCLE_MOMENT_MS 1000
#define LIFECYCLE_SHORT_MS 2000

struct lifecycle_step {
    unsigned char next;    /* enum lifecycle_state */
    unsigned char actions; /* of enum lifecycle_action */
};

struct lifecycle_step lifecycle_next(enum lifecycle_state state, enum lifecycle_event event);

#endif
