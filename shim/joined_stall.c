/* A rank that makes no progress while others wait for it is named, where no launcher of ours watches (launcher/watch.c does elsewhere). */
#include <stdio.h>
#include <string.h>

#include "comm/clock.h"
#include "joined.h"
#include "link.h"

enum { LEVEL_WARN = 1, NOBODY = 0 };

/* What changes when a rank does anything that the board shows. */
static uint64_t mark_of(uint32_t rank) {
    const struct board_rank *line = &link_board()->ranks[rank];
    uint64_t mark = 1 + rank;
    uint64_t parts[] = {atomic_load(&joined_page()->ranks[rank].claims),
                        atomic_load(&line->phase),
                        atomic_load(&line->step),
                        atomic_load(&line->collective),
                        atomic_load(&line->waiting),
                        atomic_load(&link_board()->meetings.arrivals[rank].number)};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        mark = mark * 1000003u + parts[i];
    return mark ? mark : 1;
}

/* Named by this process, one at a time; NOBODY: none. Two threads wait at most: a mix of theirs names late, never wrongly. */
static _Atomic uint32_t named; /* 1 + rank */
static _Atomic uint64_t named_mark;

static void name(uint32_t late, uint64_t still_ms, char state) {
    const struct join_page *page = joined_page();
    const struct join_rank *rank = &page->ranks[late];
    const struct board_rank *line = &link_board()->ranks[late];
    char text[1024], where[BOARD_WHERE_CHARS];
    memcpy(where, line->where, sizeof where);
    where[sizeof where - 1] = 0;
    int length =
        snprintf(text, sizeof text,
                 "accel-run: warning AR-RANK-STALLED: rank %u of %u (process %d) of '%.200s' has made no progress for %llu s while rank %u "
                 "waits for it: step %llu, last in \"%s\"%s\n"
                 "  what to do: 'gdb -p' or 'py-spy dump' on that process shows where it is; accel-run goes on waiting\n",
                 late, page->world_size, (int)join_pid(join_trainer(rank)), page->program, (unsigned long long)(still_ms / 1000),
                 joined_rank(), (unsigned long long)atomic_load(&line->step) + 1, where,
                 state == 'T'   ? "; it was stopped by a signal"
                 : state == 't' ? "; it was stopped by a debugger"
                 : state == 'R' ? "; it is computing"
                                : "");
    joined_words_print(text, (size_t)length);
}

void joined_stall_look(uint32_t late) {
    static _Atomic uint64_t seen, since_ms, looked_ms;
    struct join_page *page = joined_page();
    struct join_rank *rank = &page->ranks[late];
    uint64_t mark = mark_of(late), now = clock_ms();
    bool was_stopped = now - atomic_exchange(&looked_ms, now) >= CLOCK_PAUSE_MS;
    if (atomic_exchange(&seen, mark) != mark || was_stopped)
        atomic_store(&since_ms, now);
    uint64_t still_ms = now - atomic_load(&since_ms);
    joined_stall_settle();
    if (!page->stall_timeout_ms || still_ms < page->stall_timeout_ms || page->grant.log_level < LEVEL_WARN || atomic_load(&named))
        return;
    char state = joined_process_state(join_trainer(rank));
    bool is_stopped = state == 'T' || state == 't';
    if (atomic_load(&link_board()->ranks[late].waiting) && !is_stopped) /* for another one, who is named by it */
        return;
    uint32_t nobody = 0;
    if (!atomic_compare_exchange_strong(&rank->stalled, &nobody, 1))
        return;
    atomic_store(&named_mark, mark);
    atomic_store(&named, 1 + late);
    name(late, still_ms, state);
}

void joined_stall_settle(void) {
    char text[64];
    uint32_t was = atomic_load(&named);
    if (was == NOBODY || mark_of(was - 1) == atomic_load(&named_mark) || !atomic_compare_exchange_strong(&named, &was, NOBODY))
        return;
    atomic_store(&joined_page()->ranks[was - 1].stalled, 0);
    int length = snprintf(text, sizeof text, "accel-run: rank %u goes on\n", was - 1);
    joined_words_print(text, (size_t)length);
}
