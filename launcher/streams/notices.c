#define _GNU_SOURCE
#include "notices.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../config/protocol.h"

int notices_open(struct notices *notices, uint32_t world_size) {
    memset(notices, 0, sizeof *notices);
    notices->world_size = world_size;
    notices->ranks = calloc(world_size, sizeof *notices->ranks);
    return notices->ranks ? 0 : -1;
}

void notices_clear(struct notices *notices) {
    for (uint32_t i = 0; i < notices->texts_count; i++)
        free(notices->texts[i].sent);
    for (size_t i = 0; i < sizeof(notices->held) / sizeof(*notices->held); i++)
        free(notices->held[i].line);
    for (uint32_t rank = 0; notices->ranks && rank < notices->world_size; rank++)
        for (uint32_t i = 0; i < notices->ranks[rank].held_count; i++)
            free(notices->ranks[rank].held[i]);
    free(notices->ranks);
    printer_clear(&notices->printer);
    memset(notices, 0, sizeof *notices);
}

void notices_say(struct notices *notices, const char *format, ...) {
    va_list list;
    va_start(list, format);
    printer_vformat(&notices->printer, "accel-run: ", format, list);
    va_end(list);
}

void notices_problem(struct notices *notices, const char *kind, const struct problem *problem) {
    printer_format(&notices->printer, "accel-run: %s %s: %s\n  what to do: %s", kind, problem->id, problem->what, problem->cure);
}

static uint64_t hash_of(const char *text) {
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

/* The text's entry; -1 when it is new and the table is full: such a text is printed without comparing. */
static int text_find(struct notices *notices, const char *text) {
    uint64_t hash = hash_of(text);
    for (uint32_t i = 0; i < notices->texts_count; i++)
        if (notices->texts[i].hash == hash)
            return (int)i;
    if (notices->texts_count == NOTICES_TEXTS_MAX)
        return -1;
    struct notices_text *entry = &notices->texts[notices->texts_count];
    *entry = (struct notices_text){hash, 0, calloc(notices->world_size, sizeof *entry->sent)};
    return entry->sent ? (int)notices->texts_count++ : -1;
}

static void held_drop(struct notices_held *held) {
    free(held->line);
    held->line = NULL;
}

/* Rank 0 has said it: whoever waits with the same text need not. */
static void held_forget(struct notices *notices, uint32_t text) {
    for (size_t i = 0; i < sizeof(notices->held) / sizeof(*notices->held); i++)
        if (notices->held[i].line && notices->held[i].text == text)
            held_drop(&notices->held[i]);
}

static bool hold(struct notices *notices, uint32_t rank, uint32_t text, const char *line, uint64_t now_ms) {
    for (size_t i = 0; i < sizeof(notices->held) / sizeof(*notices->held); i++)
        if (!notices->held[i].line) {
            notices->held[i] = (struct notices_held){rank, now_ms, text, strdup(line)};
            return notices->held[i].line != NULL;
        }
    return false;
}

void notices_log(struct notices *notices, uint32_t rank, char level, const char *text, uint64_t now_ms) {
    char *line;
    int index = text_find(notices, text);
    struct notices_text *entry = index < 0 ? NULL : &notices->texts[index];
    if (entry && ++entry->sent[rank] <= entry->printed)
        return;
    if (asprintf(&line, "%s%s", protocol_level_word(level, text), text) < 0)
        return;
    if (rank == 0) {
        if (entry) {
            entry->printed++;
            held_forget(notices, (uint32_t)index);
        }
        notices_say(notices, "%s", line);
    } else if (!entry || !hold(notices, rank, (uint32_t)index, line, now_ms)) {
        printer_format(&notices->printer, "accel-run[rank %u]: %s", notices->first + rank, line);
    }
    free(line);
}

/* How many ranks have sent the text, and have not all been told yet? */
static uint32_t senders(const struct notices *notices, uint32_t text) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < notices->world_size; i++)
        count += notices->texts[text].sent[i] > notices->texts[text].printed;
    return count;
}

static void held_print(struct notices *notices, struct notices_held *held) {
    struct notices_text *entry = &notices->texts[held->text];
    if (entry->sent[held->rank] > entry->printed) {
        uint32_t count = senders(notices, held->text);
        entry->printed++;
        if (count == 1)
            printer_format(&notices->printer, "accel-run[rank %u]: %s", notices->first + held->rank, held->line);
        else
            printer_format(&notices->printer, "accel-run[rank %u and %u more]: %s", notices->first + held->rank, count - 1, held->line);
    }
    held_drop(held);
}

void notices_settle(struct notices *notices, uint64_t now_ms, bool all) {
    for (size_t i = 0; i < sizeof(notices->held) / sizeof(*notices->held); i++)
        if (notices->held[i].line && (all || now_ms - notices->held[i].since_ms >= NOTICES_WAIT_MS))
            held_print(notices, &notices->held[i]);
}

bool notices_is_waiting(const struct notices *notices) {
    for (size_t i = 0; i < sizeof(notices->held) / sizeof(*notices->held); i++)
        if (notices->held[i].line)
            return true;
    return false;
}

void notices_line(struct notices *notices, uint32_t rank, const char *line, size_t bytes) {
    struct notices_rank *state = &notices->ranks[rank];
    char *text;
    if (state->shown > NOTICES_LINES_MAX)
        return;
    int n = state->shown++ == NOTICES_LINES_MAX
                ? asprintf(&text, "accel-run: rank %u prints more lines that differ from rank 0's; --log-dir keeps them all",
                           notices->first + rank)
                : asprintf(&text, "[rank %u] %.*s", notices->first + rank, (int)bytes, line);
    if (n < 0)
        return;
    if (state->released) {
        printer_line(&notices->printer, text, (size_t)n);
        free(text);
    } else if (state->held_count < NOTICES_LINES_MAX) {
        state->held[state->held_count++] = text;
    } else {
        free(text);
    }
}

void notices_release(struct notices *notices, uint32_t rank) {
    struct notices_rank *state = &notices->ranks[rank];
    for (uint32_t i = 0; i < state->held_count; i++) {
        printer_line(&notices->printer, state->held[i], strlen(state->held[i]));
        free(state->held[i]);
    }
    state->held_count = 0;
    state->released = true;
}
