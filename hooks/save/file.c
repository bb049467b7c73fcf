/*
 * Rank 0's file: a temporary one, then rename().
 *
 *  - libtorch writes the file's stem into the archive (name.pt becomes name/data.pkl), so the temporary name keeps it: model.pt is written
 *    as model.accel-0123abcd, and the bytes are those of a plain run.
 *  - Better a file without a name (O_TMPFILE), which is gone with its process: libtorch's archive is named after the path its constructor
 *    got, and then it opens the path that setup() got, where ours is exchanged. Where setup is not seen (-Bsymbolic builds) or the file
 *    system has no such files (NFS), the named one stays.
 *  - A named one that a killed job has left behind is removed by the next save to the same target. Locks tell: a living job holds one on
 *    its own.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "save.h"

#define MARK ".accel-"
enum { DIGITS = 8, TRIES = 100 };

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
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

/* The path without symbolic links: of the file, or of its directory when it does not exist yet. false: the path cannot be opened. */
static bool find_target(struct save *save) {
    if (realpath(save->path, save->target))
        return true;
    char directory[PATH_MAX], real[PATH_MAX];
    const char *base = base_of(save->path);
    int before = (int)(base - save->path);
    if (errno != ENOENT || !*base || !lstat(save->path, &(struct stat){0})) /* a link to nowhere: left to libtorch */
        return false;
    snprintf(directory, sizeof directory, "%.*s.", before, save->path);
    return realpath(directory, real) &&
           (size_t)snprintf(save->target, sizeof save->target, "%s/%s", strcmp(real, "/") ? real : "", base) < sizeof save->target;
}

/* Removes what killed jobs have left for this target. */
static void remove_leftovers(const char *target) {
    char directory[PATH_MAX];
    const char *base = base_of(target);
    int stem = stem_length(base);
    strcpy(directory, target);
    cut_base(directory);
    DIR *entries = opendir(directory);
    if (!entries)
        return;
    for (struct dirent *entry; (entry = readdir(entries));) {
        const char *name = entry->d_name;
        if (strncmp(name, base, (size_t)stem) || strncmp(name + stem, MARK, strlen(MARK)) ||
            strspn(name + stem + strlen(MARK), "0123456789abcdef") != DIGITS || strlen(name) != stem + strlen(MARK) + DIGITS)
            continue;
        int file = openat(dirfd(entries), name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (file >= 0 && !flock(file, LOCK_EX | LOCK_NB))
            unlinkat(dirfd(entries), name, 0);
        if (file >= 0)
            close(file);
    }
    closedir(entries);
}

/* A name beside the target: number is any. */
static bool temporary_name(char *name, const char *target, unsigned number) {
    const char *base = base_of(target);
    return snprintf(name, PATH_MAX, "%.*s%.*s" MARK "%08x", (int)(base - target), target, stem_length(base), base, number) < PATH_MAX;
}

/* Gives the temporary file the permissions and the owner of the one it replaces. false: this process may not. */
static bool imitate(int file, struct save *save) {
    struct stat now, old;
    if (!save->mode)
        return true;
    if (stat(save->target, &old) || fstat(file, &now))
        return false;
    if ((old.st_uid != now.st_uid || old.st_gid != now.st_gid) && fchown(file, old.st_uid, old.st_gid))
        return false;
    return !fchmod(file, save->mode & 07777);
}

/* Makes the named temporary file. Returns 0 or an errno. */
static int make_named(struct save *save) {
    char name[PATH_MAX];
    for (unsigned i = 0; i < TRIES; i++) {
        if (!temporary_name(name, save->target, (unsigned)getpid() + i * 0x9E3779B1u))
            return ENAMETOOLONG;
        save->file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (save->file >= 0)
            break;
        if (errno != EEXIST)
            return errno;
    }
    if (save->file < 0)
        return EEXIST;
    flock(save->file, LOCK_EX | LOCK_NB);
    save_set_string(&save->opened, name);
    if (imitate(save->file, save))
        return 0;
    file_discard(save);
    return EPERM;
}

void file_begin(struct save *save) {
    struct stat old;
    int saved_errno = errno;
    save->way = SAVE_FAIL;
    save->mode = 0;
    if (!find_target(save))
        goto out;
    bool exists = !stat(save->target, &old);
    if (exists && (S_ISDIR(old.st_mode) || access(save->target, W_OK)))
        goto out;
    save->way = SAVE_DIRECT;
    if (exists && (!S_ISREG(old.st_mode) || old.st_nlink > 1))
        goto out;
    save->mode = exists ? old.st_mode : 0;
    remove_leftovers(save->target);
    int problem = make_named(save);
    if (!problem) {
        save->way = SAVE_REPLACE;
        goto out;
    }
    save_set_string(&save->opened, save->path);
    bool in_place = exists || problem == ENAMETOOLONG; /* nothing can be created here, but what is there can be written */
    save->way = in_place ? SAVE_DIRECT : SAVE_FAIL;
out:
    errno = saved_errno;
}

void file_unname(struct save *save) {
    char directory[PATH_MAX], link[64];
    int saved_errno = errno;
    strcpy(directory, save->target);
    cut_base(directory);
    int file = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (file < 0 || access(link, W_OK) || !imitate(file, save)) {
        if (file >= 0)
            close(file);
        errno = saved_errno;
        return;
    }
    flock(file, LOCK_EX | LOCK_NB);
    file_discard(save);
    save->file = file;
    save->is_unnamed = true;
    save_set_string(&save->opened, link);
    errno = saved_errno;
}

/* Gives the unnamed file a name beside the target. Returns 0 or an errno. */
static int name_file(struct save *save, char *name) {
    for (unsigned i = 0; i < TRIES; i++) {
        if (!temporary_name(name, save->target, (unsigned)getpid() + i * 0x9E3779B1u))
            return ENAMETOOLONG;
        if (!linkat(AT_FDCWD, save->opened.text, AT_FDCWD, name, AT_SYMLINK_FOLLOW))
            return 0;
        if (errno != EEXIST)
            return errno;
    }
    return EEXIST;
}

int file_commit(struct save *save) {
    char name[PATH_MAX];
    int saved_errno = errno, problem = 0;
    if (save->is_unnamed && (problem = name_file(save, name)))
        goto out;
    if (save->is_unnamed)
        save_set_string(&save->opened, name);
    save->is_unnamed = false;
    if (rename(save->opened.text, save->target))
        problem = errno;
out:
    if (problem) {
        file_discard(save);
    } else {
        close(save->file);
        save->file = -1;
    }
    errno = saved_errno;
    return problem;
}

void file_discard(struct save *save) {
    if (save->file < 0)
        return;
    int saved_errno = errno;
    if (!save->is_unnamed)
        unlink(save->opened.text);
    close(save->file);
    save->file = -1;
    errno = saved_errno;
}
