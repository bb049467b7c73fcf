/*
 * Opening for reading on another host than the first: what is read is what the first host has. This host's file is taken where it is the same: always in a
 * file system that all share, mostly where data sets were copied to each host. Else the content comes over the network, to a private copy.
 *
 * The same is: as long, and equal where it was looked at: all of a short file; of a long one the beginning, the end (archives have the checksums of their
 * parts there) and pieces between them. What differs elsewhere is data, and data are compared: as batches, and as parameters.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

enum { PIECE = PROTOCOL_LOOK_DATA, PIECES = 8, TRIES = 3 };

/* A file of the first host, and what was read of it last. */
struct away_file {
    char path[PATH_MAX];
    struct protocol_status status;
    const char *data; /* borrowed */
    uint32_t bytes;
};

/* Returns 0 or an errno. */
static int read_piece(struct away_file *file, uint64_t offset) {
    return first_host_fetch(PROTOCOL_LOOK_READ, file->path, offset, &file->status, &file->data, &file->bytes);
}

static bool is_one(const struct stat *own, const struct protocol_status *other) {
    return own->st_ino == other->inode && own->st_ctim.tv_sec == other->changed[0] && own->st_ctim.tv_nsec == other->changed[1] &&
           own->st_mtim.tv_sec == other->modified[0] && own->st_mtim.tv_nsec == other->modified[1];
}

static bool has_piece(int own, const struct away_file *file, uint64_t offset) {
    static char buffer[PIECE]; /* of the thread that meets */
    return pread(own, buffer, sizeof buffer, (off_t)offset) == (ssize_t)file->bytes && !memcmp(buffer, file->data, file->bytes);
}

/* The first piece has been read. */
static bool is_same(int own, struct away_file *file) {
    struct stat now;
    if (own < 0 || fstat(own, &now) || !S_ISREG(now.st_mode) || (uint64_t)now.st_size != file->status.size)
        return false;
    if (is_one(&now, &file->status))
        return true;
    if (!has_piece(own, file, 0))
        return false;
    uint64_t size = file->status.size, last = size > PIECE ? size - PIECE : 0;
    for (uint64_t i = 1; i < PIECES && last; i++) {
        uint64_t offset = size <= (uint64_t)PIECES * PIECE ? i * PIECE : last / (PIECES - 1) * i;
        offset = i == PIECES - 1 || offset > last ? last : offset;
        if (read_piece(file, offset) || file->status.size != size || !has_piece(own, file, offset))
            return false;
        if (offset == last)
            break;
    }
    return true;
}

/* ---- the copy */

static bool is_unchanged(const struct protocol_status *before, const struct protocol_status *now) {
    return before->inode == now->inode && before->size == now->size && !memcmp(before->modified, now->modified, sizeof now->modified);
}

/* Returns 1: all is there; 0: it has changed meanwhile; -1 with errno: it cannot be read. */
static int copy(struct away_file *file, int to) {
    int error = read_piece(file, 0);
    struct protocol_status before = file->status;
    if (error || ftruncate(to, 0))
        return errno = error ? error : errno, -1;
    for (uint64_t done = 0; done < before.size;) {
        if (pwrite(to, file->data, file->bytes, (off_t)done) != (ssize_t)file->bytes)
            sink_refuse(file->path);
        done += file->bytes;
        if (done < before.size && (error = read_piece(file, done)))
            return errno = error, -1;
        if (!is_unchanged(&before, &file->status) || (!file->bytes && done < before.size))
            return 0;
    }
    return 1;
}

/* A descriptor that may do what flags say, of the file that `from` is open for. from is closed. */
static int reopen(int from, int flags) {
    int descriptor = sink_reopen(from, flags & (O_ACCMODE | O_CLOEXEC | O_NONBLOCK | O_NOATIME));
    int saved_errno = errno;
    close(from);
    errno = saved_errno;
    return descriptor;
}

static int open_copy_of(struct away_file *file, int flags) {
    int copied = 0, to = sink_make(O_CLOEXEC, 0600);
    if (to < 0)
        sink_refuse(file->path);
    for (int i = 0; i < TRIES && !(copied = copy(file, to)); i++)
        ;
    if (!copied)
        shim_problem("AR-FILE-HOSTS", "What another process writes there all the time must lie where all hosts see it.",
                     "'%s' of host 0 (%s) changes while rank %u reads it", file->path, first_host_name(), shim_rank());
    if (copied < 0) {
        int saved_errno = errno;
        close(to);
        errno = saved_errno;
        return -1;
    }
    const struct timespec times[2] = {{file->status.accessed[0], file->status.accessed[1]},
                                      {file->status.modified[0], file->status.modified[1]}};
    futimens(to, times);
    shim_log('i', "rank %u reads '%s' of host 0 (%s): this host has another one, or none", shim_rank(), file->path, first_host_name());
    return reopen(to, flags);
}

/* ---- opening */

static bool only_reads(int flags) {
    return (flags & O_ACCMODE) == O_RDONLY && !(flags & (O_CREAT | O_TRUNC | O_PATH));
}

static int open_folder(const char *absolute, int own, int flags) {
    struct stat now;
    if (own >= 0 && !fstat(own, &now) && S_ISDIR(now.st_mode))
        return own;
    if (own >= 0)
        close(own);
    return folder_stand_in(absolute, flags);
}

/* What open() would refuse there by these flags: then errno is set. */
static bool is_refused(const struct away_file *file, int flags) {
    struct protocol_status name;
    if (flags & O_NOFOLLOW && !first_host_look(PROTOCOL_LOOK_NAME, file->path, 0, &name) && S_ISLNK(name.mode))
        errno = flags & O_DIRECTORY ? ENOTDIR : ELOOP;
    else if (flags & O_DIRECTORY && !S_ISDIR(file->status.mode))
        errno = ENOTDIR;
    else
        return false;
    return true;
}

int away_open_slowly(int directory, const char *path, int flags) {
    struct away_file file;
    if (!only_reads(flags) || !away_applies(directory, path, file.path))
        return OPEN_PASS;
    int saved_errno = errno, error = read_piece(&file, 0);
    if (error) {
        errno = error;
        return -1;
    }
    if (is_refused(&file, flags))
        return -1;
    SHIM_FILES_ASIDE;
    int own = open(file.path, flags);
    if (S_ISDIR(file.status.mode) || S_ISREG(file.status.mode))
        errno = saved_errno;
    if (S_ISDIR(file.status.mode))
        return open_folder(file.path, own, flags);
    if (!S_ISREG(file.status.mode) || is_same(own, &file))
        return own;
    if (own >= 0)
        close(own);
    return open_copy_of(&file, flags);
}
