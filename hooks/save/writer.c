/*
 * Rows of libtorch's file writer. Python's torch.save(value, "file") makes one, writes records to it and ends it: three calls from
 * libtorch_python, which frame a save as archive.c's scopes do. Writers within such a scope are the program's save already. Writers to
 * Python's file objects write on all ranks, to files as hooks/files opens them.
 */
#include "save.h"

#include <pthread.h>
#include <stdlib.h>

/* The saves that Python has begun: a list, since a program may hold several open. write_record lets go of Python's interpreter lock (since 2.4), so two
   threads that save at once are here at once. */
struct pending {
    void *writer;
    struct save save;
    struct pending *next;
};

static struct pending *pendings;
static pthread_mutex_t pendings_mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void writer_start(void) {
    threads_renew_in_child(&pendings_mutex);
}

/* NULL: not a save of ours. What is found is the caller's writer's, and lives until the caller ends it. */
static struct pending *pending_find(void *writer) {
    pthread_mutex_lock(&pendings_mutex);
    struct pending *pending = pendings;
    while (pending && pending->writer != writer)
        pending = pending->next;
    pthread_mutex_unlock(&pendings_mutex);
    return pending;
}

static void pending_end(struct pending *pending) {
    pthread_mutex_lock(&pendings_mutex);
    struct pending **link = &pendings;
    while (*link && *link != pending)
        link = &(*link)->next;
    if (*link)
        *link = pending->next;
    pthread_mutex_unlock(&pendings_mutex);
    save_abandon(&pending->save);
    free(pending);
}

/* ---- constructors */

/* NULL: not a save of ours. Ended by leave_constructor when the constructor throws. */
static struct pending *enter_constructor(void *writer, void *path) {
    if (!shim_training_begins() || save_current)
        return NULL;
    struct pending *pending = calloc(1, sizeof *pending);
    if (!pending)
        shim_problem("AR-MEMORY", "Run on a machine with more memory, or with fewer ranks.", "no memory to save %s", save_text(path));
    save_begin(&pending->save, save_text(path));
    save_current = &pending->save;
    return pending;
}

static void leave_constructor(struct pending **pending) {
    if (!*pending)
        return;
    save_current = NULL;
    if (!(*pending)->writer)
        pending_end(*pending);
}

static void pending_add(struct pending *pending, void *writer) {
    if (!pending)
        return;
    pending->writer = writer;
    pthread_mutex_lock(&pendings_mutex);
    pending->next = pendings;
    pendings = pending;
    pthread_mutex_unlock(&pendings_mutex);
}

#define CONSTRUCTOR_SCOPE                                                                                                                  \
    struct pending *pending __attribute__((cleanup(leave_constructor))) = enter_constructor(writer, path);                                 \
    SHIM_FILES_ASIDE
#define OPENED (pending ? &pending->save.opened : path)

void hook_writer_1(void *writer, void *path) {
    CONSTRUCTOR_SCOPE;
    ORIGINAL(writer_1)(writer, OPENED);
    pending_add(pending, writer);
}

void hook_writer_2(void *writer, void *path, char checksums) {
    CONSTRUCTOR_SCOPE;
    ORIGINAL(writer_2)(writer, OPENED, checksums);
    pending_add(pending, writer);
}

void hook_writer_3(void *writer, void *path, char checksums, uint64_t alignment) {
    CONSTRUCTOR_SCOPE;
    ORIGINAL(writer_3)(writer, OPENED, checksums, alignment);
    pending_add(pending, writer);
}

void hook_writer_old_1(void *writer, void *path) {
    CONSTRUCTOR_SCOPE;
    ORIGINAL(writer_old_1)(writer, OPENED);
    pending_add(pending, writer);
}

void hook_writer_old_2(void *writer, void *path) {
    CONSTRUCTOR_SCOPE;
    ORIGINAL(writer_old_2)(writer, OPENED);
    pending_add(pending, writer);
}

void hook_writer_old_3(void *writer, void *path, char checksums) {
    CONSTRUCTOR_SCOPE;
    ORIGINAL(writer_old_3)(writer, OPENED, checksums);
    pending_add(pending, writer);
}

/* ---- the file is opened: inside the constructor, by a call into another library, which is seen in a libtorch that is bound to itself, too */

void *hook_writer_file(void *buffer, const char *path, int mode) {
    char link[REPLACE_LINK_BYTES];
    struct save *save = save_current;
    if (save && save->way == SAVE_REPLACE && !strcmp(path, save->opened.text))
        path = replace_path(&save->file, link);
    return ORIGINAL(writer_file)(buffer, path, mode);
}

/* ---- records and the end */

/* A record that could not be written has thrown, and Python still ends the file: then it must not replace the old one. */
static void note_failure(struct pending **pending) {
    if (*pending)
        (*pending)->save.has_failed = true;
}

void hook_writer_record(void *writer, void *name, void *data, size_t size, char compress) {
    __attribute__((cleanup(note_failure))) struct pending *pending = pending_find(writer);
    ORIGINAL(writer_record)(writer, name, data, size, compress);
    pending = NULL;
}

void hook_writer_record_old(void *writer, void *name, void *data, size_t size, char compress) {
    __attribute__((cleanup(note_failure))) struct pending *pending = pending_find(writer);
    ORIGINAL(writer_record_old)(writer, name, data, size, compress);
    pending = NULL;
}

static void leave_end(struct pending **pending) {
    pending_end(*pending);
}

void hook_writer_end(void *writer) {
    struct pending *found = pending_find(writer);
    if (!found) {
        ORIGINAL(writer_end)(writer);
        return;
    }
    __attribute__((cleanup(leave_end))) struct pending *pending = found;
    ORIGINAL(writer_end)(writer);
    save_finish(&pending->save);
}

/* A writer that was never ended: its destructor ends the file, by a call that is seen or (-Bsymbolic) not. What cannot be written then ends the program
   (std::terminate), with or without us: destructors throw nothing that could be caught. */
void hook_writer_delete(void *writer) {
    ORIGINAL(writer_delete)(writer);
    struct pending *found = pending_find(writer);
    if (!found)
        return;
    __attribute__((cleanup(leave_end))) struct pending *pending = found;
    save_finish(&pending->save);
}
