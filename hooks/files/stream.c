/* Rows of streams: libc's fopen() and freopen() open by themselves, unseen. A stream is known to its file, until its descriptor is closed (written.c). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

static int flags_of_mode(const char *mode) {
    int flags = mode[0] == 'r' ? 0 : mode[0] == 'w' ? O_CREAT | O_TRUNC : mode[0] == 'a' ? O_CREAT | O_APPEND : -1;
    if (flags < 0)
        return O_RDONLY;
    flags |= strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    return flags | (strchr(mode, 'e') ? O_CLOEXEC : 0) | (strchr(mode, 'x') ? O_EXCL : 0);
}

/* The mode without what only an opening means. again: 64 bytes. first: the mode's letter. */
static void mode_again(char *again, char first, const char *mode, bool updates) {
    const char *code = strstr(mode, ",ccs=");
    snprintf(again, 64, "%c%s%s%s", first, updates ? "+" : "", strchr(mode, 'e') ? "e" : "", code ? code : "");
}

/* Takes the descriptor. What fopen() does beyond fdopen(): a stream that only adds stands at the end (tellp() == 0 asks whether a table needs its heading), and
   wide text may have a code of its own ("w,ccs=UTF-8"), which libc sets up where it opens. */
static FILE *stream_of(int descriptor, const char *mode) {
    char again[64];
    FILE *stream = fdopen(descriptor, mode);
    mode_again(again, mode[0], mode, strchr(mode, '+'));
    if (!stream)
        close(descriptor);
    else if (strstr(mode, ",ccs="))
        stream = ORIGINAL(freopen)(NULL, again, stream);
    else if (mode[0] == 'a' && !strchr(mode, '+'))
        fseek(stream, 0, SEEK_END);
    return stream;
}

void *hook_fdopen(int descriptor, const char *mode) {
    void *stream = ORIGINAL(fdopen)(descriptor, mode);
    struct written *file = stream ? written_find(descriptor) : NULL;
    if (file) {
        file->stream_at = descriptor;
        atomic_store(&file->stream, stream);
    }
    return stream;
}

void *hook_fopen(const char *path, const char *mode) {
    int flags = mode ? flags_of_mode(mode) : O_RDONLY;
    int descriptor = mode ? seed_open_device(path, flags) : -1;
    if (descriptor < 0)
        descriptor = open_written(AT_FDCWD, path, flags, 0666);
    if (descriptor == OPEN_PASS) {
        path = VIEW(AT_FDCWD, path);
        descriptor = away_open(AT_FDCWD, path, flags);
    }
    if (descriptor == OPEN_PASS)
        return ORIGINAL(fopen)(path, mode);
    return descriptor < 0 ? NULL : stream_of(descriptor, mode);
}

void *hook_fopen64(const char *path, const char *mode) {
    return hook_fopen(path, mode);
}

/* A stream that gets another file, stdout mostly: never a temporary one. */
void *hook_freopen(const char *path, const char *mode, void *stream) {
    char link[64], again[64];
    int flags = path && mode ? flags_of_mode(mode) : O_RDONLY;
    if (written_find(fileno(stream))) {
        fflush(stream);
        open_end(fileno(stream));
    }
    bool reads = (flags & O_ACCMODE) == O_RDONLY;
    int descriptor = open_written(AT_FDCWD, path, flags, 0666);
    if (descriptor == OPEN_PASS && path && reads) {
        path = VIEW(AT_FDCWD, path);
        descriptor = away_open(AT_FDCWD, path, flags);
    }
    if (descriptor == OPEN_PASS)
        return ORIGINAL(freopen)(path, mode, stream);
    if (descriptor < 0) { /* libc closes the stream then; what it opens exists, so that nothing is made */
        int saved_errno = errno;
        hook_fclose(stream);
        errno = saved_errno;
        return NULL;
    }
    struct written *file = written_find(descriptor);
    if (file)
        written_publish(file);
    bool adds = mode[0] == 'a'; /* for reading, too, it would stand at the begin */
    mode_again(again, mode[0] == 'w' ? 'r' : mode[0], mode, adds ? strchr(mode, '+') != NULL : !reads);
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    SHIM_FILES_ASIDE;
    FILE *opened = ORIGINAL(freopen)(link, again, stream);
    int saved_errno = errno;
    if (file && opened)
        written_add_twin(file, fileno(opened));
    if (file && !written_leaves(file, descriptor))
        written_drop(file);
    close(descriptor);
    errno = saved_errno;
    return opened;
}

void *hook_freopen64(const char *path, const char *mode, void *stream) {
    return hook_freopen(path, mode, stream);
}

/* ---- the end */

/* Not by fflush(NULL), nor without a look: a thread that waits for input, or writes into a pipe that nobody reads, has the stream for as long. */
static void write_out(struct written *file, const void *unused) {
    (void)unused;
    atomic_fetch_add(&file->publishers, 1);
    FILE *stream = atomic_load(&file->is_temporary) ? atomic_load(&file->stream) : NULL;
    if (stream && !ftrylockfile(stream)) {
        fflush_unlocked(stream);
        funlockfile(stream);
    }
    atomic_fetch_sub(&file->publishers, 1);
}

void stream_write_all_out(void) {
    written_each(write_out, NULL);
}
