/*
 * Before the claim: a Python program that has not imported torch yet.
 *
 * All ranks have opened, and perhaps truncated, their logs, and written the same lines. At the claim rank 0 goes on, and the others' open
 * descriptors are exchanged for private copies; their buffered text goes there, too. Additions (append mode) would stand in the file N times
 * by then: so the copies but rank 0's, which know their number from the environment, get a private file from the start.
 */
#define _GNU_SOURCE
#include "early.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

enum { EARLY_FILES = 64 };

struct early {
    int descriptor;
    dev_t device;
    ino_t inode;
};

static struct early files[EARLY_FILES]; /* of the main thread */
static int count;

static void note(int descriptor) {
    struct stat now;
    if (count == EARLY_FILES || fstat(descriptor, &now) || !S_ISREG(now.st_mode))
        return;
    files[count++] = (struct early){descriptor, now.st_dev, now.st_ino};
}

int early_open(const char *path, int flags, unsigned mode) {
    char real[PATH_MAX];
    struct stat now;
    SHIM_FILES_ASIDE;
    files_locate(path, real);
    bool is_special = !stat(path, &now) && !S_ISREG(now.st_mode);
    if (is_special || files_is_left_alone(real) || shim_slot() == 0)
        return OPEN_PASS;
    if (flags & O_APPEND && !(flags & O_TRUNC))
        return sink_open(real, flags);
    int file = open(path, flags, mode);
    int saved_errno = errno;
    if (file >= 0)
        note(file);
    errno = saved_errno;
    return file;
}

static void divert(const struct early *early) {
    struct stat now;
    char path[64];
    int descriptor = early->descriptor;
    if (fstat(descriptor, &now) || now.st_dev != early->device || now.st_ino != early->inode)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    int flags = fcntl(descriptor, F_GETFL), own = fcntl(descriptor, F_GETFD);
    int sink = sink_open(path, O_RDWR | (flags & (O_APPEND | O_NONBLOCK)));
    if (sink < 0)
        return;
    lseek(sink, lseek(descriptor, 0, SEEK_CUR), SEEK_SET);
    dup3(sink, descriptor, own & FD_CLOEXEC ? O_CLOEXEC : 0);
    close(sink);
}

void early_divert(void) {
    int saved_errno = errno;
    for (int i = 0; i < count && shim_rank(); i++)
        divert(&files[i]);
    count = 0;
    errno = saved_errno;
}
