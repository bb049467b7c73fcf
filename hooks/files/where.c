/*
 * Rows that ask where a name leads, and which disk it is on. libc follows a name by system calls of its own: of a file that has no place on the disk yet, of
 * a rank's copy and of names that rank 0 spells differently it would find nothing (std::filesystem::canonical, relative and space throw then). So it is
 * followed here, by the looks of view.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "alias.h"
#include "files.h"

enum { LINKS = 40 }; /* the kernel follows no more */

/* What stands before the rest of the name, which is replaced by what the link says. Returns 0 or an errno. */
static int follow_link(char *found, char *rest) {
    char text[PATH_MAX], after[PATH_MAX];
    long length = readlink(found, text, sizeof text - 1);
    if (length < 0)
        return errno;
    text[length] = 0;
    strcpy(after, rest);
    if (snprintf(rest, PATH_MAX, "%s%s%s", text, *after ? "/" : "", after) >= PATH_MAX)
        return ENAMETOOLONG;
    if (text[0] == '/')
        found[0] = 0;
    else
        *strrchr(found, '/') = 0;
    return 0;
}

/* found: absolute, without links, "" for the root; another part of the name is added. Returns 0 or an errno. */
static int follow_part(char *found, const char *part, size_t length, char *rest, int *links) {
    struct stat now;
    size_t before = strlen(found);
    if (length == 1 && part[0] == '.')
        return 0;
    if (length == 2 && !strncmp(part, "..", 2)) {
        if (before)
            *strrchr(found, '/') = 0;
        return 0;
    }
    if (before + length + 1 >= PATH_MAX)
        return ENAMETOOLONG;
    sprintf(found + before, "/%.*s", (int)length, part);
    if (lstat(found, &now))
        return errno;
    if (S_ISLNK(now.st_mode))
        return ++*links > LINKS ? ELOOP : follow_link(found, rest);
    return *rest && !S_ISDIR(now.st_mode) ? ENOTDIR : 0;
}

/* found[PATH_MAX]. Returns 0 or an errno. */
static int follow(const char *path, char *found) {
    char rest[PATH_MAX], part[PATH_MAX];
    int links = 0, error = 0;
    if (!*path)
        return ENOENT;
    if (snprintf(rest, sizeof rest, "%s", path) >= PATH_MAX)
        return ENAMETOOLONG;
    found[0] = 0;
    if (path[0] != '/' && !getcwd(found, PATH_MAX))
        return errno;
    if (!strcmp(found, "/"))
        found[0] = 0;
    while (!error && *rest) {
        size_t slashes = strspn(rest, "/"), length = strcspn(rest + slashes, "/");
        memcpy(part, rest + slashes, length);
        memmove(rest, rest + slashes + length,
                strlen(rest + slashes + length) + 1); /* with its slash: what is named before one is a folder */
        if (length)
            error = follow_part(found, part, length, rest, &links);
        else
            rest[0] = 0;
    }
    if (!error && !*found)
        strcpy(found, "/");
    return error;
}

/* Does libc know it all? */
static bool is_plain(const char *path) {
    bool is_seen = atomic_load_explicit(&written_views, memory_order_relaxed) || atomic_load_explicit(&away_asks, memory_order_relaxed);
    return !path || shim_files_aside_now || !is_seen;
}

/* On other hosts than the first each part of the name would be asked of that, software and scratch folders' own, too. Where names are known that rank 0 spells
   differently libc would say those that are on the disk. */
static bool is_here(const char *path, char *found) {
    SHIM_FILES_ASIDE;
    int saved_errno = errno;
    bool is_known = !alias_is_known() && atomic_load_explicit(&away_asks, memory_order_relaxed) && ORIGINAL(realpath)(path, found);
    errno = saved_errno;
    return is_known;
}

FILES_DEEP static char *find_real(const char *path, char *resolved) {
    char found[PATH_MAX];
    int saved_errno = errno;
    if (is_here(path, found))
        return resolved ? strcpy(resolved, found) : strdup(found);
    int error = follow(path, found);
    errno = error ? error : saved_errno;
    if (error)
        return NULL;
    return resolved ? strcpy(resolved, found) : strdup(found);
}

char *hook_realpath(const char *path, char *resolved) {
    if (!is_plain(path))
        return find_real(path, resolved);
    return resolved ? ORIGINAL(realpath)(path, resolved) : ORIGINAL(canonicalize_file_name)(path);
}

char *hook_realpath_chk(const char *path, char *resolved, unsigned long room) {
    return is_plain(path) ? ORIGINAL(realpath_chk)(path, resolved, room) : hook_realpath(path, resolved);
}

char *hook_canonicalize_file_name(const char *path) {
    return hook_realpath(path, NULL);
}

/* ---- disks */

/* Not of a plain one. A private copy lies somewhere else than what it stands for, which may have no name yet: its folder is asked about then.
   name[PATH_MAX]. */
FILES_DEEP static const char *on_disk(const char *path, char *name) {
    struct stat now;
    bool is_there = !stat(path, &now); /* rank 0 puts it in its place */
    if (alias_of(path, name) == path)
        snprintf(name, PATH_MAX, "%s", path);
    SHIM_FILES_ASIDE;
    if (is_there && lstat(name, &now))
        strcpy(name + (shim_base_of(name) - name), ".");
    return name;
}

#define ON_DISK(row)                                                                                                                       \
    int hook_##row(const char *path, void *status) {                                                                                       \
        int saved_errno = errno;                                                                                                           \
        path = is_plain(path) ? path : on_disk(path, FILES_ROOM);                                                                          \
        errno = saved_errno;                                                                                                               \
        return ORIGINAL(row)(path, status);                                                                                                \
    }

ON_DISK(statvfs)
ON_DISK(statvfs64)
ON_DISK(statfs)
ON_DISK(statfs64)
