/*
 * What ranks write on the board of their host, and others must see on theirs.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../job.h"
#include "look.h"
#include "together.h"

/* ---- lines */

/* The first host tells all lines that it knows, the others their own. */
void relay_lines(struct job *job, bool is_last) {
    bool is_first = hosts_is_first(job->hosts);
    for (uint32_t rank = job->first; rank < job->first + job->local_size; rank++)
        board_line(job, rank, &job->lines[rank]);
    uint32_t first = is_first ? 0 : job->first, count = is_first ? job->world_size : job->local_size;
    if (is_last)
        hosts_tell_all(job->hosts, -1, HOSTS_LINES, &job->lines[first], count * sizeof *job->lines);
    else
        hosts_tell_ready(job->hosts, HOSTS_LINES, &job->lines[first], count * sizeof *job->lines);
}

/* The board of a generation, or NULL. */
static struct board *board_of(struct job *job, uint32_t generation) {
    struct segment *segment = generation ? segments_get(&job->claims.segments, generation - 1) : NULL;
    return segment ? segment->board : NULL;
}

static void show_line(struct job *job, const struct together_line *line) {
    struct board *board = line->generation <= job->claims.segments.count ? board_of(job, line->generation) : NULL;
    if (!board)
        return;
    struct board_rank *shown = &board->ranks[line->rank];
    atomic_store(&shown->pid, line->pid);
    atomic_store(&shown->phase, line->phase);
    atomic_store(&board->deeds[line->rank].waiting, line->beside);
    atomic_store(&shown->step, line->step);
    atomic_store(&shown->collective, line->collective);
    atomic_store(&shown->waiting, line->waiting);
    memcpy(shown->where, line->where, sizeof shown->where);
    memcpy(shown->thrower, line->thrower, sizeof shown->thrower);
    atomic_store(&shown->thrown, line->thrown);
    if (job->first > 0) /* on the first host the ranks' arrivals come with what they are about, and rank 0 waits for them */
        atomic_store(&board->meetings.arrivals[line->rank].number, line->meetings);
}

void relay_hear_lines(struct job *job, const char *body, uint32_t bytes) {
    struct together_line line;
    for (; bytes >= sizeof line; body += sizeof line, bytes -= (uint32_t)sizeof line) {
        memcpy(&line, body, sizeof line);
        if (line.rank >= job->world_size || claims_is_here(&job->claims, line.rank))
            continue;
        line.where[BOARD_WHERE_CHARS - 1] = line.thrower[BOARD_THROWER_CHARS - 1] = 0;
        if (line.rank == 0 && line.held != job->lines[0].held)
            segments_hold(&job->claims.segments);
        job->lines[line.rank] = line;
        show_line(job, &line);
    }
}

/* ---- meetings */

struct relayed {
    uint32_t rank, generation;
    uint32_t is_below[2];         /* relative to the folder that accel-run was started in, the same one on all hosts (look.h) */
    struct protocol_meeting said; /* its texts follow */
};

/* Texts of a message in which each is spelled for all hosts. Returns their length. */
static size_t spell_for_all(struct relayed *relayed, const char *from, char *to) {
    char text[BOARD_PATH_CHARS];
    size_t written = 0;
    for (int i = 0; i < 2; i++) {
        uint32_t length = relayed->said.lengths[i];
        memcpy(text, from, length);
        text[length] = 0;
        from += length;
        const char *below = look_below_start(text);
        relayed->is_below[i] = below != NULL;
        relayed->said.lengths[i] = (uint32_t)strlen(below ? below : text);
        memcpy(to + written, below ? below : text, relayed->said.lengths[i]);
        written += relayed->said.lengths[i];
    }
    return written;
}

/* Are the texts as long as they are said to be? */
static bool is_whole(const struct protocol_meeting *said, uint64_t bytes) {
    return said->lengths[0] < BOARD_PATH_CHARS && said->lengths[1] < BOARD_PATH_CHARS &&
           bytes == (uint64_t)said->lengths[0] + said->lengths[1];
}

static bool is_of_deeds(const struct protocol_meeting *said) {
    return said->what == PROTOCOL_MEETING_DEED || said->what == PROTOCOL_MEETING_NONE;
}

void relay_meeting(struct job *job, uint32_t rank, const char *body, uint32_t bytes) {
    char message[sizeof(struct relayed) + PROTOCOL_TEXT_MAX];
    struct relayed relayed = {.rank = rank, .generation = job->ranks[rank - job->first].generation};
    if (!job->hosts || bytes < sizeof relayed.said)
        return;
    memcpy(&relayed.said, body, sizeof relayed.said);
    size_t texts = bytes - sizeof relayed.said;
    if (!is_whole(&relayed.said, texts))
        return;
    texts = spell_for_all(&relayed, body + sizeof relayed.said, message + sizeof relayed);
    memcpy(message, &relayed, sizeof relayed);
    bool is_for_rank_0 = relayed.said.what == PROTOCOL_MEETING_COME || (rank && is_of_deeds(&relayed.said));
    if (is_for_rank_0 && !hosts_is_first(job->hosts))
        hosts_tell(job->hosts, 0, HOSTS_COME, message, sizeof relayed + texts);
    else if (!is_for_rank_0 && rank == 0)
        hosts_tell_all(job->hosts, 0, relayed.said.what == PROTOCOL_MEETING_ANSWER ? HOSTS_ANSWER : HOSTS_END, message,
                       sizeof relayed + texts);
}

static void ring(struct board_meetings *room) {
    atomic_fetch_add(&room->bell, 1);
    syscall(SYS_futex, &room->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void take_text(char *to, size_t room, const char *from, size_t length) {
    length = length < room - 1 ? length : room - 1;
    memcpy(to, from, length);
    to[length] = 0;
}

/* As this host spells it. room: BOARD_PATH_CHARS. */
static void take_path(char *to, bool is_below, const char *from, size_t length) {
    char folder[BOARD_PATH_CHARS];
    bool has_folder = is_below && getcwd(folder, sizeof folder) && strlen(folder) + 1 + length < BOARD_PATH_CHARS;
    size_t before = has_folder ? (size_t)sprintf(to, "%s/", folder) : 0;
    take_text(to + before, BOARD_PATH_CHARS - before, from, length);
}

static void take_answer(struct board_meetings *room, const struct relayed *relayed, const char *texts) {
    const struct protocol_meeting *said = &relayed->said;
    take_path(room->paths[0], relayed->is_below[0], texts, said->lengths[0]);
    take_path(room->paths[1], relayed->is_below[1], texts + said->lengths[0], said->lengths[1]);
    room->error = said->error;
    room->answer = said->answer;
    atomic_store(&room->answered, said->number);
}

static void take_end(struct board *board, const struct protocol_meeting *said) {
    struct board_end *end = &board->meetings.ends[said->answer % BOARD_ENDS];
    if (said->what == PROTOCOL_MEETING_CLOSED) {
        board_end_beside(&board->beside_ends[said->answer % BOARD_ENDS], said->number, said->bytes, said->error);
        return;
    }
    if (said->what == PROTOCOL_MEETING_SEEN) {
        atomic_store(&end->seen, said->number);
        return;
    }
    atomic_store(&end->most, said->bytes);
    atomic_store(&end->error, said->error);
    atomic_store(&end->number, said->number);
}

static void take_deed(struct board *board, const struct relayed *relayed, const char *texts) {
    const struct protocol_meeting *said = &relayed->said;
    struct board_deeds *deeds = &board->deeds[relayed->rank];
    struct board_deed *deed = &deeds->list[said->number % BOARD_DEEDS];
    char path[BOARD_PATH_CHARS];
    if (said->what == PROTOCOL_MEETING_NONE) {
        atomic_store(&deeds->has_ended, 1);
        return;
    }
    atomic_store(&deed->number, 0);
    deed->key = said->bytes;
    deed->error = said->error;
    deed->place = said->answer;
    if (relayed->rank == 0) {
        take_path(path, relayed->is_below[0], texts, said->lengths[0]);
        take_text(board->deed_paths[said->number % BOARD_DEEDS], BOARD_MEETING_CHARS, path,
                  strlen(path) < BOARD_MEETING_CHARS ? strlen(path) : 0);
    }
    atomic_store(&deed->number, said->number);
    atomic_store(&deeds->count, said->number);
}

void relay_hear_meeting(struct job *job, uint32_t type, const char *body, uint32_t bytes) {
    struct relayed relayed;
    if (bytes < sizeof relayed)
        return;
    memcpy(&relayed, body, sizeof relayed);
    const char *texts = body + sizeof relayed;
    struct board *board = relayed.generation <= job->claims.segments.count + 1 ? board_of(job, relayed.generation) : NULL;
    if (!board || relayed.rank >= job->world_size || !is_whole(&relayed.said, bytes - sizeof relayed))
        return;
    if (is_of_deeds(&relayed.said)) {
        take_deed(board, &relayed, texts);
    } else if (type == HOSTS_COME) {
        struct board_arrival *arrival = &board->meetings.arrivals[relayed.rank];
        arrival->kind = relayed.said.kind;
        arrival->thrown = relayed.said.bytes;
        take_text(arrival->path, sizeof arrival->path, texts, relayed.said.lengths[0]);
        atomic_store(&arrival->number, relayed.said.number);
    } else if (type == HOSTS_ANSWER) {
        take_answer(&board->meetings, &relayed, texts);
    } else {
        take_end(board, &relayed.said);
    }
    ring(&board->meetings);
}
