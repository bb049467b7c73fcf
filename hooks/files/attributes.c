/*
 * Rows of attributes. Every rank sets them: the same ones, on the same file. On another host than the first the file is rank 0's, who sets them: here it is
 * enough that it is there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include "files.h"

int hook_chmod(const char *path, unsigned mode) {
    int away;
    char buffer[PATH_MAX];
    path = view(AT_FDCWD, path, buffer);
    return away_change(AT_FDCWD, path, &away) ? away : ORIGINAL(chmod)(path, mode);
}

int hook_fchmodat(int directory, const char *path, unsigned mode, int flags) {
    int away;
    char buffer[PATH_MAX];
    path = view(directory, path, buffer);
    return away_change(directory, path, &away) ? away : ORIGINAL(fchmodat)(directory, path, mode, flags);
}

int hook_utimensat(int directory, const char *path, const void *times, int flags) {
    int away;
    char buffer[PATH_MAX];
    path = view(directory, path, buffer);
    return away_change(directory, path, &away) ? away : ORIGINAL(utimensat)(directory, path, times, flags);
}

/* Extended ones are not told between hosts: as on a file system that has none. */
long hook_listxattr(const char *path, char *list, unsigned long room) {
    int away;
    char buffer[PATH_MAX];
    path = view(AT_FDCWD, path, buffer);
    if (!away_change(AT_FDCWD, path, &away))
        return ORIGINAL(listxattr)(path, list, room);
    return away;
}
