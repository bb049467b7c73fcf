/*
 * Looks from another host than the first: the first host's answers count (shim/first_host.h).
 *
 *  - Asked about is what the program could have written, or may write: all but software (away_is_software), caches and scratch files, which each host has for
 *    itself (files_is_left_alone), and what this rank has open for writing, which view.c leads to its private copy.
 *  - Where this host has a file of the same kind under the name, its device and inode number are told: they are compared with those of open descriptors.
 *  - A file system that all hosts share gives the same answers; asking it costs a fraction of a millisecond, and it may show changes later than that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "files.h"

#define ELSEWHERE ((uint64_t)1 << 62) /* a bit of a device's major number that no kernel gives */

_Atomic uint8_t away_asks;

static bool is_at_or_below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return !strncmp(path, folder, length) && (!path[length] || path[length] == '/');
}

bool away_is_software(const char *path) {
    static const char *const roots[] = {"/usr",  "/lib", "/lib32", "/lib64",   "/bin",       "/sbin",    "/etc", "/boot", "/dev",
                                        "/proc", "/sys", "/run",   "/var/lib", "/var/cache", "/var/run", "/nix", "/snap"};
    static const char *const parts[] = {"/site-packages/", "/dist-packages/", "/lib/python3.", "/lib64/python3."};
    if (!path[1])
        return true;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        if (is_at_or_below(path, roots[i]))
            return true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(path, parts[i]))
            return true;
    return false;
}

static bool is_asked_about(int directory, const char *path, char *absolute) {
    return *path && files_absolute(directory, path, absolute) && !away_is_software(absolute) && !files_is_left_alone(absolute);
}

/* A worker of a data loader looks at this host's disk, and no other rank sees what it reads for this rank's rows alone: so its loader is read whole, and the
   batches are compared. */
static void note_look_of_worker(int directory, const char *path, char *absolute) {
    if (shim_active() && shim_reads_example() && !meeting_is_here() && is_asked_about(directory, path, absolute))
        shim_note_draw();
}

bool away_applies_slowly(int directory, const char *path, char *absolute) {
    int saved_errno = errno;
    bool applies = false;
    bool is_undecided = atomic_load_explicit(&shim_kind_now, memory_order_relaxed) == SHIM_UNDECIDED;
    if (shim_files_aside_now || (is_undecided && !files_look_may_claim()))
        return false;
    if (first_host_is_this())
        atomic_store_explicit(&away_asks, 0, memory_order_relaxed);
    else if (is_undecided || first_host_is_away())
        applies = is_asked_about(directory, path, absolute);
    else
        note_look_of_worker(directory, path, absolute);
    if (applies && is_undecided) {
        files_place();
        applies = first_host_is_away();
    }
    errno = saved_errno;
    return applies;
}

/* What a call returns that ends with this error, or with none. */
static int result_of(int error) {
    if (error)
        errno = error;
    return error ? -1 : 0;
}

/* ---- status */

/* As descriptors of this host's file have them; no file here has those of a file that the first host alone has. */
static void set_own_numbers(const char *absolute, int flags, struct protocol_status *status) {
    struct stat own;
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    if (!fstatat(AT_FDCWD, absolute, &own, flags & AT_SYMLINK_NOFOLLOW) && (own.st_mode & S_IFMT) == (status->mode & S_IFMT)) {
        status->device = own.st_dev;
        status->inode = own.st_ino;
    } else {
        status->device |= ELSEWHERE;
    }
    errno = saved_errno;
}

static bool ask_status(int directory, const char *path, int flags, struct protocol_status *status, int *result) {
    char absolute[PATH_MAX];
    if (!away_applies(directory, path, absolute))
        return false;
    enum protocol_look_what what = flags & AT_SYMLINK_NOFOLLOW ? PROTOCOL_LOOK_NAME : PROTOCOL_LOOK_STATUS;
    *result = result_of(first_host_look(what, absolute, 0, status));
    if (!*result)
        set_own_numbers(absolute, flags, status);
    return true;
}

static struct timespec time_of(const int64_t from[2]) {
    return (struct timespec){from[0], from[1]};
}

bool away_stat_slowly(int directory, const char *path, int flags, struct stat *to, int *result) {
    struct protocol_status status;
    if (!ask_status(directory, path, flags, &status, result))
        return false;
    if (*result)
        return true;
    memset(to, 0, sizeof *to);
    to->st_dev = status.device;
    to->st_ino = status.inode;
    to->st_nlink = status.links;
    to->st_mode = status.mode;
    to->st_uid = status.user;
    to->st_gid = status.group;
    to->st_rdev = status.special;
    to->st_size = (off_t)status.size;
    to->st_blksize = (blksize_t)status.block_bytes;
    to->st_blocks = (blkcnt_t)status.blocks;
    to->st_atim = time_of(status.accessed);
    to->st_mtim = time_of(status.modified);
    to->st_ctim = time_of(status.changed);
    return true;
}

static struct statx_timestamp stamp_of(struct timespec from) {
    return (struct statx_timestamp){.tv_sec = from.tv_sec, .tv_nsec = (uint32_t)from.tv_nsec};
}

/* Without a time of birth, as on many file systems. */
bool away_statx_slowly(int directory, const char *path, int flags, struct statx *to, int *result) {
    struct stat from;
    if (!away_stat_slowly(directory, path, flags, &from, result))
        return false;
    if (*result)
        return true;
    memset(to, 0, sizeof *to);
    to->stx_mask = STATX_BASIC_STATS;
    to->stx_blksize = (uint32_t)from.st_blksize;
    to->stx_nlink = (uint32_t)from.st_nlink;
    to->stx_uid = from.st_uid;
    to->stx_gid = from.st_gid;
    to->stx_mode = (uint16_t)from.st_mode;
    to->stx_ino = from.st_ino;
    to->stx_size = (uint64_t)from.st_size;
    to->stx_blocks = (uint64_t)from.st_blocks;
    to->stx_atime = stamp_of(from.st_atim);
    to->stx_mtime = stamp_of(from.st_mtim);
    to->stx_ctime = stamp_of(from.st_ctim);
    to->stx_rdev_major = major(from.st_rdev);
    to->stx_rdev_minor = minor(from.st_rdev);
    to->stx_dev_major = major(from.st_dev);
    to->stx_dev_minor = minor(from.st_dev);
    return true;
}

int away_stat_disk(const char *path, int flags, struct stat *status) {
    int result;
    {
        FILES_NOT_ASIDE;
        if (AWAY(stat, AT_FDCWD, path, flags, status, &result))
            return result;
    }
    SHIM_FILES_ASIDE;
    return fstatat(AT_FDCWD, path, status, flags);
}

/* ---- others */

bool away_access_slowly(int directory, const char *path, int mode, int *result) {
    char absolute[PATH_MAX];
    if (!away_applies(directory, path, absolute))
        return false;
    *result = result_of(first_host_look(PROTOCOL_LOOK_ACCESS, absolute, (uint64_t)mode, NULL));
    return true;
}

bool away_link_slowly(int directory, const char *path, char *text, size_t room, long *result) {
    char absolute[PATH_MAX];
    const char *data;
    uint32_t bytes;
    if (!away_applies(directory, path, absolute))
        return false;
    *result = result_of(first_host_fetch(PROTOCOL_LOOK_LINK, absolute, 0, NULL, &data, &bytes));
    if (*result)
        return true;
    *result = (long)(bytes < room ? bytes : room);
    memcpy(text, data, (size_t)*result);
    return true;
}

/* ---- folders that this host has not */

static bool is_folder_away(const char *absolute) {
    struct protocol_status status;
    return !first_host_look(PROTOCOL_LOOK_STATUS, absolute, 0, &status) && S_ISDIR(status.mode);
}

/* absolute: without its last component. False: nobody is asked about it. */
static bool find_parent(const char *path, char *absolute) {
    if (!away_applies(AT_FDCWD, path, absolute))
        return false;
    char *slash = strrchr(absolute, '/');
    *slash = 0;
    return slash > absolute;
}

bool away_has_folder_of(const char *path) {
    char absolute[PATH_MAX];
    FILES_NOT_ASIDE;
    return find_parent(path, absolute) && is_folder_away(absolute);
}

static void check(const char *absolute, const char *what) {
    struct stat own;
    SHIM_FILES_ASIDE;
    if (stat(absolute, &own) && is_folder_away(absolute))
        shim_problem("AR-FILE-HOSTS", AWAY_FOLDER_CURE, "the program %s '%s', which is on host 0 (%s) and not on this one (%s)", what,
                     absolute, first_host_name(), first_host_own_name());
}

void away_check_folder(const char *path) {
    char absolute[PATH_MAX];
    int saved_errno = errno;
    if (away_applies(AT_FDCWD, path, absolute))
        check(absolute, "goes into the folder");
    errno = saved_errno;
}

void away_check_folder_of(const char *path) {
    char absolute[PATH_MAX];
    int saved_errno = errno;
    if (find_parent(path, absolute))
        check(absolute, "makes a scratch folder in");
    errno = saved_errno;
}
