#include "beside_line.h"

#include <pthread.h>
#include <stdio.h>

#include "alone.h"
#include "beside_key.h"
#include "link.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* the own line, what is owed (alone.h), and: */
static uint64_t taken[BOARD_RANKS_MAX][BOARD_DEEDS];      /* which of the others' have been answered, by number */
static uint64_t all_taken[BOARD_RANKS_MAX];               /* that one, and all before it */

struct board_deeds *beside_line(uint32_t rank) {
    return &link_board()->deeds[rank];
}

uint64_t beside_line_post(const struct beside *beside, int error, uint32_t place) {
    struct board_deeds *own = beside_line(shim_rank());
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
    const struct board_deed *deed = &beside_line(rank)->list[number % BOARD_DEEDS];
    beside->error = deed->error;
    beside->number = number;
    beside->file = deed->place < BOARD_ENDS ? (struct beside_file){number, deed->place} : (struct beside_file){0, 0};
    if (rank == 0)
        snprintf(beside->rank_0s, sizeof beside->rank_0s, "%s", link_board()->deed_paths[number % BOARD_DEEDS]);
}

/* The oldest of the rank's that nobody has taken: of the same letters, or (also_other) of names in which numbers of processes or times differ. What was owed to
   one before goes to that, but is filled in. */
static bool take_oldest(struct beside *beside, uint32_t rank, bool also_other, struct beside_found *found) {
    struct board_deeds *line = beside_line(rank);
    uint64_t *of_rank = taken[rank], count = atomic_load(&line->count);
    uint64_t comes = 0; /* what says so */
    bool is_there = false;
    for (uint64_t number = first_untaken(rank, count); number <= count && !is_there; number++) {
        struct board_deed *deed = &line->list[number % BOARD_DEEDS];
        if (of_rank[number % BOARD_DEEDS] >= number || atomic_load(&deed->number) != number)
            continue;
        uint64_t key = deed->key;
        if (!beside_key_is(key, beside->key, also_other))
            continue;
        if (deed->place == BOARD_COMES) {
            comes = comes ? comes : number;
            continue;
        }
        read_deed(beside, rank, number);
        is_there = atomic_load(&deed->number) == number;
        of_rank[number % BOARD_DEEDS] = number;
        if (comes)
            of_rank[comes % BOARD_DEEDS] = comes;
        comes = 0;
        found->is_older = is_there && alone_was_owed(rank, key, number, also_other);
        is_there = is_there && !found->is_older;
    }
    found->comes = found->comes || comes;
    return is_there;
}

/* Numbers that look like those of processes are also those of files (feature_4711 beside feature_4712): their own names come in a moment. */
bool beside_line_take(struct beside *beside, uint32_t rank, bool is_late, struct beside_found *found) {
    pthread_mutex_lock(&mutex);
    found->comes = false;
    bool is_there =
        take_oldest(beside, rank, false, found) || (is_late && beside->key & BESIDE_MAY_DIFFER && take_oldest(beside, rank, true, found));
    pthread_mutex_unlock(&mutex);
    return is_there;
}

void beside_line_owe(uint32_t rank, uint64_t key) {
    pthread_mutex_lock(&mutex);
    alone_owe(rank, key, atomic_load(&beside_line(rank)->count) + BOARD_DEEDS);
    pthread_mutex_unlock(&mutex);
}
