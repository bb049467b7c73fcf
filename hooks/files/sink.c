/* Private copies: where the ranks but 0 write. On the disk of /tmp rather than in memory: a checkpoint may be larger than what is free. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

enum { SINK_FLAGS = O_APPEND | O_CLOEXEC | O_NONBLOCK };

int sink_make(int flags) {
    int sink = open("/tmp", O_TMPFILE | O_RDWR | flags, 0600);
    if (sink >= 0)
        return sink;
    char name[] = "/tmp/accel-run-XXXXXX"; /* file systems without unnamed files */
    sink = mkostemp(name, flags);
    if (sink >= 0)
        unlink(name);
    if (sink >= 0)
        return sink;
    sink = memfd_create("accel-run", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
    if (sink >= 0)
        fcntl(sink, F_SETFL, flags);
    return sink;
}

void sink_refuse(const char *path) {
    shim_problem("AR-FILE-COPY", "Free some space in /tmp, or raise the limit of open files (ulimit -n).",
                 "rank %u cannot make a private copy of '%s': %s", shim_rank(), path, strerrordesc_np(errno));
}

static bool fill(int sink, int from) {
    struct stat old;
    if (fstat(from, &old) || ftruncate(sink, old.st_size))
        return false;
    off_t done = 0;
    while (done < old.st_size) {
        ssize_t got = copy_file_range(from, &(off_t){done}, sink, &(off_t){done}, (size_t)(old.st_size - done), 0);
        if (got <= 0) {
            lseek(sink, done, SEEK_SET);
            got = sendfile(sink, from, &(off_t){done}, (size_t)(old.st_size - done));
        }
        if (got < 0)
            return false;
        if (!got) /* it has become shorter */
            break;
        done += got;
    }
    return lseek(sink, 0, SEEK_SET) == 0;
}

static int open_old(const char *real) {
    FILES_NOT_ASIDE;
    int from = away_open(AT_FDCWD, real, O_RDONLY | O_CLOEXEC);
    SHIM_FILES_ASIDE;
    return from == OPEN_PASS ? open(real, O_RDONLY | O_CLOEXEC) : from;
}

bool sink_copy(const char *real, const char *to) {
    struct stat old;
    int from = open_old(real), copy = from < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool is_copied = copy >= 0 && !fstat(from, &old) && !fchmod(copy, old.st_mode & 07777) && fill(copy, from);
    int saved_errno = errno;
    close(from);
    close(copy);
    errno = saved_errno;
    return is_copied;
}

/* The copy begins as the file that rank 0 has, if it has one. What cannot be read through the descriptor is not copied: its length is enough. */
static bool begin(int sink, const char *real, int flags) {
    struct stat old;
    if (flags & O_TRUNC)
        return true;
    if ((flags & O_ACCMODE) != O_RDWR)
        return away_stat_disk(real, 0, &old) || !S_ISREG(old.st_mode) || !ftruncate(sink, old.st_size);
    int from = open_old(real);
    if (from < 0)
        return true;
    bool is_filled = fill(sink, from);
    close(from);
    return is_filled;
}

int sink_open(const char *real, int flags) {
    SHIM_FILES_ASIDE;
    /* O_APPEND comes last: copy_file_range and sendfile refuse it. */
    int sink = sink_make(flags & SINK_FLAGS & ~O_APPEND);
    if (sink >= 0 && !begin(sink, real, flags)) {
        close(sink);
        errno = ENOSPC;
        return -1;
    }
    if (sink >= 0 && flags & O_APPEND)
        fcntl(sink, F_SETFL, fcntl(sink, F_GETFL) | O_APPEND);
    return sink;
}
