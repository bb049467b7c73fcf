/*
 * What `accel-run explain` shows: rank 0 counts what it meets, by kind, name and detail, and sends the list when the asked steps are over, when the program
 * saves (so that nothing of the user's is overwritten), when it ends, or when it is stopped.
 */
#include "explain.h"

#include <pthread.h>
#include <stdio.h>

#include "link.h"
#include "shim.h"

enum { NOTES_MAX = 768, OBJECTS_MAX = 256, NAME_CHARS = 64, DETAIL_CHARS = 256 };

struct note {
    const char *kind; /* literal */
    char name[NAME_CHARS], detail[DETAIL_CHARS];
    uint64_t count;
};

static struct note notes[NOTES_MAX];
static int note_count;
static const void *objects[OBJECTS_MAX]; /* noted already; an address that is used again is not told apart */
static int object_count;
static uint64_t steps;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool note_is(const struct note *note, const char *kind, const char *name, const char *detail) {
    return note->kind == kind && !strncmp(note->name, name, NAME_CHARS - 1) && !strncmp(note->detail, detail, DETAIL_CHARS - 1);
}

static struct note *note_find(const char *kind, const char *name, const char *detail) {
    for (int i = 0; i < note_count; i++)
        if (note_is(&notes[i], kind, name, detail))
            return &notes[i];
    if (note_count == NOTES_MAX)
        return NULL;
    struct note *note = &notes[note_count++];
    *note = (struct note){.kind = kind};
    snprintf(note->name, sizeof note->name, "%s", name);
    snprintf(note->detail, sizeof note->detail, "%s", detail);
    return note;
}

void explain_note(const char *kind, const char *name, const char *detail) {
    if (!shim_records() || shim_rank() != 0)
        return;
    pthread_mutex_lock(&mutex);
    struct note *note = note_find(kind, name, detail);
    if (note)
        note->count++;
    pthread_mutex_unlock(&mutex);
}

/* Has it not been met yet? The mutex is held. */
static bool object_is_new(const void *object) {
    for (int i = 0; i < object_count; i++)
        if (objects[i] == object)
            return false;
    if (object_count == OBJECTS_MAX)
        return false;
    objects[object_count++] = object;
    return true;
}

void explain_object(const char *kind, const void *object, const char *name, const char *detail) {
    if (!shim_records() || shim_rank() != 0)
        return;
    pthread_mutex_lock(&mutex);
    bool is_new = object_is_new(object);
    pthread_mutex_unlock(&mutex);
    if (is_new)
        explain_note(kind, name, detail);
}

/* ---- loops: backward passes, or batches that meet a layer where gradients are off, until the other kind comes */

static struct {
    bool evaluates;
    uint64_t first_layer, rounds;
} loop;

/* The loop is over. The mutex is held. */
static void loop_note(void) {
    char detail[64];
    if (!loop.rounds)
        return;
    const char *unit = loop.evaluates ? "batch" : "backward pass", *plural = loop.rounds == 1 ? "" : "es";
    snprintf(detail, sizeof detail, "%llu %s%s%s", (unsigned long long)loop.rounds, unit, plural,
             loop.evaluates ? " without gradients" : "");
    struct note *note = note_find("loop", loop.evaluates ? "evaluation" : "training", detail);
    if (note)
        note->count++;
    loop.rounds = 0;
}

/* A batch is known by the layer that the loop's first one has met first; 0 in training. */
static void loop_turn(bool evaluates, uint64_t layer) {
    pthread_mutex_lock(&mutex);
    if (loop.evaluates != evaluates) {
        loop_note();
        loop.evaluates = evaluates;
        loop.first_layer = layer;
    }
    loop.rounds += layer == loop.first_layer;
    pthread_mutex_unlock(&mutex);
}

void explain_evaluates(uint64_t layer) {
    if (shim_records() && shim_rank() == 0)
        loop_turn(true, layer);
}

uint64_t explain_steps(void) {
    return steps;
}

void explain_reset(void) {
    note_count = 0;
    object_count = 0;
    memset(&loop, 0, sizeof loop);
    steps = 0;
}

void explain_send(const char *kind, const char *why) {
    char line[NAME_CHARS + DETAIL_CHARS + 64];
    if (!shim_records() || shim_rank() != 0)
        return;
    pthread_mutex_lock(&mutex);
    loop_note();
    for (int i = 0; i < note_count; i++) {
        snprintf(line, sizeof line, "%s\t%llu\t%s\t%s", notes[i].kind, (unsigned long long)notes[i].count, notes[i].name, notes[i].detail);
        link_report(line);
    }
    note_count = 0;
    snprintf(line, sizeof line, "%s\t%llu\t\t%s", kind, (unsigned long long)steps, why);
    link_report(line);
    pthread_mutex_unlock(&mutex);
}

void explain_end(const char *why) {
    if (!shim_records())
        return;
    explain_python();
    explain_send(EXPLAIN_END, why);
    link_wait_for_end();
}

void explain_step(void) {
    if (!shim_records())
        return;
    explain_python();
    if (steps == shim_record_steps())
        explain_end("the steps are made");
    loop_turn(false, 0);
    steps++;
}
