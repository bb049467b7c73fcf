/*
 * Private copies look as what they stand for: a log that is continued has its old time, permissions, owner and extended attributes on every rank, for a
 * program decides by them whether to begin a new one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "files.h"

/* Those that are the program's or its user's; what file systems, and the system's own security, write there is theirs. Where hosts are asked about files none
   is told of. */
static void take_attributes(int copy, const char *real) {
    char names[4096], value[4096];
    ssize_t length = atomic_load_explicit(&away_asks, memory_order_relaxed) ? 0 : listxattr(real, names, sizeof names);
    for (const char *name = names; length > 0 && name < names + length; name += strlen(name) + 1) {
        ssize_t bytes = strncmp(name, "user.", 5) ? -1 : getxattr(real, name, value, sizeof value);
        if (bytes >= 0)
            fsetxattr(copy, name, value, (size_t)bytes, 0);
    }
}

void likeness_take(int copy, const char *real, const struct stat *old) {
    struct stat now;
    take_attributes(copy, real); /* before the permissions, which may not allow it */
    if (!fstat(copy, &now) && (now.st_uid != old->st_uid || now.st_gid != old->st_gid) && fchown(copy, old->st_uid, old->st_gid))
        errno = 0; /* nobody but root may */
    fchmod(copy, old->st_mode & 07777);
}

void likeness_take_times(int copy, const struct stat *old) {
    futimens(copy, (struct timespec[]){old->st_atim, old->st_mtim});
}

/* Without setting it, which other threads would see. */
static mode_t umask_now(void) {
    char text[1024] = "";
    int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t length = read(status, text, sizeof text - 1);
    close(status);
    const char *line = length > 0 ? strstr(text, "\nUmask:") : NULL;
    return line ? (mode_t)strtoul(line + strlen("\nUmask:"), NULL, 8) : 022;
}

void likeness_make_new(int copy, unsigned mode) {
    fchmod(copy, mode & 07777 & ~umask_now());
}
