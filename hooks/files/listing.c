/*
 * Rows of listings: what a folder holds. On another host than the first it is what the first host's folder holds, and where rank 0 has other names for the
 * program's files it is what this rank has made (entries.c): libc's stream stands for a list that was made when it was opened.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entries.h"

struct listing {
    struct listing *older;
    _Atomic(void *) stream; /* libc's; NULL: free */
    struct entries entries;
    size_t next;
    struct alias_folder *folder; /* owned: this host's, to be read again when the stream begins again; NULL: the first host's */
    struct dirent current;
};

static struct listing *_Atomic youngest; /* used again, never freed */
static _Atomic uint32_t shown;
static char taken; /* a stream that is none: the entry is being made */

static struct listing *find(void *stream) {
    if (__builtin_expect(!atomic_load_explicit(&shown, memory_order_relaxed), 1) || !stream)
        return NULL;
    struct listing *listing = atomic_load(&youngest);
    while (listing && atomic_load(&listing->stream) != stream)
        listing = listing->older;
    return listing;
}

static void drop(struct listing *listing) {
    entries_drop(&listing->entries);
    free(listing->folder);
    listing->folder = NULL;
    atomic_store(&listing->stream, NULL);
    atomic_fetch_sub(&shown, 1);
}

/* NULL: no memory. */
static struct listing *make_free(void) {
    struct listing *listing = calloc(1, sizeof *listing);
    if (!listing)
        return NULL;
    atomic_store(&listing->stream, (void *)&taken);
    listing->older = atomic_load(&youngest);
    while (!atomic_compare_exchange_weak(&youngest, &listing->older, listing)) {
    }
    return listing;
}

static struct listing *take_free(void) {
    struct listing *listing = atomic_load(&youngest);
    for (void *none = NULL; listing; listing = listing->older, none = NULL)
        if (atomic_compare_exchange_strong(&listing->stream, &none, (void *)&taken))
            break;
    listing = listing ? listing : make_free();
    if (!listing)
        return NULL;
    listing->next = 0;
    atomic_fetch_add(&shown, 1);
    return listing;
}

static uint64_t count_entries(const char *data, uint32_t bytes) {
    uint64_t count = 0;
    for (uint32_t at = 0; at < bytes; count++)
        at += (uint32_t)(sizeof(struct protocol_entry) + strlen(data + at + sizeof(struct protocol_entry)) + 1);
    return count;
}

/* The first host's. Returns 0 or an errno. */
static int fetch(struct entries *entries, const char *path) {
    struct alias_folder folder;
    uint64_t count = 0;
    for (;;) {
        const char *data;
        uint32_t bytes;
        int error = first_host_fetch(PROTOCOL_LOOK_LIST, path, count, NULL, &data, &bytes);
        if (error)
            return error;
        if (!bytes)
            break;
        if (!entries_add(entries, data, bytes))
            return ENOMEM;
        count += count_entries(data, bytes);
    }
    return !alias_is_in_folder(AT_FDCWD, path, &folder) || entries_spell(entries, &folder) ? 0 : ENOMEM;
}

/* This host's, from the stream, which begins again then. False: no memory. */
static bool read_all(struct listing *listing, void *stream) {
    struct dirent *entry;
    int saved_errno = errno;
    bool is_added = true;
    while (is_added && (entry = ORIGINAL(readdir)(stream))) {
        struct protocol_entry told = {entry->d_ino, entry->d_type};
        is_added = entries_add(&listing->entries, (const char *)&told, sizeof told) &&
                   entries_add(&listing->entries, entry->d_name, strlen(entry->d_name) + 1);
    }
    ORIGINAL(rewinddir)(stream);
    errno = saved_errno;
    return is_added && entries_spell(&listing->entries, listing->folder);
}

/* To libc's stream of a folder in which this rank has names of its own belongs a list of them from now on. Without memory for it the names stay rank 0's. */
static void *list_own_names(const struct alias_folder *folder, void *stream) {
    struct listing *listing = stream ? take_free() : NULL;
    if (!listing)
        return stream;
    listing->folder = malloc(sizeof *folder);
    if (listing->folder)
        *listing->folder = *folder;
    if (listing->folder && read_all(listing, stream))
        atomic_store(&listing->stream, stream);
    else
        drop(listing);
    return stream;
}

/* libc's stream of the descriptor, to which the list of the first host's folder belongs from now on. NULL with errno. */
static void *open_list(const char *absolute, int descriptor) {
    struct listing *listing = take_free();
    int error = listing ? fetch(&listing->entries, absolute) : ENOMEM;
    void *stream = error ? NULL : ORIGINAL(fdopendir)(descriptor);
    error = error ? error : errno;
    if (stream)
        atomic_store(&listing->stream, stream);
    else if (listing)
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
        away_stat_disk(alias_of(file->path, buffer), AT_SYMLINK_NOFOLLOW, &now))
        meeting_await_name(written_in_meeting(file));
}

void listing_settle(void) {
    if (!atomic_load_explicit(&written_views, memory_order_relaxed) || files_place() < FILES_MEET)
        return;
    SHIM_FILES_ASIDE;
    written_each(settle_names, NULL);
}

/* What is open is there already, or need not be. */
static void *open_folder(const char *path) {
    char buffer[PATH_MAX], absolute[PATH_MAX];
    struct alias_folder folder;
    bool has_own_names = alias_is_in_folder(AT_FDCWD, path, &folder);
    path = view(AT_FDCWD, path, buffer);
    if (!away_applies(AT_FDCWD, path, absolute))
        return has_own_names ? list_own_names(&folder, ORIGINAL(opendir)(path)) : ORIGINAL(opendir)(path);
    int descriptor = away_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    void *stream = descriptor < 0 ? NULL : open_list(absolute, descriptor);
    if (descriptor >= 0 && !stream) {
        int saved_errno = errno;
        close(descriptor);
        errno = saved_errno;
    }
    return stream;
}

void *hook_opendir(const char *path) {
    listing_settle();
    return open_folder(path);
}

void *hook_fdopendir(int descriptor) {
    char path[PATH_MAX], absolute[PATH_MAX];
    struct alias_folder folder;
    listing_settle();
    bool may_be_seen = atomic_load_explicit(&away_asks, memory_order_relaxed) || alias_is_known();
    if (!may_be_seen || !files_path_of(descriptor, path))
        return ORIGINAL(fdopendir)(descriptor);
    if (away_applies(AT_FDCWD, path, absolute))
        return open_list(absolute, descriptor);
    void *stream = ORIGINAL(fdopendir)(descriptor);
    return alias_is_in_folder(AT_FDCWD, path, &folder) ? list_own_names(&folder, stream) : stream;
}

static struct dirent *read_folder(void *stream) {
    struct dirent *entry;
    while ((entry = ORIGINAL(readdir)(stream)) && entries_is_hidden(entry->d_name)) {
    }
    return entry;
}

static struct dirent *read_list(struct listing *listing) {
    if (listing->next >= listing->entries.bytes)
        return NULL;
    struct protocol_entry entry;
    memcpy(&entry, listing->entries.data + listing->next, sizeof entry);
    const char *name = listing->entries.data + listing->next + sizeof entry;
    listing->next += sizeof entry + strlen(name) + 1;
    listing->current.d_ino = entry.inode;
    listing->current.d_off = (off_t)listing->next;
    listing->current.d_reclen = sizeof listing->current;
    listing->current.d_type = entry.type;
    snprintf(listing->current.d_name, sizeof listing->current.d_name, "%s", name);
    return entries_is_hidden(name) ? read_list(listing) : &listing->current;
}

void *hook_readdir(void *stream) {
    struct listing *listing = find(stream);
    return listing ? read_list(listing) : read_folder(stream);
}

void *hook_readdir64(void *stream) {
    return hook_readdir(stream);
}

int hook_readdir_r(void *stream, void *entry, void **found) {
    struct listing *listing = find(stream);
    if (!listing)
        return ORIGINAL(readdir_r)(stream, entry, found);
    struct dirent *next = read_list(listing);
    *found = next ? memcpy(entry, next, sizeof *next) : NULL;
    return 0;
}

int hook_readdir64_r(void *stream, void *entry, void **found) {
    return hook_readdir_r(stream, entry, found);
}

long hook_telldir(void *stream) {
    struct listing *listing = find(stream);
    return listing ? (long)listing->next : ORIGINAL(telldir)(stream);
}

void hook_seekdir(void *stream, long place) {
    struct listing *listing = find(stream);
    if (listing)
        listing->next = (size_t)place;
    else
        ORIGINAL(seekdir)(stream, place);
}

void hook_rewinddir(void *stream) {
    struct listing *listing = find(stream);
    ORIGINAL(rewinddir)(stream);
    if (!listing)
        return;
    listing->next = 0;
    if (listing->folder) {
        entries_drop(&listing->entries);
        read_all(listing, stream);
    }
}

int hook_closedir(void *stream) {
    struct listing *listing = find(stream);
    if (listing)
        drop(listing);
    return ORIGINAL(closedir)(stream);
}

/* ---- other names that this rank is shown (links.c) */

bool listing_shows(const char *folder, const char *own, const char *rank_0s) {
    const struct dirent *entry;
    bool has_own = false, has_rank_0s = false;
    void *stream = open_folder(folder);
    while (stream && !has_own && (entry = hook_readdir(stream))) {
        has_own = !strcmp(entry->d_name, own);
        has_rank_0s |= !strcmp(entry->d_name, rank_0s);
    }
    if (stream)
        hook_closedir(stream);
    return has_own || !has_rank_0s;
}
