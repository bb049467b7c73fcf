/*
 * Rows of what lists folders within libc, unseen. glob() and scandir() are given the listings of listing.c. ftw(), nftw() and fts list as libc does: what is
 * open is there before, a folder is called as rank 0 calls it, and so is what is in it; of another host's folder they see this host's.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "entries.h"

/* May there be anything that libc would not see? */
static bool shows_more(void) {
    return atomic_load_explicit(&files_watched, memory_order_relaxed) && !shim_files_aside_now;
}

/* ---- glob */

static int stat_of(const char *path, struct stat *status) {
    return hook_stat(path, status);
}

static int lstat_of(const char *path, struct stat *status) {
    return hook_lstat(path, status);
}

static void close_folder(void *stream) {
    hook_closedir(stream);
}

static struct dirent *next_entry(void *stream) {
    return hook_readdir(stream);
}

static int glob_by(__typeof__(&hook_glob) original, const char *pattern, int flags, void *on_error, glob_t *found) {
    if (flags & GLOB_ALTDIRFUNC || !shows_more())
        return original(pattern, flags, on_error, found);
    found->gl_opendir = hook_opendir;
    found->gl_readdir = next_entry;
    found->gl_closedir = close_folder;
    found->gl_stat = stat_of;
    found->gl_lstat = lstat_of;
    int result = original(pattern, flags | GLOB_ALTDIRFUNC, on_error, found);
    found->gl_flags &= ~GLOB_ALTDIRFUNC;
    return result;
}

int hook_glob(const char *pattern, int flags, void *on_error, void *found) {
    return glob_by(ORIGINAL(glob), pattern, flags, on_error, found);
}

int hook_glob64(const char *pattern, int flags, void *on_error, void *found) {
    return glob_by(ORIGINAL(glob64), pattern, flags, on_error, found);
}

/* ---- scandir */

struct scanned {
    struct dirent **names; /* owned, each, and all */
    size_t count;
};

static void scanned_drop(struct scanned *scanned) {
    while (scanned->count)
        free(scanned->names[--scanned->count]);
    free(scanned->names);
}

/* Returns 0 or an errno. */
static int scanned_add(struct scanned *scanned, const struct dirent *entry) {
    struct dirent **more = realloc(scanned->names, (scanned->count + 1) * sizeof *more);
    if (!more)
        return ENOMEM;
    scanned->names = more;
    more[scanned->count] = malloc(entry->d_reclen);
    if (!more[scanned->count])
        return ENOMEM;
    memcpy(more[scanned->count++], entry, entry->d_reclen);
    return 0;
}

static int scan(void *stream, int (*wanted)(const struct dirent *), struct scanned *scanned) {
    const struct dirent *entry;
    int error = 0;
    for (errno = 0; !error && (entry = hook_readdir(stream)); errno = 0)
        error = !wanted || wanted(entry) ? scanned_add(scanned, entry) : 0;
    return error ? error : errno;
}

static int scan_folder(const char *path, struct dirent ***names, int (*wanted)(const struct dirent *), void *order) {
    struct scanned scanned = {NULL, 0};
    int saved_errno = errno;
    void *stream = hook_opendir(path);
    if (!stream)
        return -1;
    int error = scan(stream, wanted, &scanned);
    hook_closedir(stream);
    if (error) {
        scanned_drop(&scanned);
        errno = error;
        return -1;
    }
    if (order && scanned.count)
        qsort(scanned.names, scanned.count, sizeof *scanned.names, (int (*)(const void *, const void *))order);
    *names = scanned.names;
    errno = saved_errno;
    return (int)scanned.count;
}

int hook_scandir(const char *path, void *names, void *wanted, void *order) {
    return shows_more() ? scan_folder(path, names, (int (*)(const struct dirent *))wanted, order)
                        : ORIGINAL(scandir)(path, names, wanted, order);
}

int hook_scandir64(const char *path, void *names, void *wanted, void *order) {
    return shows_more() ? hook_scandir(path, names, wanted, order) : ORIGINAL(scandir64)(path, names, wanted, order);
}

/* ---- walks */

#define LISTED(row, type, parameters, arguments)                                                                                           \
    type hook_##row parameters {                                                                                                           \
        listing_settle();                                                                                                                  \
        path = alias_is_known() ? alias_spelled_here(path, FILES_ROOM) : path;                                                             \
        return ORIGINAL(row) arguments;                                                                                                    \
    }

LISTED(ftw, int, (const char *path, void *visit, int descriptors), (path, visit, descriptors))
LISTED(ftw64, int, (const char *path, void *visit, int descriptors), (path, visit, descriptors))
LISTED(nftw, int, (const char *path, void *visit, int descriptors, int flags), (path, visit, descriptors, flags))
LISTED(nftw64, int, (const char *path, void *visit, int descriptors, int flags), (path, visit, descriptors, flags))

/* fts keeps no pointer to the names that it is given. */
static void *open_tree(void *(*open)(char *const *, int, void *), char *const *paths, int options, void *order) {
    size_t count = 0;
    while (paths && paths[count])
        count++;
    const char **names = alias_is_known() ? malloc((count + 1) * (sizeof *names + PATH_MAX)) : NULL;
    listing_settle();
    if (!names)
        return open(paths, options, order);
    char(*buffers)[PATH_MAX] = (char(*)[PATH_MAX])(names + count + 1);
    for (size_t i = 0; i < count; i++)
        names[i] = alias_spelled_here(paths[i], buffers[i]);
    names[count] = NULL;
    void *tree = open((char *const *)names, options, order);
    int saved_errno = errno;
    free(names);
    errno = saved_errno;
    return tree;
}

void *hook_fts_open(char *const *paths, int options, void *order) {
    return open_tree(ORIGINAL(fts_open), paths, options, order);
}

void *hook_fts64_open(char *const *paths, int options, void *order) {
    return open_tree(ORIGINAL(fts64_open), paths, options, order);
}
