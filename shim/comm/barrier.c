/*
 * A flat barrier: each rank publishes how many barriers it has entered and reads the counters of all others.
 *
 * Rules
 *  - A counter per rank, never a common one: at the deadline the counters say who is late.
 *  - Ranks that have a core each spin (0.1 to 0.4 us); otherwise they give the core away at once: with 4 ranks on 2 cores a barrier took 48 us
 *    spinning and 1.6 us yielding. Both then sleep on a futex, so nobody burns a core while another rank computes for long.
 *  - A sleep is never longer than BARRIER_NAP_MS: a rank that was killed rings no bell, and the launcher sets the abort word without ringing either.
 *
 * Why no wake-up is lost: the last rank to arrive (in the one order of sequentially consistent operations) finds everybody there at its first look,
 * and rings if there are sleepers. A sleeper counts itself, reads the bell, looks once more, and only then sleeps on the value it read.
 */
#include "barrier.h"

#include "clock.h"
#include "segment.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    BARRIER_SPINS = 2000,    /* pauses: 40 to 90 us on today's processors, about what a sleep and a wake-up cost */
    BARRIER_YIELDS = 64,     /* of the core, when there are more ranks than cores */
    BARRIER_LOOK_ROUND = 63, /* the abort word is read once in so many spins, plus one */
    BARRIER_NAP_MS = 50,
    BARRIER_LATE_SHOWN = 4,
    BARRIER_LEADER_MS = 500,
    BARRIER_TEXT = 1024,
};

static const char *const phase_words[BOARD_PHASES] = {
    [BOARD_STARTING] = "starting",        [BOARD_SETUP] = "setting up",          [BOARD_FORWARD] = "forward",
    [BOARD_BACKWARD] = "backward",        [BOARD_REDUCE] = "reducing gradients", [BOARD_STEP] = "optimizer step",
    [BOARD_SAVE] = "saving a checkpoint",
};

static inline void spin_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Counters only grow, so ranks before *next need no second look. */
static int all_arrived(uint32_t *next) {
    while (*next < segment.last) {
        if (atomic_load_explicit(&segment_control(*next)->arrived, memory_order_seq_cst) < segment.arrivals) {
            return 0;
        }
        ++*next;
    }
    return 1;
}

void barrier_look_up(void) {
    char text[BARRIER_TEXT];
    uint32_t abort = atomic_load_explicit(&segment.board->abort, memory_order_relaxed);
    if (!abort) {
        return;
    }
    if (abort == BOARD_ABORT_LAUNCHER) {
        snprintf(text, sizeof text, "the launcher is stopping the job; rank %u was waiting in \"%s\"", segment.options.rank, segment.label);
    } else {
        snprintf(text, sizeof text, "rank %u has stopped the job; rank %u was waiting in \"%s\"", abort - 1, segment.options.rank,
                 segment.label);
    }
    segment.options.fail("AR-ABORTED", text);
}

int barrier_describe(char *text, size_t room, uint32_t rank) {
    const struct board_rank *late = &segment.board->ranks[rank];
    uint32_t phase = atomic_load(&late->phase);
    char where[BOARD_WHERE_CHARS];
    memcpy(where, late->where, sizeof where);
    where[sizeof where - 1] = 0;
    return snprintf(text, room, "rank %u has not come (%s, step %llu, %s \"%s\"); ", rank,
                    phase < BOARD_PHASES ? phase_words[phase] : "unknown phase", (unsigned long long)atomic_load(&late->step),
                    atomic_load(&late->waiting) ? "in" : "last seen in", where);
}

__attribute__((noreturn)) static void fail_late(void) {
    char text[BARRIER_TEXT];
    int used = 0;
    uint32_t late = 0;
    for (uint32_t rank = segment.first; rank < segment.last; rank++) {
        if (atomic_load(&segment_control(rank)->arrived) < segment.arrivals && ++late <= BARRIER_LATE_SHOWN) {
            used += barrier_describe(text + used, sizeof text - (size_t)used, rank);
        }
    }
    if (late > BARRIER_LATE_SHOWN) {
        used += snprintf(text + used, sizeof text - (size_t)used, "nor have %u more ranks; ", late - BARRIER_LATE_SHOWN);
    }
    snprintf(text + used, sizeof text - (size_t)used, "rank %u has waited %.1f s in \"%s\" (collective %llu)", segment.options.rank,
             (double)segment.options.collective_timeout_ms / 1000, segment.label, (unsigned long long)segment.sequence);
    segment.options.fail("AR-COLLECTIVE-TIMEOUT", text);
}

/* Is everybody of this host here but the leader, and that waits for another host? It knows better who is late, and came later than this rank. */
static int leader_will_say(uint64_t now) {
    const struct board_rank *leader = &segment.board->ranks[segment.first];
    uint64_t moment = (uint64_t)segment.options.collective_timeout_ms * 1000000 + BARRIER_LEADER_MS * (uint64_t)1000000;
    if (!segment_is_spread() || segment_is_leader() || now >= segment.deadline_ns + moment) {
        return 0;
    }
    for (uint32_t rank = segment.first + 1; rank < segment.last; rank++) {
        if (atomic_load(&segment_control(rank)->arrived) < segment.arrivals) {
            return 0;
        }
    }
    return atomic_load(&leader->waiting) && atomic_load(&leader->collective) >= segment.sequence;
}

static void ring_bell(void) {
    if (atomic_load_explicit(&segment.common->sleepers, memory_order_seq_cst)) {
        atomic_fetch_add(&segment.common->bell, 1);
        syscall(SYS_futex, &segment.common->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    }
}

/* One sleep of at most BARRIER_NAP_MS; 1 when all have come. */
static int nap(uint32_t *next) {
    struct timespec limit = {0, BARRIER_NAP_MS * 1000000};
    barrier_look_up();
    if (segment.options.look) {
        segment.options.look(*next);
    }
    int is_late = segment_is_late();
    uint64_t now = segment.looked_ns;
    if (is_late && !leader_will_say(now)) {
        fail_late();
    }
    if (now < segment.deadline_ns && segment.deadline_ns - now < (uint64_t)limit.tv_nsec) {
        limit.tv_nsec = (long)(segment.deadline_ns - now);
    }
    atomic_fetch_add(&segment.common->sleepers, 1);
    uint32_t bell = atomic_load(&segment.common->bell);
    if (!all_arrived(next)) {
        syscall(SYS_futex, &segment.common->bell, FUTEX_WAIT, bell, &limit, NULL, 0);
    }
    atomic_fetch_sub(&segment.common->sleepers, 1);
    return all_arrived(next);
}

static int wait_awake(uint32_t *next) {
    if (segment.last - segment.first <= segment.options.cores) {
        for (int spins = 0; spins < BARRIER_SPINS; spins++) {
            spin_pause();
            if (all_arrived(next)) {
                return 1;
            }
            if (!(spins & BARRIER_LOOK_ROUND)) {
                barrier_look_up();
            }
        }
        return 0;
    }
    for (int yields = 0; yields < BARRIER_YIELDS; yields++) {
        sched_yield();
        if (all_arrived(next)) {
            return 1;
        }
        barrier_look_up();
    }
    return 0;
}

void barrier_pass(void) {
    int saved_errno = errno; /* futex and sched_yield set it, and the program's thread is passing through us */
    uint32_t next = segment.first;
    segment.arrivals++;
    atomic_store_explicit(&segment_control(segment.options.rank)->arrived, segment.arrivals, memory_order_seq_cst);
    if (all_arrived(&next)) {
        ring_bell();
    } else if (!wait_awake(&next)) {
        segment_wait_begins();
        while (!nap(&next)) {
        }
    }
    errno = saved_errno;
}
