/* Ranks that end, are stopped, or wait for one that will never come, where no launcher of ours looks after them. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/clock.h"
#include "joined.h"
#include "link.h"
#include "shim.h"

enum { STOP_MS = 3000, LOOK_MS = 200, STEP_MS = 1000, NAP_MS = 20, FAIL_TOGETHER_MS = 1000 };

static pid_t watched; /* the process whose end is the rank's */
static bool has_said; /* this process has said why the job ends */

/* Has the time come again? Any thread: a look too many does no harm. */
static bool is_time(_Atomic uint64_t *next_ms, uint64_t every_ms) {
    uint64_t now = clock_ms();
    if (now < atomic_load_explicit(next_ms, memory_order_relaxed))
        return false;
    atomic_store_explicit(next_ms, now + every_ms, memory_order_relaxed);
    return true;
}

/* ---- stopping */

static bool is_first_to_say(void) {
    uint32_t running = 0;
    struct board *board = link_board();
    if (!atomic_compare_exchange_strong(&joined_page()->stopped, &running, joined_rank() + 1))
        return false;
    running = 0;
    if (board)
        atomic_compare_exchange_strong(&board->abort, &running, joined_rank() + 1);
    has_said = true;
    return true;
}

static bool signal_process(uint64_t process, int signal) {
    return process && join_pid(process) != getpid() && joined_process_is_alive(process) && kill(join_pid(process), signal) == 0;
}

/* Counts the other ranks' processes that live; signal: 0, or sent to them. */
static int signal_others(int signal) {
    struct join_page *page = joined_page();
    int alive = 0;
    for (uint32_t rank = 0; rank < page->world_size; rank++) {
        if (rank == joined_rank())
            continue;
        alive += signal_process(page->ranks[rank].front, signal);
        if (atomic_load(&page->ranks[rank].claimer) != page->ranks[rank].front)
            alive += signal_process(atomic_load(&page->ranks[rank].claimer), signal);
    }
    return alive;
}

/* They see that the job is being stopped where they wait; one that computes for long is ended: not every launcher does it. */
static void end_others(void) {
    uint64_t begin = clock_ms();
    while (signal_others(0) && clock_ms() - begin < STOP_MS)
        poll(NULL, 0, NAP_MS);
    signal_others(SIGKILL);
}

/* A script around the program must not go on as if it had ended well. */
static void end_own_front(void) {
    if (!joined_is_front())
        signal_process(joined_page()->ranks[joined_rank()].front, SIGTERM);
}

void joined_stop(void) {
    watched = 0;
    if (!joined_page())
        return;
    end_own_front();
    if (has_said)
        end_others();
}

void joined_problem(const struct protocol_problem *problem) {
    watched = 0;
    if (!joined_page() || is_first_to_say())
        joined_words_problem(problem, -1);
}

/* ---- one that will not come */

enum way { WAY_RUNS, WAY_KILLED, WAY_EARLY, WAY_FAILED };

/* Alive is asked first: what a process writes before it ends is there when it is not. */
static enum way way_of(struct join_rank *rank) {
    uint32_t claims = atomic_load(&rank->claims), generation = joined_generation();
    bool has_come = claims == generation;
    bool is_alive = joined_process_is_alive(has_come ? atomic_load(&rank->claimer) : rank->front);
    uint32_t ended = atomic_load(has_come ? &rank->ended : &rank->left);
    if (claims > generation)
        return WAY_EARLY;
    return ended > 1 ? WAY_FAILED : ended ? WAY_EARLY : is_alive ? WAY_RUNS : WAY_KILLED;
}

static const char *const ids[] = {[WAY_KILLED] = "AR-RANK-KILLED", [WAY_EARLY] = "AR-RANK-EARLY", [WAY_FAILED] = "AR-RANK-FAILED"};
static const char *const cures[] = {
    [WAY_KILLED] = "look for who sent it a signal; too little memory is the usual reason: 'dmesg | tail'",
    [WAY_EARLY] = "does the program end by its own clock, by chance or by what only one process sees? All ranks must end at the same step",
    [WAY_FAILED] = "the other ranks did not fail: does the program depend on its process, time or place?",
};

static void name_gone(uint32_t number, enum way way) {
    const struct join_page *page = joined_page();
    const struct join_rank *rank = &page->ranks[number];
    const struct board_rank *line = &link_board()->ranks[number];
    struct protocol_problem problem = {.id = ""};
    char how[64];
    uint32_t ended = atomic_load(&rank->ended) > 1 ? atomic_load(&rank->ended) : atomic_load(&rank->left);
    snprintf(how, sizeof how,
             way == WAY_FAILED  ? "ended with exit code %u in"
             : way == WAY_EARLY ? "finished at"
                                : "was killed in",
             ended - 1);
    snprintf(problem.id, sizeof problem.id, "%s", ids[way]);
    snprintf(problem.cure, sizeof problem.cure, "%s", cures[way]);
    snprintf(problem.what, sizeof problem.what, "rank %u of %u (process %d) of '%s' %s step %llu, last in \"%.*s\"; rank %u waits for it",
             number, page->world_size, (int)join_pid(join_trainer(rank)), page->program, how,
             (unsigned long long)atomic_load(&line->step) + (way != WAY_EARLY), BOARD_WHERE_CHARS - 1, line->where, joined_rank());
    joined_words_problem(&problem, way == WAY_EARLY ? -1 : (int)number);
}

bool joined_look(uint32_t late) {
    static _Atomic uint64_t next_ms;
    if (!is_time(&next_ms, LOOK_MS))
        return false;
    if (joined_step())
        return true;
    enum way way = way_of(&joined_page()->ranks[late]);
    if (way == WAY_RUNS) {
        joined_held_look();
        joined_stall_look(late);
        return false;
    }
    if (is_first_to_say())
        name_gone(late, way);
    return true;
}

/* The process that the launcher has started as this rank is gone, and this one trains. left: as in struct join_rank. */
static void name_front(uint32_t left) {
    const struct join_page *page = joined_page();
    struct protocol_problem problem = {.id = ""};
    char how[64];
    enum way way = left ? WAY_FAILED : WAY_KILLED;
    snprintf(how, sizeof how, left ? "ended with exit code %u" : "was killed", left - 1);
    snprintf(problem.id, sizeof problem.id, "%s", ids[way]);
    snprintf(problem.cure, sizeof problem.cure, "%s", left ? "let the script wait for its training ('wait')" : cures[way]);
    snprintf(problem.what, sizeof problem.what,
             "rank %u of %u (process %d) of '%s' %s: %s has started it, and process %d, which trains, does not go on without it",
             joined_rank(), page->world_size, (int)join_pid(page->ranks[joined_rank()].front), page->program, how, page->engine,
             (int)getpid());
    joined_words_problem(&problem, -1);
}

static void name_engine(void) {
    const struct join_page *page = joined_page();
    struct protocol_problem problem = {.id = "AR-ENGINE-GONE",
                                       .cure = "look for who has ended it: 'dmesg | tail' tells of too little memory"};
    snprintf(problem.what, sizeof problem.what,
             "%s (process %d) has gone, and has started the %u ranks of '%s': they do not go on without it", page->engine,
             (int)join_pid(page->ranks[joined_rank()].engine), page->world_size, page->program);
    joined_words_problem(&problem, -1);
}

/* What has ended the launcher may be that another rank has failed. */
static void name_cause(bool has_front, uint32_t left) {
    struct join_page *page = joined_page();
    for (uint32_t rank = 0; rank < page->world_size; rank++)
        if (rank != joined_rank() && way_of(&page->ranks[rank]) == WAY_FAILED) {
            name_gone(rank, WAY_FAILED);
            return;
        }
    has_front ? name_engine() : name_front(left);
}

/* Alive is asked first, as in way_of(). Who has left well, and something that trains behind, had the launcher believe that all is done: so that may go, too. */
static bool is_left_alone(void) {
    const struct join_rank *own = &joined_page()->ranks[joined_rank()];
    bool has_front = joined_is_front() || joined_process_is_alive(own->front);
    bool has_engine = !own->engine || joined_process_is_alive(own->engine);
    uint32_t left = atomic_load(&own->left);
    if ((has_front && has_engine) || left == 1)
        return false;
    if (is_first_to_say())
        name_cause(has_front, left);
    return true;
}

bool joined_step(void) {
    static _Atomic uint64_t next_ms;
    if (!is_time(&next_ms, STEP_MS))
        return false;
    joined_words_settle(false);
    joined_words_trim();
    joined_stall_settle();
    return atomic_load(&joined_page()->stopped) || is_left_alone();
}

/* ---- this one ends */

/* A program that fails, fails on all ranks alike: then rank 0's words are enough. */
static bool rank_zero_fails_too(void) {
    struct join_rank *zero = &joined_page()->ranks[0];
    for (uint64_t begin = clock_ms(); clock_ms() - begin < FAIL_TOGETHER_MS; poll(NULL, 0, NAP_MS)) {
        bool is_alive = joined_process_is_alive(zero->front);
        uint32_t ended = atomic_load(&zero->left);
        if (ended > 1 || !is_alive)
            return ended != 1;
    }
    return false;
}

static void say_failed(int status, int signal) {
    const struct join_page *page = joined_page();
    struct protocol_problem problem = {.id = ""};
    char how[64];
    enum way way = signal ? WAY_KILLED : WAY_FAILED;
    snprintf(how, sizeof how, signal ? "is ended by %d (abort)" : "ends with exit code %d", signal ? signal : status);
    snprintf(problem.id, sizeof problem.id, "%s", ids[way]);
    snprintf(problem.cure, sizeof problem.cure, "%s", signal ? "the lines above say why: an uncaught exception, an assertion" : cures[way]);
    snprintf(problem.what, sizeof problem.what, "rank %u of %u (process %d) of '%s' %s", joined_rank(), page->world_size, (int)getpid(),
             page->program, how);
    joined_words_problem(&problem, (int)joined_rank());
}

static void say_no_training(void) {
    struct join_page *page = joined_page();
    char text[256];
    for (uint32_t rank = 0; rank < page->world_size; rank++)
        if (atomic_load(&page->ranks[rank].claims))
            return;
    if (page->grant.log_level < 1 || !joined_is_front() || joined_rank())
        return;
    snprintf(text, sizeof text,
             "accel-run: warning AR-NO-TRAINING: %u copies of this program ran, none used libtorch: nothing was divided\n"
             "  what to do: accel-run divides programs that train with libtorch; start this one without it\n",
             page->world_size);
    joined_words_print(text, strlen(text));
}

/* The last one to end sees all of them. */
static void compare_thrown(void) {
    const struct board_rank *lines = link_board() ? link_board()->ranks : NULL;
    const struct join_page *page = joined_page();
    for (uint32_t rank = 0; lines && rank < page->world_size; rank++) {
        const struct board_rank *own = &lines[joined_rank()], *other = &lines[rank];
        bool ended_well = atomic_load(&page->ranks[rank].ended) == 1 && atomic_load(&page->ranks[rank].claims) == joined_generation();
        if (ended_well && atomic_load(&own->thrown) != atomic_load(&other->thrown))
            shim_problem("AR-RANKS-PARTED", PROTOCOL_THROWN_CURE, PROTOCOL_THROWN_END, rank, board_thrower(other->thrower), joined_rank(),
                         board_thrower(own->thrower));
    }
}

void joined_ends(int status, int signal) {
    struct join_page *page = joined_page();
    if (!page || watched != getpid())
        return;
    watched = 0;
    int saved_errno = errno;
    bool is_good = !status && !signal;
    struct join_rank *own = &page->ranks[joined_rank()];
    uint32_t ended = signal ? 0 : 1 + (uint32_t)(status & 0xff);
    if (join_pid(atomic_load(&own->claimer)) == getpid())
        atomic_store(&own->ended, ended);
    if (joined_is_front())
        atomic_store(&own->left, ended);
    joined_words_settle(true);
    if (is_good && atomic_load(&page->stopped)) /* by a child, when the program had no steps left */
        link_wait_for_end();
    if (is_good) {
        compare_thrown();
        say_no_training();
    } else if (joined_rank() && joined_is_front() && !atomic_load(&page->stopped) && !rank_zero_fails_too() && is_first_to_say())
        say_failed(status & 0xff, signal); /* the others see that it is said where they wait, or at their next step */
    errno = saved_errno;
}

static void on_end(int status, void *unused) {
    joined_ends(status, 0);
}

/* Registered before the program's first instruction: what it has registered itself has run when this is called, and the libraries' destructors, too. */
void joined_watch_end(void) {
    if (watched != getpid() && on_exit(on_end, NULL) == 0)
        watched = getpid();
}
