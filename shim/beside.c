#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "checksum.h"
#include "comm/clock.h"
#include "link.h"
#include "moment.h"
#include "python.h"
#include "shim.h"

enum { YIELDS = 64, PATIENCE_MS = 10000, LITTLE_PATIENCE_MS = 100, MOMENT_MS = 100 };

static uint32_t ranks, limit_ms;
static pid_t process;
static char start[PATH_MAX];   /* the folder that the program was started in: hosts may call it differently */
static _Atomic bool are_apart; /* somebody has been gone on without */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* the own line, and: */
static uint64_t taken[BOARD_RANKS_MAX][BOARD_DEEDS];      /* which of the others' have been answered, by number */
static uint64_t all_taken[BOARD_RANKS_MAX];               /* that one, and all before it */

void beside_begin(uint32_t world_size, uint32_t timeout_ms) {
    ranks = world_size;
    limit_ms = timeout_ms;
    process = getpid();
}

__attribute__((constructor)) static void beside_start(void) {
    if (!getcwd(start, sizeof start))
        start[0] = 0;
}

/* ---- names */

/* A key: what the names are but for numbers of processes and times, what they are letter by letter, and whether this rank's have such of its own. */
#define LETTERS 0xfffffffeu
enum { MAY_DIFFER = 1, SPELLING_BITS = 32 };

static bool is_same(uint64_t key, uint64_t other) {
    return key >> SPELLING_BITS == other >> SPELLING_BITS;
}

static bool is_same_by_letters(uint64_t key, uint64_t other) {
    return is_same(key, other) && !((key ^ other) & LETTERS);
}

/* As the folder that all have been started in shows it. */
static const char *part_of_name(const char *path) {
    size_t folder = strlen(start);
    return folder > 1 && !strncmp(path, start, folder) && path[folder] == '/' ? path + folder + 1 : path;
}

/* As the hosts call themselves; of one host it is no difference. */
static size_t hosts_names(const char **names) {
    const struct board *board = link_board();
    size_t count = 0;
    for (uint32_t host = 0; board->hosts > 1 && host < board->hosts; host++)
        if (board->list[host].node[0])
            names[count++] = board->list[host].node;
    return count;
}

/* out: as long as the name. */
static void spell_for_all(const char *name, char *out) {
    int32_t processes[BOARD_RANKS_MAX];
    const char *hosts[BOARD_RANKS_MAX];
    shim_processes(processes);
    moment_spell(name, &(struct moment){moment_of_start(), time(NULL), processes, ranks, hosts, hosts_names(hosts)}, out);
}

/* May another rank spell it in another way? out: as long as the name. */
static bool may_differ(const char *name, char *out) {
    int32_t own = getpid();
    const char *hosts[BOARD_RANKS_MAX];
    moment_spell(name, &(struct moment){moment_of_start(), time(NULL), &own, 1, hosts, hosts_names(hosts)}, out);
    return strcmp(name, out);
}

bool beside_spells_alike(const char *own, const char *rank_0s) {
    char mine[PATH_MAX], theirs[PATH_MAX];
    const char *name = part_of_name(own), *its = part_of_name(rank_0s);
    if (strlen(name) >= sizeof mine || strlen(its) >= sizeof theirs)
        return false;
    spell_for_all(name, mine);
    spell_for_all(its, theirs);
    size_t length = strlen(mine), room = strlen(theirs);
    bool is_elsewhere = link_board()->host && name != own && room > length && theirs[room - length - 1] == '/';
    return !strcmp(mine, is_elsewhere ? theirs + room - length : theirs);
}

void beside_name(struct beside *beside, enum beside_kind kind, const char *path, const char *second) {
    char text[PATH_MAX];
    const char *names[] = {path, second};
    uint64_t spelling = kind, letters = kind, own = 0;
    beside->path = path;
    beside->error = 0;
    beside->rank_0s[0] = 0;
    beside->file = (struct beside_file){0, 0};
    for (int i = 0; i < 2; i++) {
        const char *name = part_of_name(strlen(names[i]) < PATH_MAX ? names[i] : "");
        spell_for_all(name, text);
        spelling = checksum_bytes(spelling, text, strlen(text));
        letters = checksum_bytes(letters, name, strlen(name));
        own |= may_differ(name, text) ? MAY_DIFFER : 0;
    }
    beside->key = spelling << SPELLING_BITS | (letters & LETTERS) | own;
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

/* The oldest of the rank's that nobody has taken: of the same letters, or (also_other) of names in which numbers of processes or times differ. */
static bool take_oldest(uint32_t rank, struct beside *beside, bool also_other) {
    struct board_deeds *line = line_of(rank);
    bool is_there = false;
    uint64_t count = atomic_load(&line->count);
    for (uint64_t number = first_untaken(rank, count); number <= count && !is_there; number++) {
        uint32_t at = number % BOARD_DEEDS;
        const struct board_deed *deed = &line->list[at];
        bool is_it =
            is_same_by_letters(deed->key, beside->key) || (also_other && is_same(deed->key, beside->key) && deed->key & MAY_DIFFER);
        if (taken[rank][at] >= number || atomic_load(&deed->number) != number || !is_it)
            continue;
        beside->error = deed->error;
        beside->file = deed->place < BOARD_ENDS ? (struct beside_file){number, deed->place} : (struct beside_file){0, 0};
        if (rank == 0)
            snprintf(beside->rank_0s, sizeof beside->rank_0s, "%s", link_board()->deed_paths[at]);
        is_there = atomic_load(&deed->number) == number;
        taken[rank][at] = number;
    }
    return is_there;
}

/* Numbers that look like those of processes are also those of files (feature_4711 beside feature_4712): their own names come in a moment. */
static bool take(uint32_t rank, struct beside *beside, bool is_late) {
    pthread_mutex_lock(&mutex);
    bool is_there = take_oldest(rank, beside, false) || (is_late && beside->key & MAY_DIFFER && take_oldest(rank, beside, true));
    pthread_mutex_unlock(&mutex);
    return is_there;
}

/* ---- waiting */

struct wait {
    uint32_t late; /* the rank that is waited for */
    bool is_certain;
    struct clock_wait clock, idle; /* idle: since when the other one has done nothing but wait */
    uint64_t deeds;
};

/* Beside its training, too. */
static bool waits_for_us(uint32_t rank) {
    return atomic_load(&line_of(rank)->waiting) || meeting_is_waited_for(rank);
}

static bool will_not_come(struct wait *wait) {
    const struct board_deeds *line = line_of(wait->late);
    uint64_t deeds = atomic_load(&line->count), patience = atomic_load(&are_apart) ? LITTLE_PATIENCE_MS : PATIENCE_MS;
    if (wait->is_certain) /* it may also have been overwritten by what others have done since */
        return atomic_load(&line->has_ended) || clock_waited_ms(&wait->clock) >= limit_ms;
    if (!wait->idle.since_ns || deeds != wait->deeds || !waits_for_us(wait->late))
        wait->idle = clock_wait_begin();
    wait->deeds = deeds;
    return atomic_load(&line->has_ended) || clock_waited_ms(&wait->idle) >= patience || clock_waited_ms(&wait->clock) >= limit_ms;
}

/* A moment. bell: as it was before it was looked whether there is anything to wait for. False: there is no more. */
static bool rest(struct wait *wait, unsigned round, uint32_t bell) {
    if (round < YIELDS) {
        sched_yield();
        return true;
    }
    if (atomic_load_explicit(&link_board()->abort, memory_order_relaxed))
        link_wait_for_end();
    link_look(wait->late);
    if (will_not_come(wait))
        return false;
    meeting_nap(bell);
    return true;
}

static bool await(uint32_t rank, struct beside *beside, bool is_certain) {
    struct wait wait = {.late = rank, .is_certain = is_certain, .clock = clock_wait_begin()};
    uint32_t bell = atomic_load(&link_board()->meetings.bell);
    for (unsigned round = 0; !take(rank, beside, clock_waited_ms(&wait.clock) >= MOMENT_MS); round++) {
        if (!rest(&wait, round, bell))
            return take(rank, beside, true); /* it may have come before it ended */
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

static bool await_aside(uint32_t rank, struct beside *beside, bool is_certain) {
    if (take(rank, beside, false))
        return true;
    struct aside aside = aside_begin();
    bool has_come = await(rank, beside, is_certain);
    aside_end(&aside);
    return has_come;
}

static bool is_closed(struct beside_file file) {
    return atomic_load(&link_board()->beside_ends[file.place].number) >= file.number;
}

static void await_closed(struct beside_file file) {
    struct wait wait = {.late = 0, .is_certain = true, .clock = clock_wait_begin()};
    uint32_t bell = atomic_load(&link_board()->meetings.bell);
    for (unsigned round = 0; !is_closed(file) && rest(&wait, round, bell); round++)
        bell = atomic_load(&link_board()->meetings.bell);
}

/* rank: the one that has not come. */
static void go_on_without(uint32_t rank, const struct beside *beside) {
    if (!atomic_exchange(&are_apart, true))
        shim_warning(
            "AR-FILE-BESIDE",
            "nothing, if that thread works by the clock; if it shares a lock with another that writes, it must not read back what it "
            "wrote; otherwise names must be the same on all ranks",
            "rank %u changes '%s' on a thread beside the training, and rank %u does not: what rank 0 does is done", shim_rank(),
            beside->path, rank);
}

/* ---- what others call */

void beside_come(struct beside *beside) {
    if (shim_rank()) {
        post(beside, 0, BOARD_ENDS);
        return;
    }
    struct beside others = *beside; /* what they say of it does not matter */
    for (uint32_t rank = 1; rank < ranks; rank++)
        if (!await_aside(rank, &others, false))
            go_on_without(rank, beside);
}

void beside_answer(struct beside *beside, int error) {
    int saved_errno = errno;
    beside->error = error;
    post(beside, error, BOARD_ENDS);
    errno = saved_errno;
}

void beside_answer_file(struct beside *beside, uint32_t place) {
    int saved_errno = errno;
    beside->error = 0;
    uint64_t number = post(beside, 0, place);
    beside->file = place < BOARD_ENDS ? (struct beside_file){number, place} : (struct beside_file){0, 0};
    errno = saved_errno;
}

bool beside_await(struct beside *beside) {
    bool is_answered = await_aside(0, beside, false);
    if (!is_answered)
        go_on_without(0, beside);
    return is_answered;
}

bool beside_await_end(struct beside *beside) {
    return await_aside(0, beside, true);
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
