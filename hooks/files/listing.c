/*
 * Rows of listings: what a folder holds. On another host than the first it is what the first host's folder holds: libc's stream stands for a list that was
 * asked for when it was opened.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

enum { LISTINGS = 64 };

struct listing {
    _Atomic(void *) stream; /* libc's; NULL: free */
    char *entries;          /* owned: struct protocol_entry, name, zero, ... */
    size_t bytes, next;
    struct dirent current;
};

static struct listing listings[LISTINGS];
static _Atomic uint32_t shown;
static char taken; /* a stream that is none: the entry is being made */

static struct listing *find(void *stream) {
    if (__builtin_expect(!atomic_load_explicit(&shown, memory_order_relaxed), 1) || !stream)
        return NULL;
    for (int i = 0; i < LISTINGS; i++)
        if (atomic_load(&listings[i].stream) == stream)
            return &listings[i];
    return NULL;
}

static void drop(struct listing *listing) {
    free(listing->entries);
    listing->entries = NULL;
    atomic_store(&listing->stream, NULL);
    atomic_fetch_sub(&shown, 1);
}

static struct listing *take_free(const char *path) {
    for (int i = 0; i < LISTINGS; i++) {
        void *none = NULL;
        if (!atomic_compare_exchange_strong(&listings[i].stream, &none, (void *)&taken))
            continue;
        listings[i].bytes = listings[i].next = 0;
        atomic_fetch_add(&shown, 1);
        return &listings[i];
    }
    shim_problem("AR-FILE-HOSTS", "Close folders that are not read any more, or start the job in a folder that all hosts share.",
                 "the program has %d folders open, and now '%s': no more can be listed as host 0 (%s) has them", LISTINGS, path,
                 first_host_name());
}

static uint64_t count_entries(const char *data, uint32_t bytes) {
    uint64_t count = 0;
    for (uint32_t at = 0; at < bytes; count++)
        at += (uint32_t)(sizeof(struct protocol_entry) + strlen(data + at + sizeof(struct protocol_entry)) + 1);
    return count;
}

/* Returns 0 or an errno. */
static int fetch(struct listing *listing, const char *path) {
    uint64_t count = 0;
    for (;;) {
        const char *data;
        uint32_t bytes;
        int error = first_host_fetch(PROTOCOL_LOOK_LIST, path, count, NULL, &data, &bytes);
        if (error || !bytes)
            return error;
        char *more = realloc(listing->entries, listing->bytes + bytes);
        if (!more)
            return ENOMEM;
        memcpy(more + listing->bytes, data, bytes);
        listing->entries = more;
        listing->bytes += bytes;
        count += count_entries(data, bytes);
    }
}

/* libc's stream of the descriptor, to which the list of the first host's folder belongs from now on. NULL with errno. */
static void *open_list(const char *absolute, int descriptor) {
    struct listing *listing = take_free(absolute);
    int error = fetch(listing, absolute);
    void *stream = error ? NULL : ORIGINAL(fdopendir)(descriptor);
    error = error ? error : errno;
    if (stream)
        atomic_store(&listing->stream, stream);
    else
        drop(listing);
    errno = error;
    return stream;
}

/* ---- rows */

/* A new file's name is there from its opening on: rank 0 puts it there now, the others wait for that. */
static void settle_names(struct written *file, const void *unused) {
    char buffer[PATH_MAX];
    struct stat now;
    (void)unused;
    written_publish(file);
    if (file->is_own && file->is_whole && file->number && file->path[0] && meeting_is_here() &&
        away_stat_disk(view_alias(file->path, buffer), AT_SYMLINK_NOFOLLOW, &now))
        meeting_await_name(written_in_meeting(file));
}

static void settle(void) {
    if (!atomic_load_explicit(&written_views, memory_order_relaxed) || files_place() < FILES_MEET)
        return;
    SHIM_FILES_ASIDE;
    written_each(settle_names, NULL);
}

void *hook_opendir(const char *path) {
    char buffer[PATH_MAX], absolute[PATH_MAX];
    path = view(AT_FDCWD, path, buffer);
    settle();
    if (!away_applies(AT_FDCWD, path, absolute))
        return ORIGINAL(opendir)(path);
    int descriptor = away_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    void *stream = descriptor < 0 ? NULL : open_list(absolute, descriptor);
    if (descriptor >= 0 && !stream) {
        int saved_errno = errno;
        close(descriptor);
        errno = saved_errno;
    }
    return stream;
}

void *hook_fdopendir(int descriptor) {
    char path[PATH_MAX], absolute[PATH_MAX];
    settle();
    bool may_be_away = atomic_load_explicit(&away_asks, memory_order_relaxed) && files_path_of(descriptor, path);
    if (!may_be_away || !away_applies(AT_FDCWD, path, absolute))
        return ORIGINAL(fdopendir)(descriptor);
    return open_list(absolute, descriptor);
}

/* A whole file that rank 0 is writing beside its place is nothing to the program: it would stand in one rank's listing, and not in another's. */
static bool is_hidden(const char *name) {
    int32_t ranks[BOARD_RANKS_MAX];
    if (!strstr(name, ".accel-") || files_place() < FILES_MEET)
        return false;
    shim_processes(ranks);
    return replace_is_temporary(name, ranks, shim_world_size());
}

static struct dirent *read_folder(void *stream) {
    struct dirent *entry;
    while ((entry = ORIGINAL(readdir)(stream)) && is_hidden(entry->d_name)) {
    }
    return entry;
}

static struct dirent *read_list(struct listing *listing) {
    if (listing->next >= listing->bytes)
        return NULL;
    struct protocol_entry entry;
    memcpy(&entry, listing->entries + listing->next, sizeof entry);
    const char *name = listing->entries + listing->next + sizeof entry;
    listing->next += sizeof entry + strlen(name) + 1;
    listing->current.d_ino = entry.inode;
    listing->current.d_off = (off_t)listing->next;
    listing->current.d_reclen = sizeof listing->current;
    listing->current.d_type = entry.type;
    snprintf(listing->current.d_name, sizeof listing->current.d_name, "%s", name);
    return is_hidden(name) ? read_list(listing) : &listing->current;
}

void *hook_readdir(void *stream) {
    struct listing *listing = find(stream);
    return listing ? read_list(listing) : read_folder(stream);
}

void *hook_readdir64(void *stream) {
    return hook_readdir(stream);
}

void hook_rewinddir(void *stream) {
    struct listing *listing = find(stream);
    if (listing)
        listing->next = 0;
    ORIGINAL(rewinddir)(stream);
}

int hook_closedir(void *stream) {
    struct listing *listing = find(stream);
    if (listing)
        drop(listing);
    return ORIGINAL(closedir)(stream);
}

/* ---- listings within libc: what is open is there before; of another host's folder they see this host's */

/* As rank 0 spells it, from where the program stands if it was so. */
static const char *spelled(const char *path, char *buffer) {
    char here[PATH_MAX];
    int saved_errno = errno;
    const char *found = view_spelled(AT_FDCWD, path, buffer);
    const char *below = found != path && *path != '/' && getcwd(here, sizeof here) ? files_below(found, here) : NULL;
    errno = saved_errno;
    return below ? below : found;
}

#define LISTED(row, type, parameters, arguments)                                                                                           \
    type hook_##row parameters {                                                                                                           \
        char buffer[PATH_MAX];                                                                                                             \
        settle();                                                                                                                          \
        path = spelled(path, buffer);                                                                                                      \
        return ORIGINAL(row) arguments;                                                                                                    \
    }

LISTED(glob, int, (const char *path, int flags, void *on_error, void *found), (path, flags, on_error, found))
LISTED(glob64, int, (const char *path, int flags, void *on_error, void *found), (path, flags, on_error, found))
LISTED(scandir, int, (const char *path, void *names, void *wanted, void *order), (path, names, wanted, order))
LISTED(scandir64, int, (const char *path, void *names, void *wanted, void *order), (path, names, wanted, order))
LISTED(ftw, int, (const char *path, void *visit, int descriptors), (path, visit, descriptors))
LISTED(ftw64, int, (const char *path, void *visit, int descriptors), (path, visit, descriptors))
LISTED(nftw, int, (const char *path, void *visit, int descriptors, int flags), (path, visit, descriptors, flags))
LISTED(nftw64, int, (const char *path, void *visit, int descriptors, int flags), (path, visit, descriptors, flags))

/* fts keeps no pointer to the names that it is given. */
static void *open_tree(void *(*open)(char *const *, int, void *), char *const *paths, int options, void *order) {
    enum { NAMES = 64 };
    const char *names[NAMES + 1];
    size_t count = 0;
    while (paths && paths[count])
        count++;
    char(*buffers)[PATH_MAX] = count && count <= NAMES ? malloc(count * sizeof *buffers) : NULL;
    settle();
    if (!buffers)
        return open(paths, options, order);
    for (size_t i = 0; i < count; i++)
        names[i] = spelled(paths[i], buffers[i]);
    names[count] = NULL;
    void *tree = open((char *const *)names, options, order);
    int saved_errno = errno;
    free(buffers);
    errno = saved_errno;
    return tree;
}

void *hook_fts_open(char *const *paths, int options, void *order) {
    return open_tree(ORIGINAL(fts_open), paths, options, order);
}

void *hook_fts64_open(char *const *paths, int options, void *order) {
    return open_tree(ORIGINAL(fts64_open), paths, options, order);
}
