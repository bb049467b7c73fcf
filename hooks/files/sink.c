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

static int make(int flags) {
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

/* What cannot be read through the descriptor need not be copied: its length is enough. */
static bool fill(int sink, int from, bool with_content) {
    struct stat old;
    if (fstat(from, &old) || ftruncate(sink, old.st_size))
        return false;
    off_t done = 0;
    while (with_content && done < old.st_size) {
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

int sink_open(const char *real, int flags) {
    SHIM_FILES_ASIDE;
    int from = flags & O_TRUNC ? -1 : open(real, O_RDONLY | O_CLOEXEC);
    /* O_APPEND comes last: copy_file_range and sendfile refuse it. */
    int sink = make(flags & SINK_FLAGS & ~O_APPEND);
    if (sink >= 0 && from >= 0 && !fill(sink, from, (flags & O_ACCMODE) == O_RDWR)) {
        close(sink);
        sink = -1;
        errno = ENOSPC;
    }
    if (sink >= 0 && flags & O_APPEND)
        fcntl(sink, F_SETFL, fcntl(sink, F_GETFL) | O_APPEND);
    int saved_errno = errno;
    if (from >= 0)
        close(from);
    errno = saved_errno;
    return sink;
}
