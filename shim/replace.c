#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shim.h"

#define MARK ".accel-"
enum { DIGITS = 8, TRIES = 100 };
enum { LINKS = 40 };       /* the kernel follows no more */
enum { NOT_BY_NAME = -1 }; /* beside errnos */
enum { FOLDERS = 64 };

static uint32_t number_of_try(uint32_t process, uint32_t count) {
    return process + count * 0x9E3779B1u;
}

/* Up to the last dot, as libtorch cuts it. */
static int stem_length(const char *base) {
    const char *dot = strrchr(base, '.');
    return (int)(dot ? (size_t)(dot - base) : strlen(base));
}

/* The directory of a path that has a slash, in place. */
static void cut_base(char *path) {
    char *slash = strrchr(path, '/');
    slash[slash == path] = 0;
}

/* Where the link to nowhere leads from its folder, in place: that is where the kernel makes a file. 0: this is no link; -1: nobody can tell. */
static int follow_link(char *path) {
    char text[PATH_MAX], link[PATH_MAX];
    ssize_t length = readlink(path, text, sizeof text - 1);
    if (length <= 0)
        return 0;
    text[length] = 0;
    strcpy(link, path);
    int folder = text[0] == '/' ? 0 : (int)(shim_base_of(link) - link);
    return snprintf(path, PATH_MAX, "%.*s%s", folder, link, text) < PATH_MAX ? 1 : -1;
}

/* Of what is on the disk: the program's looks are not asked (hooks/files/where.c). */
static bool is_resolved(const char *path, char *real) {
    SHIM_FILES_ASIDE;
    return realpath(path, real);
}

bool replace_locate_name(const char *path, char *real) {
    char directory[PATH_MAX], parent[PATH_MAX];
    const char *base = shim_base_of(path);
    int before = (int)(base - path);
    if (!*base || (size_t)snprintf(directory, sizeof directory, "%.*s.", before, path) >= sizeof directory)
        return false;
    return is_resolved(directory, parent) && snprintf(real, PATH_MAX, "%s/%s", strcmp(parent, "/") ? parent : "", base) < PATH_MAX;
}

bool replace_locate(const char *path, char *real) {
    char followed[PATH_MAX];
    struct stat status;
    if (is_resolved(path, real))
        return true;
    /* What is there all the same has no name (/dev/fd/3 of a file that has been removed). */
    if (errno != ENOENT || !stat(path, &status) || (size_t)snprintf(followed, sizeof followed, "%s", path) >= sizeof followed)
        return false;
    int leads, links = 0;
    while ((leads = follow_link(followed)) > 0)
        if (++links > LINKS)
            return false;
    return !leads && replace_locate_name(followed, real);
}

bool replace_is_temporary(const char *name, const int32_t *makers, uint32_t count) {
    size_t length = strlen(name), end = strlen(MARK) + DIGITS;
    if (length < end || strncmp(name + length - end, MARK, strlen(MARK)) || strspn(name + length - DIGITS, "0123456789abcdef") != DIGITS)
        return false;
    uint32_t number = (uint32_t)strtoul(name + length - DIGITS, NULL, 16);
    for (uint32_t i = 0; i < count * TRIES; i++)
        if (number == number_of_try((uint32_t)makers[i / TRIES], i % TRIES))
            return true;
    return false;
}

/* Names carry the process number of their maker. One without a lock may be about to be renamed (replace_open's, which cannot lock the
   program's descriptor). */
static bool has_living_maker(const char *digits) {
    pid_t maker = (pid_t)strtoul(digits, NULL, 16);
    return maker > 0 && (!kill(maker, 0) || errno == EPERM);
}

/* How much of the name of a temporary file whose maker has ended is its target's; -1: it is none. */
static int left_over(const char *name) {
    const int end = (int)strlen(MARK) + DIGITS;
    int stem = (int)strlen(name) - end;
    if (stem < 0 || strncmp(name + stem, MARK, strlen(MARK)))
        return -1;
    const char *digits = name + stem + strlen(MARK);
    return strspn(digits, "0123456789abcdef") != DIGITS || has_living_maker(digits) ? -1 : stem;
}

/* Folders in which there was nothing of the kind: a process that writes ten thousand files into one looks through it once. */
static _Atomic uint64_t clean[FOLDERS];

static uint64_t number_of_folder(const char *directory) {
    struct statx now;
    if (statx(AT_FDCWD, directory, 0, STATX_INO | STATX_BTIME, &now))
        return 0;
    uint64_t device = (uint64_t)now.stx_dev_major << 32 | now.stx_dev_minor;
    uint64_t born = (uint64_t)now.stx_btime.tv_sec << 30 ^ now.stx_btime.tv_nsec;
    return now.stx_ino ^ (device * 31 + born) * 0x9E3779B97F4A7C15u; /* another folder may get the number of one that is gone */
}

/* Removes what killed jobs have left for this target. */
static void remove_leftovers(const char *target) {
    char directory[PATH_MAX];
    const char *base = shim_base_of(target);
    int stem = stem_length(base);
    bool is_clean = true;
    strcpy(directory, target);
    cut_base(directory);
    uint64_t number = number_of_folder(directory);
    _Atomic uint64_t *place = &clean[number % FOLDERS];
    DIR *entries = number && atomic_load(place) == number ? NULL : opendir(directory);
    if (!entries)
        return;
    for (struct dirent *entry; (entry = readdir(entries));) {
        int its_stem = left_over(entry->d_name);
        is_clean = is_clean && its_stem < 0;
        if (its_stem != stem || strncmp(entry->d_name, base, (size_t)stem))
            continue;
        int file = openat(dirfd(entries), entry->d_name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (file >= 0 && !flock(file, LOCK_EX | LOCK_NB))
            unlinkat(dirfd(entries), entry->d_name, 0);
        if (file >= 0)
            close(file);
    }
    closedir(entries);
    if (is_clean)
        atomic_store(place, number);
}

/* A name beside the target: number is any. */
static bool temporary_name(char *name, const char *target, unsigned number) {
    const char *base = shim_base_of(target);
    return strlen(MARK) + DIGITS + (size_t)stem_length(base) <= NAME_MAX &&
           snprintf(name, PATH_MAX, "%.*s%.*s" MARK "%08x", (int)(base - target), target, stem_length(base), base, number) < PATH_MAX;
}

#define ACCESS_LIST "system.posix_acl_access"

/* What the program, or its user, has given to the one file alone: attributes, and rights of further users. What file systems, and the system's own security,
   write there is theirs. */
static bool copy_attributes(int file, const char *target) {
    char names[4096], value[4096];
    ssize_t length = listxattr(target, names, sizeof names);
    for (const char *name = names; length > 0 && name < names + length; name += strlen(name) + 1) {
        if (strncmp(name, "user.", 5) && strcmp(name, ACCESS_LIST))
            continue;
        ssize_t bytes = getxattr(target, name, value, sizeof value);
        if (bytes < 0 || fsetxattr(file, name, value, (size_t)bytes, 0))
            return false;
    }
    return length >= 0 || errno != ERANGE;
}

/* Gives the temporary file the permissions, the owner and the attributes of the one it replaces. false: this process may not. */
static bool imitate(int file, const struct replacement *replacement) {
    struct stat now, old;
    if (!replacement->mode)
        return true;
    if (stat(replacement->target, &old) || fstat(file, &now))
        return false;
    if ((old.st_uid != now.st_uid || old.st_gid != now.st_gid) && fchown(file, old.st_uid, old.st_gid))
        return false;
    fremovexattr(file, ACCESS_LIST); /* that of the folder, for new files */
    return !fchmod(file, replacement->mode & 07777) && copy_attributes(file, replacement->target);
}

/* Makes the named temporary file. Returns 0 or an errno. */
static int make_named(struct replacement *replacement, int flags, mode_t mode) {
    char *name = replacement->name;
    for (unsigned i = 0; i < TRIES; i++) {
        if (!temporary_name(name, replacement->target, number_of_try((uint32_t)getpid(), i)))
            return ENAMETOOLONG;
        replacement->file = open(name, flags | O_CREAT | O_EXCL, mode);
        if (replacement->file >= 0)
            break;
        if (errno != EEXIST)
            return errno;
    }
    if (replacement->file < 0)
        return EEXIST;
    replacement->is_locked = !flock(replacement->file, LOCK_EX | LOCK_NB);
    bool is_usable = replacement->is_borrowed || !access(name, W_OK);
    if (is_usable && imitate(replacement->file, replacement))
        return 0;
    unlink(name);
    close(replacement->file);
    replacement->file = -1;
    return is_usable ? EPERM : NOT_BY_NAME;
}

/* By itself, as `docker run -v` does: no other file can take its name. Kernels before 5.8 do not say so. */
static bool is_mounted(const char *target) {
    struct statx now;
    return !statx(AT_FDCWD, target, 0, 0, &now) && now.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/* DIRECT, FAIL or perhaps WHOLE; sets target and mode. */
static enum replace_way judge(struct replacement *replacement, const char *path) {
    struct stat old;
    replacement->file = -1;
    replacement->is_unnamed = replacement->is_borrowed = replacement->is_locked = false;
    replacement->mode = 0;
    if (!replace_locate(path, replacement->target))
        return REPLACE_FAIL;
    bool exists = !stat(replacement->target, &old);
    if (exists && (S_ISDIR(old.st_mode) || access(replacement->target, W_OK)))
        return REPLACE_FAIL;
    if (exists && (!S_ISREG(old.st_mode) || old.st_nlink > 1 || is_mounted(replacement->target)))
        return REPLACE_DIRECT;
    replacement->mode = exists ? old.st_mode : 0;
    return REPLACE_WHOLE;
}

/* When the temporary file cannot be made: nothing can be created here, but what is there can be written. Or it is there, but may not be opened by its name,
   which only its maker may: the umask takes the owner's right, too. */
static enum replace_way judge_failure(const struct replacement *replacement, int problem) {
    return replacement->mode || problem == ENAMETOOLONG || problem == NOT_BY_NAME ? REPLACE_DIRECT : REPLACE_FAIL;
}

/* Where this process finds a file that has no name. */
static void link_to(int file, char *link) {
    snprintf(link, REPLACE_LINK_BYTES, "/proc/self/fd/%d", file);
}

/* A file without a name beside the target, which can also be opened anew; or -1. */
static int make_unnamed(struct replacement *replacement, int flags, mode_t mode) {
    char directory[PATH_MAX], link[REPLACE_LINK_BYTES];
    strcpy(directory, replacement->target);
    cut_base(directory);
    int file = open(directory, O_TMPFILE | flags, mode);
    link_to(file, link);
    if (file < 0 || access(link, replacement->is_borrowed ? F_OK : W_OK) || !imitate(file, replacement)) {
        if (file >= 0)
            close(file);
        return -1;
    }
    if (!replacement->is_borrowed)
        flock(file, LOCK_EX | LOCK_NB);
    return file;
}

/* What a file without a name is called by, where only a name will do: nothing is there. Returns 0 or an errno. */
static int call_unnamed(struct replacement *replacement) {
    for (unsigned i = 0; i < TRIES; i++) {
        if (!temporary_name(replacement->name, replacement->target, number_of_try((uint32_t)getpid(), i)))
            return ENAMETOOLONG;
        if (lstat(replacement->name, &(struct stat){0}))
            return 0;
    }
    return EEXIST;
}

/* Returns 0 or an errno. */
static int make_temporary(struct replacement *replacement, int flags, mode_t mode) {
    if (!temporary_name(replacement->name, replacement->target, 0)) /* what is complete could not take its name from there */
        return ENAMETOOLONG;
    remove_leftovers(replacement->target);
    replacement->file = make_unnamed(replacement, flags, mode);
    replacement->is_unnamed = replacement->file >= 0;
    return replacement->is_unnamed ? 0 : make_named(replacement, flags, mode);
}

enum replace_way replace_begin(struct replacement *replacement, const char *path) {
    SHIM_FILES_ASIDE;
    int saved_errno = errno;
    enum replace_way way = judge(replacement, path);
    if (way == REPLACE_WHOLE) {
        int problem = make_temporary(replacement, O_WRONLY | O_CLOEXEC, 0666);
        if (replacement->is_unnamed && (problem = call_unnamed(replacement)))
            replace_discard(replacement);
        way = problem ? judge_failure(replacement, problem) : REPLACE_WHOLE;
    }
    errno = saved_errno;
    return way;
}

const char *replace_path(const struct replacement *replacement, char *link) {
    link_to(replacement->file, link);
    return replacement->is_unnamed ? link : replacement->name;
}

enum replace_way replace_open(struct replacement *replacement, const char *path, int flags, mode_t mode) {
    SHIM_FILES_ASIDE;
    int saved_errno = errno;
    enum replace_way way = judge(replacement, path);
    if (way == REPLACE_WHOLE) {
        flags &= O_ACCMODE | O_APPEND | O_CLOEXEC | O_SYNC | O_DSYNC | O_LARGEFILE | O_NOATIME | O_NONBLOCK;
        replacement->is_borrowed = true;
        int problem = make_temporary(replacement, flags, mode);
        way = problem ? judge_failure(replacement, problem) : REPLACE_WHOLE;
    }
    errno = saved_errno;
    return way;
}

/* Gives the unnamed file a name beside the target. Returns 0 or an errno. */
static int name_file(struct replacement *replacement, const char *link) {
    for (unsigned i = 0; i < TRIES; i++) {
        if (!temporary_name(replacement->name, replacement->target, number_of_try((uint32_t)getpid(), i)))
            return ENAMETOOLONG;
        if (!linkat(AT_FDCWD, link, AT_FDCWD, replacement->name, AT_SYMLINK_FOLLOW))
            return 0;
        if (errno != EEXIST)
            return errno;
    }
    return EEXIST;
}

/* A lock belongs to the open file, which is the program's from then on: it would wait for its own. */
void replace_unlock(struct replacement *replacement) {
    if (replacement->is_borrowed && replacement->is_locked)
        flock(replacement->file, LOCK_UN);
    replacement->is_locked = false;
}

static void let_go(struct replacement *replacement) {
    replace_unlock(replacement);
    if (!replacement->is_borrowed)
        close(replacement->file);
    replacement->file = -1;
}

/* It was opened by its name after all, by a call that nobody saw (a libstdc++ that is part of libtorch): that is the file. */
static void adopt_named(struct replacement *replacement) {
    if (!replacement->is_unnamed || replacement->is_borrowed)
        return;
    int file = open(replacement->name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return;
    imitate(file, replacement);
    close(replacement->file);
    replacement->file = file;
    replacement->is_unnamed = false;
}

int replace_commit(struct replacement *replacement) {
    SHIM_FILES_ASIDE;
    char link[REPLACE_LINK_BYTES];
    int saved_errno = errno, problem = 0;
    adopt_named(replacement);
    link_to(replacement->file, link);
    /* A target that is not there yet: its name at once. */
    bool is_new =
        replacement->is_unnamed && !replacement->mode && !linkat(AT_FDCWD, link, AT_FDCWD, replacement->target, AT_SYMLINK_FOLLOW);
    if (replacement->is_unnamed && !is_new)
        problem = name_file(replacement, link);
    replacement->is_unnamed = replacement->is_unnamed && problem;
    if (!problem && !is_new && rename(replacement->name, replacement->target))
        problem = errno;
    if (problem)
        replace_discard(replacement);
    else
        let_go(replacement);
    errno = saved_errno;
    return problem;
}

void replace_discard(struct replacement *replacement) {
    if (replacement->file < 0)
        return;
    SHIM_FILES_ASIDE;
    int saved_errno = errno;
    adopt_named(replacement);
    if (!replacement->is_unnamed)
        unlink(replacement->name);
    let_go(replacement);
    errno = saved_errno;
}
