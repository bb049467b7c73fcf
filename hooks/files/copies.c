/*
 * Copies that the system makes between two descriptors without reading: a private copy lies on another disk than the file that it stands for, where the system
 * refuses what it does for rank 0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files.h"

/* The disk on which rank 0 has what is open here. */
static bool find_disk(int descriptor, dev_t *disk) {
    struct stat now;
    const struct written *file = written_find(descriptor);
    SHIM_FILES_ASIDE;
    bool is_found = file && file->is_own ? !away_stat_disk(file->path, 0, &now) : !fstat(descriptor, &now);
    *disk = now.st_dev;
    return is_found;
}

/* A new file has no disk before rank 0 has put it in its place: then its folder's is not asked for, and the copy is made. */
static bool is_one_disk_for_rank_0(int from, int to) {
    dev_t disks[2];
    const struct written *own = written_find(to);
    return own && own->is_own && find_disk(from, &disks[0]) && (!find_disk(to, &disks[1]) || disks[0] == disks[1]);
}

static bool copy(int from, off_t *from_at, int to, size_t bytes, size_t *done) {
    ssize_t got = 1;
    for (*done = 0; *done < bytes && got > 0; *done += got > 0 ? (size_t)got : 0)
        got = sendfile(to, from, from_at, bytes - *done);
    return *done || got == 0;
}

static long copy_by_reading(int from, off_t *from_at, int to, off_t *to_at, size_t bytes) {
    SHIM_FILES_ASIDE;
    size_t done = 0;
    off_t at = to_at ? *to_at : lseek(to, 0, SEEK_CUR);
    int other = sink_reopen(to, O_WRONLY | O_CLOEXEC); /* with a place of its own */
    bool is_copied = other >= 0 && lseek(other, at, SEEK_SET) >= 0 && copy(from, from_at, other, bytes, &done);
    int saved_errno = errno;
    close(other);
    if (is_copied && to_at)
        *to_at += (off_t)done;
    else if (is_copied)
        lseek(to, at + (off_t)done, SEEK_SET);
    errno = saved_errno;
    return is_copied ? (long)done : -1;
}

long hook_copy_file_range(int from, void *from_at, int to, void *to_at, unsigned long bytes, unsigned flags) {
    long done = NEXT(copy_file_range) ? NEXT(copy_file_range)(from, from_at, to, to_at, bytes, flags)
                                      : syscall(SYS_copy_file_range, from, from_at, to, to_at, bytes, flags);
    if (done >= 0 || errno != EXDEV || !is_one_disk_for_rank_0(from, to))
        return done;
    return copy_by_reading(from, from_at, to, to_at, bytes);
}
