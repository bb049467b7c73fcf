/* Private copies: where the ranks but 0 write. On the disk of /tmp rather than in memory: a checkpoint may be larger than what is free. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "alias.h"
#include "files.h"

enum { SINK_FLAGS = O_APPEND | O_CLOEXEC | O_NONBLOCK };

bool sink_has_none_left(void) {
    return errno == EMFILE || errno == ENFILE;
}

int sink_make(int flags, unsigned mode) {
    int sink = open("/tmp", O_TMPFILE | O_RDWR | flags, mode);
    if (sink >= 0)
        return sink;
    char name[] = "/tmp/accel-run-XXXXXX"; /* file systems without unnamed files */
    sink = mkostemp(name, flags);
    if (sink >= 0)
        unlink(name);
    if (sink < 0) {
        sink = memfd_create("accel-run", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
        if (sink < 0)
            return -1; /* with its errno */
        fcntl(sink, F_SETFL, flags);
    }
    likeness_make_new(sink, mode);
    return sink;
}

void sink_refuse(const char *path) {
    shim_problem("AR-FILE-COPY", "Free some space in /tmp, or raise the limit of open files (ulimit -n) or of their size (ulimit -f).",
                 "rank %u cannot make a private copy of '%s': %s", shim_rank(), path, strerrordesc_np(errno));
}

/* Copies `count` bytes, or as many as there are, from and to the begin. */
static bool copy_bytes(int to, int from, off_t count) {
    for (off_t done = 0; done < count;) {
        ssize_t got = copy_file_range(from, &(off_t){done}, to, &(off_t){done}, (size_t)(count - done), 0);
        if (got <= 0) {
            lseek(to, done, SEEK_SET);
            got = sendfile(to, from, &(off_t){done}, (size_t)(count - done));
        }
        if (got < 0)
            return false;
        if (!got) /* it has become shorter */
            break;
        done += got;
    }
    return lseek(to, 0, SEEK_SET) == 0;
}

bool sink_copy_all(int to, int from) {
    struct stat old;
    return !fstat(from, &old) && !ftruncate(to, old.st_size) && copy_bytes(to, from, old.st_size);
}

int sink_reopen(int descriptor, int flags) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    return open(link, flags);
}

/* Of a private copy, which has the permissions of the file: they may be such that its owner cannot open it again, and who has it open may go on. */
static int reopen_own(int copy, int flags) {
    struct stat now;
    int again = sink_reopen(copy, flags);
    if (again >= 0 || errno != EACCES || fstat(copy, &now) || fchmod(copy, (now.st_mode & 07777) | S_IRUSR | S_IWUSR))
        return again;
    again = sink_reopen(copy, flags);
    int saved_errno = errno;
    fchmod(copy, now.st_mode & 07777);
    errno = saved_errno;
    return again;
}

/* By rank 0's name. */
static int open_old(const char *real) {
    FILES_NOT_ASIDE;
    int from = away_open(AT_FDCWD, real, O_RDONLY | O_CLOEXEC);
    SHIM_FILES_ASIDE;
    return from == OPEN_PASS ? open(real, O_RDONLY | O_CLOEXEC) : from;
}

bool sink_copy(const char *real, const char *to) {
    struct stat old;
    int from = open_old(real), copy = from < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool is_copied = copy >= 0 && !fstat(from, &old) && !fchmod(copy, old.st_mode & 07777) && sink_copy_all(copy, from);
    int saved_errno = errno;
    close(from);
    close(copy);
    errno = saved_errno;
    return is_copied;
}

/* The copy begins as the file that rank 0 has, if it has one. Of a log that is only added to its length is enough, until it is read by its name. */
static bool begin(int sink, const char *real, int flags, const struct stat *old) {
    if (flags & O_TRUNC || !old)
        return true;
    if (sink_adds(flags))
        return !ftruncate(sink, old->st_size);
    int from = open_old(real);
    if (from < 0) /* it may be such that it can only be written to */
        return !sink_has_none_left();
    bool is_filled = sink_copy_all(sink, from);
    close(from);
    return is_filled;
}

void sink_fill(struct written *file) {
    off_t hollow = atomic_exchange(&file->hollow, 0);
    char rank_0s[PATH_MAX];
    struct stat now;
    if (!hollow)
        return;
    SHIM_FILES_ASIDE;
    int from = open_old(alias_of(file->path, rank_0s));
    int copy = from < 0 ? -1 : reopen_own(file->descriptor, O_WRONLY | O_CLOEXEC); /* without O_APPEND, which copy_file_range refuses */
    if (copy < 0 && sink_has_none_left()) { /* its length is right, and who opens it needs a descriptor, too */
        close(from);
        atomic_store(&file->hollow, hollow);
        return;
    }
    bool is_filled = from < 0 || (copy >= 0 && !fstat(copy, &now) && copy_bytes(copy, from, hollow < now.st_size ? hollow : now.st_size));
    if (copy >= 0 && is_filled)
        likeness_take_times(copy, &now);
    int saved_errno = errno;
    close(from);
    close(copy);
    errno = saved_errno;
    if (!is_filled && written_is_open(file)) /* another thread may have closed it */
        sink_refuse(file->path);
}

void sink_renew(struct written *file) {
    SHIM_FILES_ASIDE;
    char rank_0s[PATH_MAX];
    struct stat old;
    const char *path = alias_of(file->path, rank_0s);
    int from = open_old(path), copy = from < 0 ? -1 : reopen_own(file->descriptor, O_WRONLY | O_CLOEXEC);
    atomic_store(&file->hollow, 0);
    bool is_renewed = from < 0 ? !sink_has_none_left() : copy >= 0 && sink_copy_all(copy, from);
    if (copy >= 0 && is_renewed && !away_stat_disk(path, 0, &old))
        likeness_take_times(copy, &old);
    int saved_errno = errno;
    close(from);
    close(copy);
    errno = saved_errno;
    if (!is_renewed)
        sink_refuse(file->path);
}

void sink_cut(const char *real, off_t length) {
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    struct written *file = written_find_own(real);
    if (file && written_is_open(file)) {
        sink_fill(file);
        if (ftruncate(file->descriptor, length))
            sink_refuse(real);
    }
    errno = saved_errno;
}

/* Until here it could be read and written; the program has asked for less, perhaps. The number stays, which is rank 0's, too. */
static void restrict_access(int sink, int flags) {
    int again = (flags & O_ACCMODE) == O_RDWR ? -1 : reopen_own(sink, flags & (O_ACCMODE | SINK_FLAGS));
    if (again >= 0) {
        dup3(again, sink, flags & O_CLOEXEC);
        close(again);
    } else if (flags & O_APPEND) {
        fcntl(sink, F_SETFL, fcntl(sink, F_GETFL) | O_APPEND);
    }
}

int sink_open(const char *real, int flags, unsigned mode) {
    SHIM_FILES_ASIDE;
    char buffer[PATH_MAX];
    struct stat old;
    real = alias_of(real, buffer);
    bool is_there = !away_stat_disk(real, 0, &old) && S_ISREG(old.st_mode);
    /* O_APPEND comes last: copy_file_range and sendfile refuse it. So do the permissions: of an old file, and its owner can always write the copy. */
    int sink = sink_make(flags & SINK_FLAGS & ~O_APPEND, is_there || !(flags & O_CREAT) ? 0600 : mode);
    if (sink < 0)
        return -1;
    if (!begin(sink, real, flags, is_there ? &old : NULL)) {
        int error = errno;
        close(sink);
        errno = error;
        return -1;
    }
    if (is_there && !(flags & O_TRUNC))
        likeness_take_times(sink, &old);
    restrict_access(sink, flags);
    if (is_there)
        likeness_take(sink, real, &old);
    return sink;
}

/* A second handle of a private copy. -1: another thread has closed it meanwhile, and its number may be that of another file. */
static int take_of(struct written *other, int flags) {
    struct stat now;
    dev_t device = other->device;
    ino_t inode = other->inode;
    sink_fill(other);
    int sink = reopen_own(other->descriptor, flags & ~(O_CREAT | O_NOFOLLOW | O_TRUNC));
    bool is_it = sink >= 0 && !fstat(sink, &now) && now.st_dev == device && now.st_ino == inode;
    if (is_it && (!(flags & O_TRUNC) || !ftruncate(sink, 0)))
        return sink;
    close(sink);
    return -1;
}

int sink_take(struct written *own, const char *real, int flags, unsigned mode) {
    struct stat now;
    bool is_new = sink_is_new(flags);
    if (is_new)
        flags |= O_TRUNC; /* rank 0 may have written to it */
    if (flags & O_TRUNC)
        mapped_forget(real);
    struct written *other = is_new ? NULL : written_find_own(real);
    int sink = other ? take_of(other, flags) : -1;
    if (sink >= 0)
        return sink;
    sink = sink_open(real, flags, mode);
    if (own && sink >= 0 && sink_adds(flags) && !fstat(sink, &now))
        own->hollow = now.st_size;
    return sink;
}

/* Root may have what is kept for it, but for a rest that ext4 keeps from everybody, ROOM_KEPT blocks at most. */
uint64_t sink_most_bytes(int descriptor, uint64_t bytes) {
    enum { ROOM_KEPT = 4096, PART_KEPT = 32 };
    struct statvfs disk;
    uint64_t most;
    if (fstatvfs(descriptor, &disk) || !disk.f_blocks)
        return UINT64_MAX;
    fsblkcnt_t room = disk.f_bavail, kept = disk.f_blocks / PART_KEPT < ROOM_KEPT ? disk.f_blocks / PART_KEPT : ROOM_KEPT;
    if (!geteuid() && disk.f_bfree > kept + room)
        room = disk.f_bfree - kept;
    bool is_endless = __builtin_mul_overflow(room, disk.f_frsize, &most) || __builtin_add_overflow(most, bytes, &most);
    return is_endless ? UINT64_MAX : most;
}
