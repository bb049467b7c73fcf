#include "output.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"

struct line {
    char *text; /* owned */
    size_t bytes;
    uint64_t since_ms;
};

/* Lines numbered from `first` on; a ring that grows. */
struct lines {
    struct line *ring; /* owned */
    uint32_t capacity, count, head;
    size_t bytes;   /* of all */
    uint64_t first; /* number of the line at head */
};

struct source {
    char *part; /* owned: the line being assembled */
    size_t part_bytes, part_capacity;
    bool is_bar;      /* a \r was met in this line */
    bool return_last; /* the last byte was \r: part of \r\n, or a bar */
    bool has_ended;
    struct lines lines;
    uint64_t next;   /* ranks > 0: number of rank 0's line to compare with next */
    uint64_t missed; /* lines since then that have waited in vain: rank 0 may say them still, or never */
};

struct output {
    uint32_t world_size;
    output_show *show;
    void *context;
    struct source *sources; /* owned */
    bool is_given_up;
    enum output_hold hold;
    uint64_t looked_ms, fresh_ms; /* when it was looked last; before fresh_ms nobody was late */
};

static struct line *lines_at(struct lines *lines, uint64_t number) {
    return &lines->ring[(lines->head + (number - lines->first)) % lines->capacity];
}

static void lines_drop_first(struct lines *lines) {
    lines->bytes -= lines->ring[lines->head].bytes;
    free(lines->ring[lines->head].text);
    lines->ring[lines->head].text = NULL;
    lines->head = (lines->head + 1) % lines->capacity;
    lines->count--;
    lines->first++;
}

static bool lines_are_full(const struct output *output, const struct lines *lines, size_t more_bytes) {
    size_t most = OUTPUT_BYTES_OF_ALL / output->world_size < OUTPUT_BYTES ? OUTPUT_BYTES_OF_ALL / output->world_size : OUTPUT_BYTES;
    return lines->count == OUTPUT_LINES || (lines->count && lines->bytes + more_bytes > most);
}

static bool lines_grow(struct lines *lines) {
    uint32_t capacity = lines->capacity ? 2 * lines->capacity : 64;
    struct line *ring = calloc(capacity, sizeof *ring);
    if (!ring)
        return false;
    for (uint32_t i = 0; i < lines->count; i++)
        ring[i] = lines->ring[(lines->head + i) % lines->capacity];
    free(lines->ring);
    lines->ring = ring;
    lines->capacity = capacity;
    lines->head = 0;
    return true;
}

static void lines_push(const struct output *output, struct lines *lines, const char *text, size_t bytes, uint64_t now_ms) {
    while (lines_are_full(output, lines, bytes))
        lines_drop_first(lines);
    if (lines->count == lines->capacity && !lines_grow(lines))
        return;
    struct line *line = lines_at(lines, lines->first + lines->count);
    line->text = malloc(bytes + 1);
    if (!line->text)
        return;
    if (bytes)
        memcpy(line->text, text, bytes);
    line->bytes = bytes;
    line->since_ms = now_ms;
    lines->bytes += bytes;
    lines->count++;
}

struct output *output_new(uint32_t world_size, output_show *show, void *context) {
    struct output *output = calloc(1, sizeof *output);
    if (!output)
        return NULL;
    *output = (struct output){.world_size = world_size, .show = show, .context = context};
    output->sources = calloc(world_size, sizeof *output->sources);
    if (!output->sources) {
        free(output);
        return NULL;
    }
    return output;
}

void output_free(struct output *output) {
    if (!output)
        return;
    for (uint32_t i = 0; i < output->world_size; i++) {
        struct source *source = &output->sources[i];
        while (source->lines.count)
            lines_drop_first(&source->lines);
        free(source->lines.ring);
        free(source->part);
    }
    free(output->sources);
    free(output);
}

static bool lines_match(const struct line *a, const struct line *b) {
    return compare_lines(a->text, a->bytes, b->text, b->bytes);
}

/* Where rank 0's lines end among which that of a rank may be found. */
static uint64_t reach_of(const struct source *source) {
    return source->next + source->missed + OUTPUT_LOOK_AHEAD;
}

/* Is rank 0 known to say nothing more within reach? */
static bool reach_is_known(const struct output *output, const struct source *source) {
    const struct source *zero = &output->sources[0];
    return zero->has_ended || zero->lines.first + zero->lines.count >= reach_of(source);
}

static bool has_waited(const struct output *output, const struct line *line, uint64_t now_ms) {
    uint64_t since_ms = line->since_ms > output->fresh_ms ? line->since_ms : output->fresh_ms;
    return output->hold == OUTPUT_KNOWN && now_ms - since_ms >= OUTPUT_WAIT_MS;
}

/* How long others have waited for rank 0 does not count while it is held up, nor what this process has slept through. */
static void look(struct output *output, uint64_t now_ms) {
    if (output->hold != OUTPUT_KNOWN || now_ms - output->looked_ms >= OUTPUT_PAUSE_MS)
        output->fresh_ms = now_ms;
    output->looked_ms = now_ms;
}

/* Is the line perhaps among what rank 0 would have said further? Each line that was given up has taken a place, too. */
static bool is_unread(const struct output *output, const struct source *source) {
    const struct lines *zero = &output->sources[0].lines;
    bool is_behind = source->next + source->missed >= zero->first + zero->count;
    return output->hold == OUTPUT_HELD || (output->hold == OUTPUT_CUT && is_behind);
}

/* The line of the rank has no counterpart, as far as is known. */
static void give_line_up(struct output *output, uint32_t rank, bool is_known, bool is_late) {
    struct source *source = &output->sources[rank];
    struct line *line = &source->lines.ring[source->lines.head];
    bool is_shown = is_known || !is_unread(output, source);
    if (is_shown)
        output->show(output->context, rank, line->text, line->bytes);
    else
        source->next++;
    if (!is_known && (is_late || (is_shown && output->hold == OUTPUT_CUT)) && source->missed < OUTPUT_MISSED)
        source->missed++;
    lines_drop_first(&source->lines);
}

/* Judges the oldest waiting line of a rank. Returns false when it has to wait. */
static bool judge(struct output *output, uint32_t rank, uint64_t now_ms, bool force) {
    struct source *source = &output->sources[rank];
    struct lines *zero = &output->sources[0].lines;
    struct line *line = &source->lines.ring[source->lines.head];
    uint64_t end = zero->first + zero->count;
    if (source->next < zero->first && source->missed) { /* rank 0 has said them since */
        source->next++;
        source->missed--;
        return true;
    }
    if (source->next < zero->first) { /* too far behind: its counterpart is forgotten */
        source->next++;
        lines_drop_first(&source->lines);
        return true;
    }
    uint64_t limit = reach_of(source) < end ? reach_of(source) : end;
    for (uint64_t i = source->next; i < limit; i++)
        if (lines_match(line, lines_at(zero, i))) {
            source->next = i + 1;
            source->missed = 0;
            lines_drop_first(&source->lines);
            return true;
        }
    bool is_known = reach_is_known(output, source), is_late = has_waited(output, line, now_ms);
    if (!force && !is_known && !is_late)
        return false;
    give_line_up(output, rank, is_known, is_late);
    return true;
}

static void settle_rank(struct output *output, uint32_t rank, uint64_t now_ms, bool force) {
    while (output->sources[rank].lines.count && judge(output, rank, now_ms, force))
        ;
}

/* What every rank has said, nobody will be compared with. */
static void forget_said(struct output *output) {
    struct lines *zero = &output->sources[0].lines;
    uint64_t needed = UINT64_MAX;
    for (uint32_t i = 1; i < output->world_size; i++) {
        const struct source *source = &output->sources[i];
        if ((!source->has_ended || source->lines.count || source->part_bytes) && source->next < needed)
            needed = source->next;
    }
    while (zero->count && zero->first < needed)
        lines_drop_first(zero);
}

static void settle_one(struct output *output, uint32_t rank, uint64_t now_ms) {
    settle_rank(output, rank, now_ms, false);
    forget_said(output);
}

void output_settle(struct output *output, uint64_t now_ms, int all) {
    look(output, now_ms);
    for (uint32_t i = 1; i < output->world_size; i++)
        settle_rank(output, i, now_ms, all);
    forget_said(output);
}

void output_hold(struct output *output, enum output_hold hold) {
    output->hold = hold;
}

int output_is_within_line(const struct output *output) {
    const struct source *zero = &output->sources[0];
    return zero->part_bytes && !zero->is_bar && !zero->return_last;
}

int output_is_waiting(const struct output *output) {
    for (uint32_t i = 1; i < output->world_size; i++)
        if (output->sources[i].lines.count)
            return 1;
    return 0;
}

static void line_complete(struct output *output, uint32_t rank, uint64_t now_ms) {
    struct source *source = &output->sources[rank];
    if (!source->is_bar) {
        while (rank && lines_are_full(output, &source->lines, source->part_bytes))
            judge(output, rank, now_ms, true);
        lines_push(output, &source->lines, source->part, source->part_bytes, now_ms);
    }
    source->is_bar = source->return_last = false;
    source->part_bytes = 0;
}

static void part_add(struct source *source, const char *bytes, size_t count) {
    if (count > OUTPUT_LINE_MAX - source->part_bytes)
        count = OUTPUT_LINE_MAX - source->part_bytes;
    if (!count)
        return;
    if (source->part_bytes + count > source->part_capacity) {
        size_t capacity = 2 * (source->part_bytes + count);
        char *part = realloc(source->part, capacity);
        if (!part)
            return;
        source->part = part;
        source->part_capacity = capacity;
    }
    memcpy(source->part + source->part_bytes, bytes, count);
    source->part_bytes += count;
}

void output_feed(struct output *output, uint32_t rank, const char *bytes, size_t count, uint64_t now_ms) {
    struct source *source = &output->sources[rank];
    const char *end = bytes + count;
    if (output->is_given_up)
        return;
    look(output, now_ms);
    while (bytes < end) {
        if (source->return_last && *bytes != '\n') { /* the \r was a bar's */
            source->is_bar = true;
            source->part_bytes = 0;
        }
        source->return_last = false;
        const char *stop = bytes;
        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        part_add(source, bytes, (size_t)(stop - bytes));
        if (stop < end && *stop == '\n')
            line_complete(output, rank, now_ms);
        else if (stop < end)
            source->return_last = true;
        bytes = stop + (stop < end);
    }
    if (rank)
        settle_one(output, rank, now_ms);
    else
        output_settle(output, now_ms, 0);
}

void output_give_up(struct output *output) {
    for (uint32_t i = 0; i < output->world_size; i++) {
        struct source *source = &output->sources[i];
        while (source->lines.count)
            lines_drop_first(&source->lines);
        source->part_bytes = 0;
    }
    output->is_given_up = true;
}

void output_end(struct output *output, uint32_t rank, uint64_t now_ms) {
    struct source *source = &output->sources[rank];
    bool is_known = output->hold == OUTPUT_KNOWN;
    look(output, now_ms);
    source->is_bar |= source->return_last;
    /* What is held is a piece of a line that rank 0 may have said in full, or one of its own. */
    if (source->part_bytes && (is_known || source->is_bar))
        line_complete(output, rank, now_ms);
    source->has_ended = rank || is_known; /* of what nobody has read the end is not known either */
    if (rank)
        settle_one(output, rank, now_ms);
    else
        output_settle(output, now_ms, 0);
}
