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
    struct alias_folder *folder; /* owned: this host's, to be read again when the stream begins again; NULL: the first host's, */
    char *first_hosts;           /* owned: whose path this is */
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
    free(listing->first_hosts);
    listing->folder = NULL;
    listing->first_hosts = NULL;
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

/* This host's, from the stream, which begins again then. False: no memory, or it cannot be read to its end. */
static bool read_all(struct entries *entries, void *stream) {
    struct dirent *entry;
    bool is_added = true;
    for (errno = 0; is_added && (entry = ORIGINAL(readdir)(stream)); errno = 0) {
        struct protocol_entry told = {entry->d_ino, entry->d_type};
        is_added = entries_add(entries, (const char *)&told, sizeof told) && entries_add(entries, entry->d_name, strlen(entry->d_name) + 1);
    }
    bool is_all = is_added && !errno;
    ORIGINAL(rewinddir)(stream);
    return is_all;
}

static bool read_own_names(struct listing *listing, const struct alias_folder *folder, void *stream) {
    listing->folder = malloc(sizeof *folder);
    if (!listing->folder)
        return false;
    *listing->folder = *folder;
    return read_all(&listing->entries, stream) && entries_spell(&listing->entries, folder);
}

/* To libc's stream of a folder in which this rank has names of its own belongs a list of them from now on. Where there can be none the names stay rank 0's. */
static void *list_own_names(const struct alias_folder *folder, void *stream) {
    int saved_errno = errno;
    struct listing *listing = stream ? take_free() : NULL;
    if (listing && read_own_names(listing, folder, stream))
        atomic_store(&listing->stream, stream);
    else if (listing)
        drop(listing);
    errno = saved_errno;
    return stream;
}

/* The same, if it has any. */
FILES_DEEP static void *list_with_own_names(int descriptor, void *stream) {
    char path[PATH_MAX];
    struct alias_folder folder;
    bool has_own_names = files_path_of(descriptor, path) && alias_is_in_folder(descriptor, ".", &folder);
    return has_own_names ? list_own_names(&folder, stream) : stream;
}

static void *list_if_own_names(int descriptor, void *stream) {
    return stream && alias_is_known() ? list_with_own_names(descriptor, stream) : stream;
}

/* libc's stream of the descriptor, to which the list of the first host's folder belongs from now on. NULL with errno. */
static void *open_list(const char *absolute, int descriptor) {
    struct listing *listing = take_free();
    if (listing)
        listing->first_hosts = strdup(absolute);
    int error = listing && listing->first_hosts ? fetch(&listing->entries, absolute) : ENOMEM;
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
FILES_DEEP static void settle_names(struct written *file, const void *unused) {
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
FILES_DEEP static void *open_of_rank(const char *path) {
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

static void *open_folder(const char *path) {
    bool is_plain = !alias_is_known() && !view_may_differ(AT_FDCWD, path) && !files_asks_away();
    return is_plain ? ORIGINAL(opendir)(path) : open_of_rank(path);
}

void *hook_opendir(const char *path) {
    listing_settle();
    return open_folder(path);
}

/* absolute[PATH_MAX] */
FILES_DEEP static bool is_folder_away(int descriptor, char *absolute) {
    char path[PATH_MAX];
    return files_path_of(descriptor, path) && away_applies(AT_FDCWD, path, absolute);
}

void *hook_fdopendir(int descriptor) {
    listing_settle();
    char *absolute = files_asks_away() ? FILES_ROOM : NULL;
    if (absolute && is_folder_away(descriptor, absolute))
        return open_list(absolute, descriptor);
    return list_if_own_names(descriptor, ORIGINAL(fdopendir)(descriptor));
}

/* libc's. */
static struct dirent *read_stream(void *stream) {
    struct dirent *entry;
    while ((entry = ORIGINAL(readdir)(stream)) && entries_is_hidden(entry->d_name)) {
    }
    return entry;
}

static size_t bytes_of(const char *name) {
    return offsetof(struct dirent, d_name) + strlen(name) + 1;
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
    listing->current.d_reclen = (unsigned short)((bytes_of(name) + 7) & ~(size_t)7);
    listing->current.d_type = entry.type;
    snprintf(listing->current.d_name, sizeof listing->current.d_name, "%s", name);
    return entries_is_hidden(name) ? read_list(listing) : &listing->current;
}

void *hook_readdir(void *stream) {
    struct listing *listing = find(stream);
    return listing ? read_list(listing) : read_stream(stream);
}

void *hook_readdir64(void *stream) {
    return hook_readdir(stream);
}

static int read_stream_into(void *stream, struct dirent *entry, void **found) {
    int error;
    while (!(error = ORIGINAL(readdir_r)(stream, entry, found)) && *found && entries_is_hidden(entry->d_name)) {
    }
    return error;
}

/* entry: with room for the longest name, not for what follows one in struct dirent. */
int hook_readdir_r(void *stream, void *entry, void **found) {
    struct listing *listing = find(stream);
    if (!listing)
        return read_stream_into(stream, entry, found);
    struct dirent *next = read_list(listing);
    if (next)
        next->d_reclen = (unsigned short)bytes_of(next->d_name);
    *found = next ? memcpy(entry, next, next->d_reclen) : NULL;
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

/* Where the first host does not say what is there now the list stays: the function cannot fail. */
static void fetch_again(struct listing *listing) {
    struct entries entries = {0};
    int saved_errno = errno;
    if (fetch(&entries, listing->first_hosts)) {
        entries_drop(&entries);
    } else {
        entries_drop(&listing->entries);
        listing->entries = entries;
    }
    listing->next = 0;
    errno = saved_errno;
}

FILES_DEEP static void list_again(struct listing *listing, void *stream) {
    struct alias_folder folder = *listing->folder;
    drop(listing);
    list_own_names(&folder, stream);
}

void hook_rewinddir(void *stream) {
    listing_settle();
    struct listing *listing = find(stream);
    ORIGINAL(rewinddir)(stream);
    if (!listing) { /* the program may have made names there since */
        list_if_own_names(dirfd(stream), stream);
    } else if (listing->folder) {
        list_again(listing, stream);
    } else {
        fetch_again(listing);
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
