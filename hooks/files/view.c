/*
 * Rows of looks: what is open for writing looks as it would in one process.
 *
 *  - Rank 0: a file that is not in its place yet (files.c) is put there when the program looks at its name, or lists a directory.
 *  - The others: the name leads to the private copy, whose length is this rank's, however far rank 0 has come.
 *  - A name that contains a pid, the time or a random number is spelled differently on the ranks; rank 0's was made. The others' spelling
 *    leads to it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files.h"

enum { ALIASES = 32 };

static struct {
    char own[PATH_MAX], rank_0s[PATH_MAX]; /* absolute */
    size_t length;
} aliases[ALIASES];
static _Atomic uint32_t alias_count; /* written on the thread that meets */

/* The first parts that differ are enough: what comes below is spelled as usual. */
void view_add_alias(const char *own, const char *rank_0s) {
    uint32_t count = atomic_load(&alias_count);
    int saved_errno = errno;
    if (count < ALIASES && strcmp(own, rank_0s) && !scratch_has(own) && files_absolute(AT_FDCWD, own, aliases[count].own) &&
        files_absolute(AT_FDCWD, rank_0s, aliases[count].rank_0s)) {
        aliases[count].length = strlen(aliases[count].own);
        atomic_store(&alias_count, count + 1);
        atomic_fetch_add(&written_views, 1);
    }
    errno = saved_errno;
}

static bool find_alias(const char *path, char *buffer) {
    char absolute[PATH_MAX];
    uint32_t count = atomic_load(&alias_count);
    if (!count || !files_absolute(AT_FDCWD, path, absolute))
        return false;
    for (uint32_t i = count; i-- > 0;) {
        size_t length = aliases[i].length;
        if (!strncmp(absolute, aliases[i].own, length) && (!absolute[length] || absolute[length] == '/'))
            return snprintf(buffer, PATH_MAX, "%s%s", aliases[i].rank_0s, absolute + length) < PATH_MAX;
    }
    return false;
}

static const char *find_written(const char *path, char *buffer) {
    char real[PATH_MAX];
    if (!written_has_base(path))
        return path;
    files_locate(path, real);
    struct written *file = written_find_path(real);
    if (file)
        written_publish(file);
    if (!file || !file->is_own)
        return path;
    snprintf(buffer, PATH_MAX, "/proc/self/fd/%d", file->descriptor);
    return buffer;
}

const char *view_slowly(int directory, const char *path, char *buffer) {
    char whole[PATH_MAX];
    int saved_errno = errno;
    if (files_place() >= FILES_MEET) {
        SHIM_FILES_ASIDE;
        const char *viewed = files_whole_path(directory, path, whole);
        const char *found = find_written(viewed, buffer);
        if (found == viewed && find_alias(viewed, buffer))
            found = buffer;
        path = found == viewed ? path : buffer;
    }
    errno = saved_errno;
    return path;
}

/* A private copy is reached through a link of /proc, which is not what the program asks about. */
static bool is_copy(const char *path) {
    return !strncmp(path, "/proc/self/fd/", 14);
}

long hook_readlink(const char *path, char *text, unsigned long room) {
    long away;
    if (away_link(AT_FDCWD, path, text, room, &away))
        return away;
    return NEXT(readlink) ? NEXT(readlink)(path, text, room) : syscall(SYS_readlink, path, text, room);
}

long hook_readlinkat(int directory, const char *path, char *text, unsigned long room) {
    long away;
    if (away_link(directory, path, text, room, &away))
        return away;
    return NEXT(readlinkat) ? NEXT(readlinkat)(directory, path, text, room) : syscall(SYS_readlinkat, directory, path, text, room);
}

#define VIEWED(directory)                                                                                                                  \
    char buffer[PATH_MAX];                                                                                                                 \
    path = view(directory, path, buffer)

int hook_stat(const char *path, void *status) {
    int away;
    VIEWED(AT_FDCWD);
    if (away_stat(AT_FDCWD, path, 0, status, &away))
        return away;
    return NEXT(stat) ? NEXT(stat)(path, status) : (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, 0);
}

int hook_stat64(const char *path, void *status) {
    return hook_stat(path, status);
}

int hook_lstat(const char *path, void *status) {
    const char *asked = path;
    int away;
    VIEWED(AT_FDCWD);
    if (path != asked && is_copy(path))
        return NEXT(stat)(path, status);
    if (away_stat(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, status, &away))
        return away;
    return NEXT(lstat) ? NEXT(lstat)(path, status) : (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int hook_lstat64(const char *path, void *status) {
    return hook_lstat(path, status);
}

int hook_fstatat(int directory, const char *path, void *status, int flags) {
    int away;
    const char *asked = path;
    VIEWED(directory);
    if (path != asked && is_copy(path))
        flags &= ~AT_SYMLINK_NOFOLLOW;
    if (away_stat(directory, path, flags, status, &away))
        return away;
    return NEXT(fstatat) ? NEXT(fstatat)(directory, path, status, flags) : (int)syscall(SYS_newfstatat, directory, path, status, flags);
}

int hook_fstatat64(int directory, const char *path, void *status, int flags) {
    return hook_fstatat(directory, path, status, flags);
}

int hook_xstat(int version, const char *path, void *status) {
    int away;
    VIEWED(AT_FDCWD);
    if (away_stat(AT_FDCWD, path, 0, status, &away))
        return away;
    return ORIGINAL(xstat)(version, path, status);
}

int hook_xstat64(int version, const char *path, void *status) {
    return hook_xstat(version, path, status);
}

int hook_lxstat(int version, const char *path, void *status) {
    int away;
    const char *asked = path;
    VIEWED(AT_FDCWD);
    if (away_stat(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, status, &away))
        return away;
    return path != asked && is_copy(path) ? ORIGINAL(xstat)(version, path, status) : ORIGINAL(lxstat)(version, path, status);
}

int hook_lxstat64(int version, const char *path, void *status) {
    return hook_lxstat(version, path, status);
}

int hook_statx(int directory, const char *path, int flags, unsigned mask, void *status) {
    int away;
    const char *asked = path;
    VIEWED(directory);
    if (path != asked && is_copy(path))
        flags &= ~AT_SYMLINK_NOFOLLOW;
    if (away_statx(directory, path, flags, status, &away))
        return away;
    return ORIGINAL(statx)(directory, path, flags, mask, status);
}

int hook_access(const char *path, int mode) {
    int away;
    VIEWED(AT_FDCWD);
    if (away_access(AT_FDCWD, path, mode, &away))
        return away;
    return NEXT(access) ? NEXT(access)(path, mode) : (int)syscall(SYS_access, path, mode);
}

int hook_faccessat(int directory, const char *path, int mode, int flags) {
    int away;
    VIEWED(directory);
    if (away_access(directory, path, mode, &away))
        return away;
    return ORIGINAL(faccessat)(directory, path, mode, flags);
}

int hook_chdir(const char *path) {
    VIEWED(AT_FDCWD);
    away_check_folder(path);
    return ORIGINAL(chdir)(path);
}
