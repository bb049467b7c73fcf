#define _GNU_SOURCE

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "comm/clock.h"
#include "link.h"
#include "patience.h"
#include "shim.h"
#include "threads.h"

enum { YIELDS = 64, NAP_MS = 50, PARTED_MS = 1000, PARTED_BESIDE_MS = 10000 };

static uint32_t ranks, limit_ms;
static pid_t thread; /* that claimed, if it is the same on all ranks */
static _Atomic bool is_of_main;
static uint64_t meetings;
static pid_t process;

static const char *const kind_words[MEETING_KINDS] = {
    [MEETING_START] = "starts with open files",
    [MEETING_OPEN] = "opens for writing",
    [MEETING_DIRECTORY] = "makes the directory",
    [MEETING_NODE] = "makes the node",
    [MEETING_RENAME] = "renames",
    [MEETING_REMOVE] = "removes",
    [MEETING_LINK] = "makes the link",
    [MEETING_TRUNCATE] = "changes the length of",
    [MEETING_ATTRIBUTES] = "sets attributes of",
    [MEETING_LOCK] = "locks",
    [MEETING_PIPE] = "opens the pipe",
    [MEETING_CHILD] = "starts a child",
    [MEETING_COMMAND] = "runs the command",
};

void meeting_begin(uint32_t world_size, uint32_t timeout_ms) {
    ranks = world_size;
    limit_ms = timeout_ms;
    process = getpid();
    atomic_store(&clock_held, link_board() ? &link_board()->held_ns : NULL);
    thread = atomic_load(&is_of_main) ? process : (pid_t)syscall(SYS_gettid);
}

void meeting_will_be_of_main_thread(void) {
    atomic_store(&is_of_main, true);
}

void meeting_is_of_main_thread(void) {
    thread = process;
}

bool meeting_is_here(void) {
    return ranks > 1 && syscall(SYS_gettid) == thread && getpid() == process &&
           !threads_is_in_task(); /* a callback runs here, or on the thread that has ended */
}

static struct board_meetings *room(void) {
    return &link_board()->meetings;
}

/* The other hosts' boards are told, too: whom it concerns is known to the launcher. */
static void spread(const struct protocol_meeting *said, const char *path, const char *second) {
    if (link_board()->hosts > 1)
        link_meeting(said, path, second);
}

void meeting_ring(void) {
    atomic_fetch_add(&room()->bell, 1);
    syscall(SYS_futex, &room()->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* ---- waiting */

struct wait {
    bool (*is_over)(const struct wait *wait);
    uint64_t number;
    uint32_t late; /* the rank that is waited for */
    struct meeting_file file;
    struct clock_wait clock;
};

void meeting_nap(uint32_t bell) {
    struct timespec time = {0, NAP_MS * 1000000};
    syscall(SYS_futex, &room()->bell, FUTEX_WAIT, bell, &time, NULL, 0);
}

#define PARTED_CURE                                                                                                                        \
    "All ranks must change the same files in the same order: does the program decide by the clock, or by what differs between processes?"

bool meeting_yields(unsigned round) {
    if (round < YIELDS)
        sched_yield();
    return round < YIELDS;
}

void meeting_look_for_end(uint32_t late) {
    if (atomic_load_explicit(&link_board()->abort, memory_order_relaxed))
        link_wait_for_end();
    link_look(late);
}

/* Another thread of this rank may come to the collective that the late one is in; how long to wait for that, when no other ever has. */
static bool may_be_helped(uint64_t waited_ms) {
    return threads_are_living() && (shim_others_compute() || waited_ms < PARTED_BESIDE_MS);
}

/* It is in a collective to which this rank will not come: each waits for the other. */
static bool is_in_collective(uint32_t late) {
    const struct board_rank *other = &link_board()->ranks[late], *own = &link_board()->ranks[shim_rank()];
    uint32_t waits = atomic_load(&other->waiting);
    return (waits == BOARD_WAITS || waits == BOARD_WAITS_FOR_TURN) && atomic_load(&other->collective) > atomic_load(&own->collective);
}

__attribute__((noreturn)) static void refuse_to_wait(uint32_t late) {
    const struct board_arrival *own = &room()->arrivals[shim_rank()];
    shim_problem("AR-FILE-PARTED", PARTED_CURE, "rank %u %s '%s' and has waited %u s for rank %u, which does not", shim_rank(),
                 kind_words[own->kind], own->path, limit_ms / 1000, late);
}

/* Gives up when the job is being stopped, or at the deadline. */
static void look_up(struct wait *wait) {
    const struct board_arrival *own = &room()->arrivals[shim_rank()];
    uint64_t waited_ms = clock_waited_ms(&wait->clock);
    meeting_look_for_end(wait->late);
    if (waited_ms >= PARTED_MS && is_in_collective(wait->late) && !may_be_helped(waited_ms) && !wait->is_over(wait))
        shim_problem("AR-FILE-PARTED", PARTED_CURE, "rank %u %s '%s', while rank %u does not, and waits for it in \"%.*s\"", shim_rank(),
                     kind_words[own->kind], own->path, wait->late, BOARD_WHERE_CHARS - 1, link_board()->ranks[wait->late].where);
    bool may_last = shim_rank() && (own->kind == MEETING_LOCK || own->kind == MEETING_PIPE || own->kind == MEETING_COMMAND);
    if (waited_ms >= limit_ms && !may_last)
        refuse_to_wait(wait->late);
}

/* The launcher names who is waited for. */
static void show_waiting(uint32_t waits) {
    atomic_store_explicit(&link_board()->ranks[shim_rank()].waiting, waits, memory_order_relaxed);
}

static void await(struct wait *wait) {
    int saved_errno = errno;
    if (wait->is_over(wait))
        return;
    show_waiting(1);
    wait->clock = clock_wait_begin();
    for (unsigned round = 0; !wait->is_over(wait); round++) {
        if (meeting_yields(round))
            continue;
        look_up(wait);
        uint32_t bell = atomic_load(&room()->bell);
        if (wait->is_over(wait))
            break;
        meeting_nap(bell);
    }
    show_waiting(0);
    errno = saved_errno;
}

static bool has_ended(const struct wait *wait) {
    return atomic_load(&room()->ends[wait->file.place].number) >= wait->file.number;
}

/* Of files of such names, or of none on this thread. meets: the thread that waits is the one that meets. */
static uint64_t mark_of(const struct meeting_file *file, bool meets) {
    uint64_t what = file->likeness ? file->likeness : (uint64_t)syscall(SYS_gettid);
    return patience_mark_of(0, meets ? PATIENCE_ENDS_HERE : PATIENCE_ENDS, what);
}

/* Beside the thread that meets collectives are the training's, which goes on whether files are closed or not. */
static uint64_t done_by_first(bool meets) {
    return meets ? atomic_load(&link_board()->ranks[0].collective) : 0;
}

/* Has rank 0 waited for this rank for too long, and done nothing else that is seen? Where others train, one of this rank's may be late again and again. */
static bool is_in_vain(struct patience *patience, uint64_t mark, bool meets) {
    bool may_be_late = meets && shim_others_compute();
    uint64_t limit = patience_times(mark) && !may_be_late ? PATIENCE_LITTLE_MS : PATIENCE_MS;
    bool is_it = patience_idle_ms(patience, meeting_waits_for(0, shim_rank()), done_by_first(meets)) >= limit;
    if (is_it)
        patience_mark(mark);
    return is_it;
}

static bool is_late(struct wait *wait, bool meets) {
    bool is_it = clock_waited_ms(&wait->clock) >= limit_ms;
    if (is_it && meets)
        refuse_to_wait(0);
    return is_it;
}

/* For what rank 0 may be past, when it waits for this rank. That may be another of its threads than the one that is still writing: only when it has done so for
   long this rank is the one that is waited for. Also until rank 0 has ended; on a thread that does not meet it goes on at the deadline, too. */
static void await_patiently(struct wait *wait, bool meets) {
    int saved_errno = errno;
    void *python = python_let_go();
    bool is_shown = meets && !shim_others_compute(); /* the others' word stands there */
    if (is_shown)
        show_waiting(1);
    wait->clock = clock_wait_begin();
    uint64_t mark = mark_of(&wait->file, meets);
    for (struct patience patience = patience_begin(done_by_first(meets));;) {
        uint32_t bell = atomic_load(&room()->bell);
        if (wait->is_over(wait) || atomic_load(&link_board()->deeds[0].has_ended) || is_late(wait, meets) ||
            is_in_vain(&patience, mark, meets))
            break;
        meeting_look_for_end(0);
        meeting_nap(bell);
    }
    if (has_ended(wait))
        patience_note_coming(mark);
    if (is_shown)
        show_waiting(0);
    python_take_again(python);
    errno = saved_errno;
}

static bool has_come(const struct wait *wait) {
    return atomic_load(&room()->arrivals[wait->late].number) >= wait->number;
}

static bool has_answered(const struct wait *wait) {
    return atomic_load(&room()->answered) >= wait->number;
}

static bool has_come_further(uint32_t rank, uint32_t whom) {
    return atomic_load(&room()->arrivals[rank].number) > atomic_load(&room()->arrivals[whom].number);
}

bool meeting_waits_for(uint32_t rank, uint32_t whom) {
    const struct board_rank *waits = &link_board()->ranks[rank], *late = &link_board()->ranks[whom];
    return has_come_further(rank, whom) ||
           (atomic_load(&waits->waiting) && atomic_load(&waits->collective) > atomic_load(&late->collective));
}

/* Rank 0's thread that meets has gone on. Where other threads live, it may be one of those that waits in a collective. */
static bool has_gone_on(void) {
    return threads_are_living() ? has_come_further(0, shim_rank()) : meeting_waits_for(0, shim_rank());
}

static bool has_ended_or_gone_on(const struct wait *wait) {
    return has_ended(wait) || has_gone_on();
}

static bool is_seen_or_gone_on(const struct wait *wait) {
    return atomic_load(&room()->ends[wait->file.place].seen) >= wait->file.number || has_ended_or_gone_on(wait);
}

/* On the thread that meets: for what rank 0 does on its own. */
static void await_first(struct wait *wait) {
    if (threads_are_living() && !wait->is_over(wait)) {
        await_patiently(wait, true);
        return;
    }
    if (has_ended(wait))
        patience_note_coming(mark_of(&wait->file, true));
    await(wait);
}

/* ---- the meeting */

__attribute__((noreturn)) static void parted(uint32_t other) {
    const struct board_arrival *own = &room()->arrivals[0], *its = &room()->arrivals[other];
    shim_problem("AR-FILE-PARTED", PARTED_CURE, "rank 0 %s '%s', while rank %u %s '%s'", kind_words[own->kind], own->path, other,
                 kind_words[its->kind], its->path);
}

__attribute__((noreturn)) static void thrown_apart(uint32_t other) {
    const struct board_arrival *own = &room()->arrivals[0];
    const struct board_rank *lines = link_board()->ranks;
    shim_problem(
        "AR-RANKS-PARTED", PROTOCOL_THROWN_CURE,
        "rank 0 %s '%s', but operators have thrown exceptions on some ranks alone (the last on rank 0: %s; on rank %u: %s), and the "
        "program has caught them",
        kind_words[own->kind], own->path, board_thrower(lines[0].thrower), other, board_thrower(lines[other].thrower));
}

void meeting_come(struct meeting *meeting, enum meeting_kind kind, const char *path, const char *second) {
    shim_note_draw(); /* a data set that writes as it reads must read everything on every rank */
    struct board_arrival *own = &room()->arrivals[shim_rank()];
    meeting->number = ++meetings;
    meeting->error = 0;
    own->kind = kind;
    own->thrown = atomic_load(&link_board()->ranks[shim_rank()].thrown);
    snprintf(own->path, sizeof own->path, "%s", path);
    meeting->paths[0] = path;
    meeting->paths[1] = second ? second : "";
    atomic_store(&own->number, meetings);
    meeting_ring();
    if (link_board()->host) /* rank 0 is on another one */
        spread(&(struct protocol_meeting){.what = PROTOCOL_MEETING_COME, .kind = kind, .number = meetings, .bytes = own->thrown}, path, "");
    if (shim_rank())
        return;
    struct wait wait = {.is_over = has_come, .number = meetings};
    for (wait.late = 1; wait.late < ranks; wait.late++) {
        await(&wait);
        if (room()->arrivals[wait.late].kind != kind)
            parted(wait.late);
        if (room()->arrivals[wait.late].thrown != own->thrown)
            thrown_apart(wait.late);
    }
}

void meeting_await_all(const struct meeting *meeting) {
    struct wait wait = {.is_over = has_come, .number = meeting->number};
    for (wait.late = 0; wait.late < ranks && link_board()->hosts < 2; wait.late++)
        await(&wait);
}

bool meeting_is_of_one_name(bool (*is_same)(const char *rank_0s, const char *other)) {
    for (uint32_t rank = 1; rank < ranks; rank++)
        if (!is_same(room()->arrivals[0].path, room()->arrivals[rank].path))
            return false;
    return true;
}

void meeting_answer(struct meeting *meeting, int error, uint32_t answer) {
    int saved_errno = errno;
    for (int i = 0; i < 2; i++) /* not before all have come: they have read those of the last meeting */
        snprintf(room()->paths[i], BOARD_PATH_CHARS, "%s", meeting->paths[i]);
    room()->error = meeting->error = error;
    room()->answer = meeting->answer = answer;
    atomic_store(&room()->answered, meeting->number);
    meeting_ring();
    spread(&(struct protocol_meeting){.what = PROTOCOL_MEETING_ANSWER, .number = meeting->number, .error = error, .answer = answer},
           meeting->paths[0], meeting->paths[1]);
    errno = saved_errno;
}

void meeting_await(struct meeting *meeting) {
    struct wait wait = {.is_over = has_answered, .number = meeting->number};
    await(&wait);
    meeting->error = room()->error;
    meeting->answer = room()->answer;
    meeting->paths[0] = room()->paths[0];
    meeting->paths[1] = room()->paths[1];
}

void meeting_hold(enum meeting_kind kind, const char *path, const char *second) {
    struct meeting meeting;
    meeting_come(&meeting, kind, path, second);
    if (shim_rank() == 0)
        meeting_answer(&meeting, 0, 0);
    else
        meeting_await(&meeting);
}

/* ---- ends of files */

uint64_t meeting_likeness(const char *path) {
    return patience_likeness(shim_base_of(path));
}

void meeting_file_is_seen(struct meeting_file file) {
    int saved_errno = errno;
    atomic_store(&room()->ends[file.place].seen, file.number);
    meeting_ring();
    spread(&(struct protocol_meeting){.what = PROTOCOL_MEETING_SEEN, .number = file.number, .answer = file.place}, "", "");
    errno = saved_errno;
}

void meeting_await_name(struct meeting_file file) {
    struct wait wait = {.is_over = is_seen_or_gone_on, .file = file};
    await_first(&wait);
}

void meeting_file_ends(struct meeting_file file, uint64_t most, int error) {
    int saved_errno = errno;
    struct board_end *end = &room()->ends[file.place];
    atomic_store(&end->most, most);
    atomic_store(&end->error, error);
    atomic_store(&end->number, file.number);
    meeting_ring();
    spread(
        &(struct protocol_meeting){
            .what = PROTOCOL_MEETING_END, .number = file.number, .bytes = most, .error = error, .answer = file.place},
        "", "");
    errno = saved_errno;
}

bool meeting_await_file(struct meeting_file file, uint64_t *most, int *error) {
    struct wait wait = {.is_over = has_ended_or_gone_on, .file = file};
    if (meeting_is_here()) {
        await_first(&wait);
    } else {
        wait.is_over = has_ended;
        await_patiently(&wait, false);
    }
    struct board_end *end = &room()->ends[file.place];
    *most = atomic_load(&end->most);
    *error = atomic_load(&end->error);
    return atomic_load(&end->number) == file.number;
}
