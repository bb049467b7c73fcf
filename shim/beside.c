#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alone.h"
#include "beside_key.h"
#include "comm/clock.h"
#include "link.h"
#include "patience.h"
#include "python.h"
#include "shim.h"

enum { OFTEN = 4, MOMENT_MS = 100 };

static uint32_t ranks, limit_ms;
static pid_t process;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* the own line, what is owed (alone.h), and: */
static uint64_t taken[BOARD_RANKS_MAX][BOARD_DEEDS];      /* which of the others' have been answered, by number */
static uint64_t all_taken[BOARD_RANKS_MAX];               /* that one, and all before it */

void beside_begin(uint32_t world_size, uint32_t timeout_ms) {
    ranks = world_size;
    limit_ms = timeout_ms;
    process = getpid();
}

/* ---- the lines */

static struct board_deeds *line_of(uint32_t rank) {
    return &link_board()->deeds[rank];
}

static uint64_t post(const struct beside *beside, int error, uint32_t place) {
    struct board_deeds *own = line_of(shim_rank());
    pthread_mutex_lock(&mutex);
    uint64_t number = atomic_load(&own->count) + 1;
    struct board_deed *deed = &own->list[number % BOARD_DEEDS];
    atomic_store(&deed->number, 0); /* who reads it meanwhile does not take it */
    deed->key = beside->key;
    deed->error = error;
    deed->place = place;
    if (shim_rank() == 0)
        snprintf(link_board()->deed_paths[number % BOARD_DEEDS], BOARD_MEETING_CHARS, "%s",
                 strlen(beside->path) < BOARD_MEETING_CHARS ? beside->path : "");
    atomic_store(&deed->number, number);
    atomic_store(&own->count, number);
    if (link_board()->hosts > 1)
        link_meeting(
            &(struct protocol_meeting){
                .what = PROTOCOL_MEETING_DEED, .number = number, .error = error, .bytes = beside->key, .answer = place},
            shim_rank() ? "" : beside->path, "");
    pthread_mutex_unlock(&mutex);
    meeting_ring();
    return number;
}

/* The first of the rank's that is remembered and has not been taken. */
static uint64_t first_untaken(uint32_t rank, uint64_t count) {
    uint64_t *last = &all_taken[rank], forgotten = count > BOARD_DEEDS ? count - BOARD_DEEDS : 0;
    *last = *last < forgotten ? forgotten : *last;
    while (*last < count && taken[rank][(*last + 1) % BOARD_DEEDS] >= *last + 1)
        ++*last;
    return *last + 1;
}

static void read_deed(struct beside *beside, uint32_t rank, uint64_t number) {
    const struct board_deed *deed = &line_of(rank)->list[number % BOARD_DEEDS];
    beside->error = deed->error;
    beside->number = number;
    beside->file = deed->place < BOARD_ENDS ? (struct beside_file){number, deed->place} : (struct beside_file){0, 0};
    if (rank == 0)
        snprintf(beside->rank_0s, sizeof beside->rank_0s, "%s", link_board()->deed_paths[number % BOARD_DEEDS]);
}

/* The oldest of the rank's that nobody has taken: of the same letters, or (also_other) of names in which numbers of processes or times differ. What was owed to
   one before goes to that, but is filled in. */
static bool take_oldest(uint32_t rank, struct beside *beside, bool also_other) {
    struct board_deeds *line = line_of(rank);
    bool is_there = false;
    uint64_t count = atomic_load(&line->count);
    for (uint64_t number = first_untaken(rank, count); number <= count && !is_there; number++) {
        uint32_t at = number % BOARD_DEEDS;
        uint64_t key = line->list[at].key;
        if (taken[rank][at] >= number || atomic_load(&line->list[at].number) != number || !beside_key_is(key, beside->key, also_other))
            continue;
        read_deed(beside, rank, number);
        is_there = atomic_load(&line->list[at].number) == number;
        taken[rank][at] = number;
        beside->is_older = is_there && alone_was_owed(rank, key, number, also_other);
        is_there = is_there && !beside->is_older;
    }
    return is_there;
}

/* Numbers that look like those of processes are also those of files (feature_4711 beside feature_4712): their own names come in a moment. */
static bool take(uint32_t rank, struct beside *beside, bool is_late) {
    pthread_mutex_lock(&mutex);
    bool is_there = take_oldest(rank, beside, false) || (is_late && beside->key & BESIDE_MAY_DIFFER && take_oldest(rank, beside, true));
    pthread_mutex_unlock(&mutex);
    return is_there;
}

/* ---- waiting */

struct wait {
    uint32_t late; /* the rank that is waited for */
    bool is_certain, is_in_vain;
    struct clock_wait clock;
    struct patience patience;
    uint64_t names, thread, thread_in_vain; /* marks */
};

static uint64_t deeds_of(uint32_t rank) {
    return atomic_load(&line_of(rank)->count);
}

static struct wait wait_begin(uint32_t rank, const struct beside *beside, bool is_certain) {
    uint64_t thread = (uint64_t)syscall(SYS_gettid);
    return (struct wait){.late = rank,
                         .is_certain = is_certain,
                         .clock = clock_wait_begin(),
                         .patience = patience_begin(deeds_of(rank)),
                         .names = patience_mark_of(rank, PATIENCE_NAMES, beside->likeness),
                         .thread = patience_mark_of(rank, PATIENCE_THREAD, thread),
                         .thread_in_vain = patience_mark_of(rank, PATIENCE_THREAD_IN_VAIN, thread)};
}

/* Beside its training, too. */
static bool waits_for_us(uint32_t rank) {
    return atomic_load(&line_of(rank)->waiting) || meeting_is_waited_for(rank);
}

/* Where ranks wait for each other rank 0 goes on first: what it does is done, and the others find it. */
static uint64_t patience_ms(bool is_little) {
    uint64_t of_first = is_little ? PATIENCE_LITTLE_MS : PATIENCE_MS;
    return shim_rank() ? of_first + of_first / 2 : of_first;
}

static bool has_other_been_idle(struct wait *wait) {
    bool is_little = patience_times(wait->names) || patience_times(wait->thread) >= OFTEN;
    return patience_idle_ms(&wait->patience, waits_for_us(wait->late), deeds_of(wait->late)) >= patience_ms(is_little);
}

/* What is certain may also have been overwritten by what others have done since. */
static bool will_not_come(struct wait *wait) {
    bool is_alone = !wait->is_certain && patience_times(wait->thread_in_vain);
    if (atomic_load(&line_of(wait->late)->has_ended) || (!wait->is_certain && has_other_been_idle(wait)))
        return true;
    wait->is_in_vain = clock_waited_ms(&wait->clock) >= (is_alone ? patience_ms(true) : limit_ms);
    return wait->is_in_vain;
}

/* A moment. bell: as it was before it was looked whether there is anything to wait for. False: there is no more. */
static bool rest(struct wait *wait, unsigned round, uint32_t bell) {
    if (meeting_yields(round))
        return true;
    meeting_look_for_end(wait->late);
    if (will_not_come(wait))
        return false;
    meeting_nap(bell);
    return true;
}

/* Where nothing comes after what was owed to one before, that one's like will never come: this is ours. */
static bool await(struct wait *wait, struct beside *beside) {
    uint32_t bell = atomic_load(&link_board()->meetings.bell);
    for (unsigned round = 0; !take(wait->late, beside, clock_waited_ms(&wait->clock) >= MOMENT_MS); round++) {
        if (!rest(wait, round, bell))
            return take(wait->late, beside, true) || beside->is_older; /* it may have come before it ended */
        bell = atomic_load(&link_board()->meetings.bell);
    }
    return true;
}

/* Waits with the lock of Python given up, and errno kept. */
struct aside {
    int saved_errno;
    void *python;
};

static struct aside aside_begin(void) {
    struct aside aside = {errno, python_let_go()};
    atomic_fetch_add(&line_of(shim_rank())->waiting, 1);
    return aside;
}

static void aside_end(struct aside *aside) {
    atomic_fetch_sub(&line_of(shim_rank())->waiting, 1);
    python_take_again(aside->python);
    errno = aside->saved_errno;
}

/* The other rank's answer, or its coming, is late from now on. Not an end: nobody asks for that again. */
static void note_going_on(const struct wait *wait, const struct beside *beside) {
    pthread_mutex_lock(&mutex);
    if (!wait->is_certain)
        alone_owe(wait->late, beside->key, deeds_of(wait->late) + BOARD_DEEDS);
    pthread_mutex_unlock(&mutex);
    patience_mark(wait->names);
    patience_mark(wait->is_in_vain ? wait->thread_in_vain : wait->thread);
}

static void go_on_without(const struct wait *wait, const struct beside *beside) {
    static _Atomic bool is_told, is_told_of_deadline;
    note_going_on(wait, beside);
    if (wait->is_in_vain && !atomic_exchange(&is_told_of_deadline, true))
        shim_warning("AR-FILE-BESIDE",
                     "look whether that thread has ended there by an error of its own; if it needs as long, raise --collective-timeout",
                     "rank %u has waited %u s for rank %u to change '%s' on a thread beside the training, and goes on without: what rank 0 "
                     "does is done",
                     shim_rank(), limit_ms / 1000, wait->late, beside->path);
    if (!wait->is_in_vain && !wait->is_certain && !atomic_exchange(&is_told, true))
        shim_warning(
            "AR-FILE-BESIDE",
            "nothing, if that thread works by the clock; if it shares a lock with another that writes, it must not read back what it "
            "wrote; otherwise names must be the same on all ranks",
            "rank %u changes '%s' on a thread beside the training, and rank %u does not: what rank 0 does is done", shim_rank(),
            beside->path, wait->late);
}

/* An end comes in time by itself. */
static void note_coming(const struct wait *wait) {
    patience_unmark(wait->thread_in_vain);
    if (wait->is_certain)
        return;
    patience_note_coming(wait->names);
    patience_note_coming(wait->thread);
}

static bool await_aside(struct wait *wait, struct beside *beside) {
    struct aside aside = aside_begin();
    bool has_come = await(wait, beside);
    aside_end(&aside);
    return has_come;
}

static bool await_deed(uint32_t rank, struct beside *beside, bool is_certain) {
    beside->is_older = false;
    struct wait wait = wait_begin(rank, beside, is_certain);
    bool has_come = take(rank, beside, false) || await_aside(&wait, beside);
    if (!has_come)
        go_on_without(&wait, beside);
    else if (!beside->is_older)
        note_coming(&wait);
    return has_come;
}

static bool is_closed(struct beside_file file) {
    return atomic_load(&link_board()->beside_ends[file.place].number) >= file.number;
}

static void await_closed(struct beside_file file) {
    struct wait wait = {.is_certain = true, .clock = clock_wait_begin()};
    uint32_t bell = atomic_load(&link_board()->meetings.bell);
    for (unsigned round = 0; !is_closed(file) && rest(&wait, round, bell); round++)
        bell = atomic_load(&link_board()->meetings.bell);
}

/* ---- what others call */

void beside_come(struct beside *beside) {
    if (shim_rank()) {
        post(beside, 0, BOARD_ENDS);
        return;
    }
    struct beside others = *beside; /* what they say of it does not matter */
    for (uint32_t rank = 1; rank < ranks; rank++)
        await_deed(rank, &others, false);
}

void beside_answer(struct beside *beside, int error) {
    int saved_errno = errno;
    beside->error = error;
    beside->number = post(beside, error, BOARD_ENDS);
    errno = saved_errno;
}

void beside_answer_file(struct beside *beside, uint32_t place) {
    int saved_errno = errno;
    beside->error = 0;
    beside->number = post(beside, 0, place);
    beside->file = place < BOARD_ENDS ? (struct beside_file){beside->number, place} : (struct beside_file){0, 0};
    errno = saved_errno;
}

bool beside_await(struct beside *beside) {
    return await_deed(0, beside, false);
}

uint64_t beside_end_of(const struct beside *begun) {
    return beside_key_of_end(begun->number, BESIDE_SAVE_ENDS);
}

bool beside_await_end(struct beside *beside) {
    return await_deed(0, beside, true);
}

void beside_file_ends(struct beside_file file, int error) {
    int saved_errno = errno;
    pthread_mutex_lock(&mutex);
    board_end_beside(&link_board()->beside_ends[file.place], file.number, error);
    pthread_mutex_unlock(&mutex);
    if (link_board()->hosts > 1)
        link_meeting(
            &(struct protocol_meeting){.what = PROTOCOL_MEETING_CLOSED, .number = file.number, .error = error, .answer = file.place}, "",
            "");
    meeting_ring();
    errno = saved_errno;
}

bool beside_await_file(struct beside_file file, int *error) {
    if (!is_closed(file)) {
        struct aside aside = aside_begin();
        await_closed(file);
        aside_end(&aside);
    }
    const struct board_beside_end *end = &link_board()->beside_ends[file.place];
    *error = atomic_load(&end->error);
    return atomic_load(&end->number) == file.number;
}

void beside_end(void) {
    struct board *board = link_board();
    if (ranks < 2 || !board || getpid() != process)
        return;
    atomic_store(&line_of(shim_rank())->has_ended, 1);
    meeting_ring();
    if (board->hosts > 1)
        link_meeting(&(struct protocol_meeting){.what = PROTOCOL_MEETING_NONE}, "", "");
}
