/* Rows of what changes names: all ranks meet, rank 0 acts, the others get its result. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

struct change {
    struct meeting meeting;
    enum meeting_kind kind;
    char whole[2][PATH_MAX], real[2][PATH_MAX]; /* the second is empty where there is one name only */
    const char *paths[2];
    bool is_met, acts;
};

/* Files that one process would have under these names are in their place now (rank 0). */
static void settle(const char *path) {
    char buffer[PATH_MAX];
    if (shim_rank() == 0)
        view(AT_FDCWD, path, buffer);
}

/* The name itself, also of a link: only the directory is made real. */
static void locate_name(const char *path, char *real) {
    char parent[PATH_MAX];
    struct stat now;
    if (lstat(path, &now) || !S_ISLNK(now.st_mode) || snprintf(parent, sizeof parent, "%s", path) >= PATH_MAX) {
        files_locate(path, real);
        return;
    }
    snprintf(real, PATH_MAX, "%s", path);
}

static bool is_everybodys_own(const char *path, const char *real) {
    struct stat now;
    if (files_is_left_alone(real))
        return true;
    bool is_there = !away_stat_disk(path, AT_SYMLINK_NOFOLLOW, &now);
    return is_there && !S_ISREG(now.st_mode) && !S_ISDIR(now.st_mode) && !S_ISLNK(now.st_mode);
}

/* A private file gets a name that all ranks know, or loses its own: rank 0's counts, the others' copies go. */
static void after_rename(struct change *change) {
    struct written *file = written_find_path(change->real[0]);
    if (file)
        strcpy(file->path, change->real[1]);
    if (scratch_has(change->real[0]) && shim_rank())
        unlink(change->paths[0]);
    scratch_forget(change->real[0]);
}

static void after_remove(struct change *change) {
    struct written *file = written_find_path(change->real[0]);
    if (file)
        file->path[0] = 0;
}

static void forget_scratch(struct change *change) {
    if (change->kind == MEETING_REMOVE || change->kind == MEETING_RENAME)
        scratch_forget(change->real[0]);
}

/* Fills in the names; true: the ranks meet. */
static bool prepare(struct change *change, int directory, const char *path, int second_directory, const char *second) {
    change->paths[0] = files_whole_path(directory, path, change->whole[0]);
    change->paths[1] = second ? files_whole_path(second_directory, second, change->whole[1]) : NULL;
    for (int i = 0; i < 2 && change->paths[i]; i++)
        settle(change->paths[i]);
    SHIM_FILES_ASIDE;
    for (int i = 0; i < 2 && change->paths[i]; i++)
        locate_name(change->paths[i], change->real[i]);
    int last = change->paths[1] ? 1 : 0; /* what is made, or the only one */
    if (!is_everybodys_own(change->paths[last], change->real[last]))
        return true;
    forget_scratch(change);
    return false;
}

/* Returns true on the ranks that act. */
static bool change_begin(struct change *change, enum meeting_kind kind, int directory, const char *path, int second_directory,
                         const char *second) {
    change->kind = kind;
    change->is_met = false;
    change->acts = true;
    if (!path || files_place() != FILES_MEET || !prepare(change, directory, path, second_directory, second))
        return true;
    change->is_met = true;
    meeting_come(&change->meeting, kind, change->paths[0], change->paths[1]);
    change->acts = shim_rank() == 0;
    if (!change->acts)
        meeting_await(&change->meeting);
    return change->acts;
}

static int change_end(struct change *change, int result) {
    if (!change->is_met)
        return result;
    SHIM_FILES_ASIDE;
    int error = result ? errno : 0;
    if (change->acts)
        meeting_answer(&change->meeting, error, 0);
    else
        error = change->meeting.error;
    if (!error && change->kind == MEETING_RENAME)
        after_rename(change);
    if (!error && change->kind == MEETING_REMOVE)
        after_remove(change);
    for (int i = 0; i < 2 && !change->acts && !error && change->paths[i]; i++)
        view_add_alias(change->paths[i], change->meeting.paths[i]);
    errno = error ? error : errno;
    return error ? -1 : 0;
}

/* ---- directories */

/* How Python's tempfile makes them: this rank's own. */
static bool is_scratch_directory(const char *path, unsigned mode) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (mode != 0700 || !slash || files_place() < FILES_MEET)
        return false;
    return !strncmp(path, "/tmp/", 5) || !strncmp(path, "/var/tmp/", 9) || !strncmp(slash, "/tmp", 4);
}

int hook_mkdir(const char *path, unsigned mode) {
    if (is_scratch_directory(path, mode)) {
        int made = ORIGINAL(mkdir)(path, mode);
        if (made && errno == ENOENT)
            away_check_folder_of(path);
        if (!made)
            scratch_add(path);
        return made;
    }
    struct change change;
    int result = change_begin(&change, MEETING_DIRECTORY, AT_FDCWD, path, 0, NULL) ? ORIGINAL(mkdir)(path, mode) : 0;
    return change_end(&change, result);
}

int hook_mkdirat(int directory, const char *path, unsigned mode) {
    struct change change;
    int result = change_begin(&change, MEETING_DIRECTORY, directory, path, 0, NULL) ? ORIGINAL(mkdirat)(directory, path, mode) : 0;
    return change_end(&change, result);
}

/* ---- rename */

int hook_rename(const char *from, const char *to) {
    struct change change;
    int result = change_begin(&change, MEETING_RENAME, AT_FDCWD, from, AT_FDCWD, to) ? ORIGINAL(rename)(from, to) : 0;
    return change_end(&change, result);
}

int hook_renameat(int from_directory, const char *from, int to_directory, const char *to) {
    struct change change;
    int result = change_begin(&change, MEETING_RENAME, from_directory, from, to_directory, to)
                     ? ORIGINAL(renameat)(from_directory, from, to_directory, to)
                     : 0;
    return change_end(&change, result);
}

int hook_renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
    struct change change;
    int result = change_begin(&change, MEETING_RENAME, from_directory, from, to_directory, to)
                     ? ORIGINAL(renameat2)(from_directory, from, to_directory, to, flags)
                     : 0;
    return change_end(&change, result);
}

/* ---- removal */

int hook_unlink(const char *path) {
    struct change change;
    int result = change_begin(&change, MEETING_REMOVE, AT_FDCWD, path, 0, NULL) ? ORIGINAL(unlink)(path) : 0;
    return change_end(&change, result);
}

int hook_unlinkat(int directory, const char *path, int flags) {
    struct change change;
    int result = change_begin(&change, MEETING_REMOVE, directory, path, 0, NULL) ? ORIGINAL(unlinkat)(directory, path, flags) : 0;
    return change_end(&change, result);
}

int hook_rmdir(const char *path) {
    struct change change;
    int result = change_begin(&change, MEETING_REMOVE, AT_FDCWD, path, 0, NULL) ? ORIGINAL(rmdir)(path) : 0;
    return change_end(&change, result);
}

int hook_remove(const char *path) {
    struct change change;
    int result = change_begin(&change, MEETING_REMOVE, AT_FDCWD, path, 0, NULL) ? ORIGINAL(remove)(path) : 0;
    return change_end(&change, result);
}

/* ---- links, length */

int hook_link(const char *from, const char *to) {
    struct change change;
    int result = change_begin(&change, MEETING_LINK, AT_FDCWD, from, AT_FDCWD, to) ? ORIGINAL(link)(from, to) : 0;
    return change_end(&change, result);
}

int hook_linkat(int from_directory, const char *from, int to_directory, const char *to, int flags) {
    struct change change;
    int result = change_begin(&change, MEETING_LINK, from_directory, from, to_directory, to)
                     ? ORIGINAL(linkat)(from_directory, from, to_directory, to, flags)
                     : 0;
    return change_end(&change, result);
}

int hook_symlink(const char *text, const char *path) {
    struct change change;
    int result = change_begin(&change, MEETING_LINK, AT_FDCWD, path, 0, NULL) ? ORIGINAL(symlink)(text, path) : 0;
    return change_end(&change, result);
}

int hook_symlinkat(const char *text, int directory, const char *path) {
    struct change change;
    int result = change_begin(&change, MEETING_LINK, directory, path, 0, NULL) ? ORIGINAL(symlinkat)(text, directory, path) : 0;
    return change_end(&change, result);
}

int hook_truncate(const char *path, long length) {
    struct change change;
    int result = change_begin(&change, MEETING_TRUNCATE, AT_FDCWD, path, 0, NULL) ? ORIGINAL(truncate)(path, length) : 0;
    return change_end(&change, result);
}

int hook_truncate64(const char *path, long length) {
    return hook_truncate(path, length);
}

/* ---- scratch files */

/* descriptor: what libc has made; where this host has not the folder, a private file of the name that it has tried. */
static int add_scratch(int descriptor, const char *path, int flags) {
    char real[PATH_MAX];
    if (descriptor >= 0 && files_place() >= FILES_MEET)
        scratch_add(path);
    if (descriptor >= 0 || errno != ENOENT || !away_has_folder_of(path))
        return descriptor;
    SHIM_FILES_ASIDE;
    files_locate(path, real);
    return open_private(real, O_RDWR | flags);
}

int hook_mkstemp(char *path) {
    return add_scratch(ORIGINAL(mkstemp)(path), path, 0);
}

int hook_mkstemp64(char *path) {
    return hook_mkstemp(path);
}

int hook_mkostemp(char *path, int flags) {
    return add_scratch(ORIGINAL(mkostemp)(path, flags), path, flags);
}

int hook_mkostemp64(char *path, int flags) {
    return hook_mkostemp(path, flags);
}

int hook_mkstemps(char *path, int suffix) {
    return add_scratch(ORIGINAL(mkstemps)(path, suffix), path, 0);
}

int hook_mkstemps64(char *path, int suffix) {
    return hook_mkstemps(path, suffix);
}

char *hook_mkdtemp(char *path) {
    char *made = ORIGINAL(mkdtemp)(path);
    if (!made && errno == ENOENT)
        away_check_folder_of(path);
    if (made && files_place() >= FILES_MEET)
        scratch_add(made);
    return made;
}
