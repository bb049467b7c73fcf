#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "beside_key.h"
#include "beside_line.h"
#include "comm/clock.h"
#include "link.h"
#include "patience.h"
#include "python.h"

enum { OFTEN = 4, MOMENT_MS = 100, TELL_MS = PATIENCE_LITTLE_MS / 5 };

static uint32_t ranks, limit_ms;
static pid_t process;

static pthread_mutex_t ends_mutex = PTHREAD_MUTEX_INITIALIZER; /* of files */

void beside_begin(uint32_t world_size, uint32_t timeout_ms) {
    ranks = world_size;
    limit_ms = timeout_ms;
    process = getpid();
}

/* ---- waiting */

/* A rank that is waited for. */
struct late {
    uint32_t rank;
    bool is_over; /* it has come, or is gone on without */
    bool has_come;
    bool is_in_vain; /* for a whole deadline */
    bool has_begun;  /* rank 0, to wait for others */
    struct beside_found found;
    struct patience patience;
};

/* For rank 0, or rank 0 for all others. */
struct wait {
    struct beside *beside;
    bool is_certain;
    bool is_told; /* the others, that this rank waits */
    uint64_t thread;
    struct clock_wait clock;
    uint32_t first, end;
    struct late late[BOARD_RANKS_MAX]; /* from the first one on */
};

static uint64_t deeds_of(uint32_t rank) {
    return atomic_load(&beside_line(rank)->count);
}

static void wait_begin(struct wait *wait, struct beside *beside, bool is_certain) {
    wait->beside = beside;
    wait->is_certain = is_certain;
    wait->is_told = false;
    wait->thread = (uint64_t)syscall(SYS_gettid);
    wait->clock = clock_wait_begin();
    wait->first = shim_rank() ? 0 : 1;
    wait->end = shim_rank() ? 1 : ranks;
    for (uint32_t rank = wait->first; rank < wait->end; rank++)
        wait->late[rank] = (struct late){.rank = rank, .patience = patience_begin(deeds_of(rank))};
}

static uint64_t mark_of(const struct wait *wait, const struct late *late, enum patience_kind kind) {
    return patience_mark_of(late->rank, kind, kind == PATIENCE_NAMES ? wait->beside->likeness : wait->thread);
}

/* Beside its training, too. */
static bool waits_for_us(uint32_t rank) {
    return atomic_load(&beside_line(rank)->waiting) || meeting_waits_for(rank, shim_rank());
}

/* Rank 0 holds up who has come, and that one whom the late rank waits for: its main thread may stand at a lock that the thread that has come keeps. */
static bool waits_for_others(const struct wait *wait, uint32_t rank) {
    bool waits = false;
    for (const struct late *other = &wait->late[wait->first]; other < &wait->late[wait->end]; other++)
        waits = waits || (other->has_come && meeting_waits_for(rank, other->rank));
    return waits;
}

/* Where ranks wait for each other rank 0 goes on first: what it does is done, and the others find it. */
static uint64_t patience_ms(bool is_little) {
    uint64_t of_first = is_little ? PATIENCE_LITTLE_MS : PATIENCE_MS;
    return shim_rank() ? of_first + of_first / 2 : of_first;
}

static bool has_been_idle(const struct wait *wait, struct late *late) {
    bool is_little = patience_times(mark_of(wait, late, PATIENCE_NAMES)) || patience_times(mark_of(wait, late, PATIENCE_THREAD)) >= OFTEN;
    bool waits = (waits_for_us(late->rank) || waits_for_others(wait, late->rank)) && !late->found.comes;
    return patience_idle_ms(&late->patience, waits, deeds_of(late->rank)) >= patience_ms(is_little);
}

/* Rank 0, which waits for a third, has its own, which began when it came; it goes on first here, too. */
static uint64_t deadline_ms(struct wait *wait, struct late *late) {
    uint64_t limit = limit_ms;
    if (late->found.comes && !late->has_begun) {
        late->has_begun = true;
        wait->clock = clock_wait_begin();
    }
    return late->has_begun ? limit + limit / 2 : limit;
}

/* What is certain may also have been overwritten by what others have done since. */
static bool will_not_come(struct wait *wait, struct late *late) {
    bool is_alone = !wait->is_certain && !late->found.comes && patience_times(mark_of(wait, late, PATIENCE_THREAD_IN_VAIN));
    if (atomic_load(&beside_line(late->rank)->has_ended) || (!wait->is_certain && has_been_idle(wait, late)))
        return true;
    late->is_in_vain = clock_waited_ms(&wait->clock) >= (is_alone ? patience_ms(true) : deadline_ms(wait, late));
    return late->is_in_vain;
}

/* The other rank's answer, or its coming, is late from now on. Not an end: nobody asks for that again. */
static void note_going_on(const struct wait *wait, const struct late *late) {
    if (!wait->is_certain)
        beside_line_owe(late->rank, wait->beside->key);
    patience_mark(mark_of(wait, late, PATIENCE_NAMES));
    patience_mark(mark_of(wait, late, late->is_in_vain ? PATIENCE_THREAD_IN_VAIN : PATIENCE_THREAD));
}

static void go_on_without(const struct wait *wait, const struct late *late) {
    static _Atomic bool is_told, is_told_of_deadline;
    note_going_on(wait, late);
    if (late->is_in_vain && !atomic_exchange(&is_told_of_deadline, true))
        shim_warning("AR-FILE-BESIDE",
                     "look whether that thread has ended there by an error of its own; if it needs as long, raise --collective-timeout",
                     "rank %u has waited %u s for rank %u to change '%s' on a thread beside the training, and goes on without: what rank 0 "
                     "does is done",
                     shim_rank(), limit_ms / 1000, late->rank, wait->beside->path);
    if (!late->is_in_vain && !wait->is_certain && !atomic_exchange(&is_told, true))
        shim_warning(
            "AR-FILE-BESIDE",
            "nothing, if that thread works by the clock; if it shares a lock with another that writes, it must not read back what it "
            "wrote; otherwise names must be the same on all ranks",
            "rank %u changes '%s' on a thread beside the training, and rank %u does not: what rank 0 does is done", shim_rank(),
            wait->beside->path, late->rank);
}

/* An end comes in time by itself. */
static void note_coming(const struct wait *wait, const struct late *late) {
    patience_unmark(mark_of(wait, late, PATIENCE_THREAD_IN_VAIN));
    if (wait->is_certain)
        return;
    patience_note_coming(mark_of(wait, late, PATIENCE_NAMES));
    patience_note_coming(mark_of(wait, late, PATIENCE_THREAD));
}

/* Where nothing comes after what was owed to one before, that one's like will never come: this is ours. */
static void stop_waiting(struct wait *wait, struct late *late) {
    bool is_there = beside_line_take(wait->beside, late->rank, true, &late->found); /* it may have come before it ended */
    late->is_over = true;
    late->has_come = is_there || late->found.is_older;
    if (is_there)
        note_coming(wait, late);
    else if (!late->has_come)
        go_on_without(wait, late);
}

/* True: nobody is waited for any more. */
static bool is_over(struct wait *wait) {
    bool is_late = clock_waited_ms(&wait->clock) >= MOMENT_MS, are_over = true;
    for (struct late *late = &wait->late[wait->first]; late < &wait->late[wait->end]; late++) {
        if (!late->is_over && beside_line_take(wait->beside, late->rank, is_late, &late->found)) {
            late->is_over = late->has_come = true;
            note_coming(wait, late);
        }
        are_over = are_over && late->is_over;
    }
    return are_over;
}

/* Likewise, when those are gone on without that will not come. The time of all of them runs at once: one after the other, they held rank 0 up for longer than
   ranks waited that had come. */
static bool is_given_up(struct wait *wait) {
    bool are_over = true;
    for (struct late *late = &wait->late[wait->first]; late < &wait->late[wait->end]; late++) {
        if (!late->is_over)
            meeting_look_for_end(late->rank);
        if (!late->is_over && will_not_come(wait, late))
            stop_waiting(wait, late);
        are_over = are_over && late->is_over;
    }
    return are_over;
}

/* The others count from when they see that this rank waits. Rank 0 has said by then what it has come to: who has come to that, too, waits for as long as it. */
static void tell(struct wait *wait) {
    if (wait->is_told || (!shim_rank() && clock_waited_ms(&wait->clock) < TELL_MS))
        return;
    if (!shim_rank())
        beside_line_post(wait->beside, 0, BOARD_COMES);
    wait->is_told = true;
    atomic_fetch_add(&beside_line(shim_rank())->waiting, 1);
}

/* The bell is looked at before it is looked whether there is anything to wait for. */
static void await(struct wait *wait) {
    uint32_t bell = atomic_load(&link_board()->meetings.bell);
    for (unsigned round = 0; !is_over(wait); round++) {
        if (!meeting_yields(round) && !is_given_up(wait)) {
            tell(wait);
            meeting_nap(bell);
        }
        bell = atomic_load(&link_board()->meetings.bell);
    }
    if (wait->is_told)
        atomic_fetch_sub(&beside_line(shim_rank())->waiting, 1);
}

/* Waits with the lock of Python given up, and errno kept. */
struct aside {
    int saved_errno;
    void *python;
};

static struct aside aside_begin(void) {
    return (struct aside){errno, python_let_go()};
}

static void aside_end(struct aside *aside) {
    python_take_again(aside->python);
    errno = aside->saved_errno;
}

/* Of rank 0's answer: has it come? */
static bool await_deeds(struct beside *beside, bool is_certain) {
    struct wait wait;
    wait_begin(&wait, beside, is_certain);
    if (!is_over(&wait)) {
        struct aside aside = aside_begin();
        await(&wait);
        aside_end(&aside);
    }
    return wait.late[wait.first].has_come;
}

static bool is_closed(struct beside_file file) {
    return atomic_load(&link_board()->beside_ends[file.place].number) >= file.number;
}

static void await_closed(struct beside_file file) {
    struct clock_wait clock = clock_wait_begin();
    uint32_t bell = atomic_load(&link_board()->meetings.bell);
    for (unsigned round = 0; !is_closed(file); round++) {
        if (!meeting_yields(round)) {
            meeting_look_for_end(0);
            if (atomic_load(&beside_line(0)->has_ended) || clock_waited_ms(&clock) >= limit_ms)
                return;
            meeting_nap(bell);
        }
        bell = atomic_load(&link_board()->meetings.bell);
    }
}

/* ---- what others call */

void beside_come(struct beside *beside) {
    if (shim_rank()) {
        beside_line_post(beside, 0, BOARD_NO_FILE);
        return;
    }
    struct beside others = *beside; /* what they say of it does not matter */
    await_deeds(&others, false);
}

void beside_answer(struct beside *beside, int error) {
    int saved_errno = errno;
    beside->error = error;
    beside->number = beside_line_post(beside, error, BOARD_NO_FILE);
    errno = saved_errno;
}

void beside_answer_file(struct beside *beside, uint32_t place) {
    int saved_errno = errno;
    beside->error = 0;
    beside->number = beside_line_post(beside, 0, place);
    beside->file = place < BOARD_ENDS ? (struct beside_file){beside->number, place} : (struct beside_file){0, 0};
    errno = saved_errno;
}

bool beside_await(struct beside *beside) {
    return await_deeds(beside, false);
}

uint64_t beside_end_of(const struct beside *begun) {
    return beside_key_of_end(begun->number, BESIDE_SAVE_ENDS);
}

bool beside_await_end(struct beside *beside) {
    return await_deeds(beside, true);
}

void beside_file_ends(struct beside_file file, uint64_t most, int error) {
    int saved_errno = errno;
    pthread_mutex_lock(&ends_mutex);
    board_end_beside(&link_board()->beside_ends[file.place], file.number, most, error);
    pthread_mutex_unlock(&ends_mutex);
    if (link_board()->hosts > 1)
        link_meeting(
            &(struct protocol_meeting){
                .what = PROTOCOL_MEETING_CLOSED, .number = file.number, .bytes = most, .error = error, .answer = file.place},
            "", "");
    meeting_ring();
    errno = saved_errno;
}

bool beside_await_file(struct beside_file file, uint64_t *most, int *error) {
    if (!is_closed(file)) {
        struct aside aside = aside_begin();
        atomic_fetch_add(&beside_line(shim_rank())->waiting, 1);
        await_closed(file);
        atomic_fetch_sub(&beside_line(shim_rank())->waiting, 1);
        aside_end(&aside);
    }
    const struct board_beside_end *end = &link_board()->beside_ends[file.place];
    *most = atomic_load(&end->most);
    *error = atomic_load(&end->error);
    return atomic_load(&end->number) == file.number;
}

void beside_end(void) {
    struct board *board = link_board();
    if (ranks < 2 || !board || getpid() != process)
        return;
    atomic_store(&beside_line(shim_rank())->has_ended, 1);
    meeting_ring();
    if (board->hosts > 1)
        link_meeting(&(struct protocol_meeting){.what = PROTOCOL_MEETING_NONE}, "", "");
}
