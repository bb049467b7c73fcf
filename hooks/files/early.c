/*
 * Before the claim: a Python program that has not imported torch yet, and does not meet the other ranks' (shim/attach.h): a script or another program has
 * started it, or there are several hosts, or another launcher.
 *
 * All ranks have opened, and perhaps truncated, their logs, and written the same lines. At the claim rank 0 goes on, and the others' open
 * descriptors are exchanged for private copies; their buffered text goes there, too. Additions (append mode) would stand in the file N times
 * by then: so the copies but rank 0's, which know their number from the environment, get a private file from the start. What stands in a copy is what
 * rank 0 has in the file when all have become ranks.
 *
 * Of a program that is neither Python nor linked with libtorch, and loads it when it runs, nobody knows that it will train: what it has open is found at the
 * claim.
 */
#define _GNU_SOURCE
#include "early.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "files.h"

enum { EARLY_FILES = 64, DESCRIPTORS = 1024 };

struct early {
    int descriptor;
    dev_t device;
    ino_t inode;
    bool is_own; /* a private copy already */
    char path[PATH_MAX];
};

static struct early files[EARLY_FILES]; /* of the main thread */
static int count;
static enum meeting_kind changed; /* the first change; its path is empty where there was none */
static char changed_path[PATH_MAX];
static struct timespec begun; /* by the clock that files are dated by */

__attribute__((constructor)) static void early_start(void) {
    clock_gettime(CLOCK_REALTIME_COARSE, &begun);
}

static void note(int descriptor, const char *real, bool is_own) {
    struct stat now;
    int at = 0;
    while (at < count && files[at].descriptor != descriptor) /* its number may be that of one that is closed */
        at++;
    if (at == EARLY_FILES || fstat(descriptor, &now) || !S_ISREG(now.st_mode))
        return;
    count = at == count ? count + 1 : count;
    struct early *early = &files[at];
    *early = (struct early){descriptor, now.st_dev, now.st_ino, is_own, ""};
    strcpy(early->path, real);
}

bool early_concerns(const char *path) {
    char real[PATH_MAX];
    struct stat now;
    SHIM_FILES_ASIDE;
    files_locate(path, real);
    bool is_special = !stat(path, &now) && files_is_special(now.st_mode);
    return !is_special && !files_is_left_alone(real);
}

/* Then it is started by a rank, which will read what it writes. */
static bool rank_is_taken(void) {
    SHIM_FILES_ASIDE;
    return shim_is_taken();
}

int early_open(const char *path, int flags, unsigned mode) {
    char real[PATH_MAX];
    if (shim_slot() == 0)
        return OPEN_PASS;
    if (rank_is_taken()) {
        if (!open_is_lock(path))
            others_tell(AT_FDCWD, path, "writes");
        return OPEN_PASS;
    }
    SHIM_FILES_ASIDE;
    files_locate(path, real);
    bool is_own = flags & O_APPEND && !(flags & O_TRUNC);
    int file = is_own ? sink_open(real, flags, mode) : open(path, flags, mode);
    int saved_errno = errno;
    if (file >= 0)
        note(file, real, is_own);
    errno = saved_errno;
    return file;
}

/* Settings and caches below a hidden folder, of libraries, and names that are drawn are no part of the run. */
void early_note_change(enum meeting_kind kind, const char *path) {
    char real[PATH_MAX];
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    files_locate(path, real);
    if (!changed_path[0] && !scratch_may_be_in(real) && !strstr(real, "/.")) {
        changed = kind;
        strcpy(changed_path, real);
    }
    errno = saved_errno;
}

static void tell_of_change(void) {
    static const char *const words[MEETING_KINDS] = {[MEETING_RENAME] = "renamed",
                                                     [MEETING_REMOVE] = "removed",
                                                     [MEETING_LINK] = "linked",
                                                     [MEETING_TRUNCATE] = "cut",
                                                     [MEETING_LOCK] = "locked and, it may be, written to"};
    if (changed_path[0] && words[changed])
        shim_warning(
            "AR-FILE-EARLY", "import torch before the program changes files",
            "'%s' was %s before torch was imported: by each of the %u copies of the program, or by the first and not found by the others",
            changed_path, words[changed], shim_world_size());
}

/* Rank 0 stands still. What each rank has as its own, a name with its process number or in a folder that it has drawn, stays its own. */
static bool rank_0_has(const struct stat *file) {
    char folder[64];
    struct stat other;
    int32_t processes[BOARD_RANKS_MAX];
    shim_processes(processes);
    snprintf(folder, sizeof folder, "/proc/%d/fd", (int)processes[0]);
    DIR *descriptors = shim_has_hosts() ? NULL : opendir(folder);
    bool has = !descriptors; /* not to be told */
    for (const struct dirent *entry; !has && descriptors && (entry = readdir(descriptors));)
        has = !fstatat(dirfd(descriptors), entry->d_name, &other, 0) && other.st_dev == file->st_dev && other.st_ino == file->st_ino;
    if (descriptors)
        closedir(descriptors);
    return has;
}

/* A lock would go with the descriptor. */
static bool is_locked(int descriptor) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", descriptor);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[bytes > 0 ? bytes : 0] = 0;
    return strstr(text, "lock:");
}

static bool is_common(int descriptor, const char *path, struct stat *now) {
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || !(flags & O_ACCMODE) || fstat(descriptor, now) || !S_ISREG(now->st_mode) || !now->st_nlink)
        return false;
    bool is_drawn = scratch_may_be_in(path) && !(now->st_mode & 077);
    return !is_drawn && rank_0_has(now) && !is_locked(descriptor) && !open_is_lock(path) && early_concerns(path);
}

static void tell_of_additions(int descriptor, const char *path, const struct timespec *when) {
    bool is_since = when->tv_sec > begun.tv_sec || (when->tv_sec == begun.tv_sec && when->tv_nsec >= begun.tv_nsec);
    if (shim_rank() == 1 && (fcntl(descriptor, F_GETFL) & O_APPEND) && is_since)
        shim_warning("AR-FILE-EARLY", "link the program with libtorch, or load that before files are opened",
                     "'%s' was open before libtorch was loaded: what was added to it until then may be in it %u times", path,
                     shim_world_size());
}

void early_find(void) {
    char path[PATH_MAX];
    struct stat now;
    int saved_errno = errno;
    DIR *descriptors = opendir("/proc/self/fd");
    for (const struct dirent *entry; descriptors && (entry = readdir(descriptors));) {
        int descriptor = (int)strtol(entry->d_name, NULL, 10);
        if (descriptor <= STDERR_FILENO || !files_path_of(descriptor, path) || !is_common(descriptor, path, &now))
            continue;
        note(descriptor, path, false);
        tell_of_additions(descriptor, path, &now.st_mtim);
    }
    if (descriptors)
        closedir(descriptors);
    errno = saved_errno;
}

/* The descriptor goes on with a private copy. */
static void divert(int descriptor) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    int flags = fcntl(descriptor, F_GETFL), own = fcntl(descriptor, F_GETFD);
    int sink = sink_open(path, O_RDWR | (flags & (O_APPEND | O_NONBLOCK)), 0);
    if (sink < 0)
        sink_refuse(path);
    lseek(sink, lseek(descriptor, 0, SEEK_CUR), SEEK_SET);
    dup3(sink, descriptor, own & FD_CLOEXEC ? O_CLOEXEC : 0);
    close(sink);
}

static bool is_it(const struct early *early, int descriptor) {
    struct stat now;
    return !fstat(descriptor, &now) && now.st_dev == early->device && now.st_ino == early->inode && fcntl(descriptor, F_GETFL) & O_ACCMODE;
}

/* Standard output may have been made the file, and the descriptor that it was opened with be closed. */
static int first_of(const struct early *early) {
    int descriptor = is_it(early, early->descriptor) ? early->descriptor : 0;
    while (descriptor < DESCRIPTORS && !is_it(early, descriptor))
        descriptor++;
    return descriptor;
}

/* Those that share its place in the file go on sharing it. */
static void take_twins(const struct early *early, struct written *file, int first, off_t at) {
    for (int i = 0; i < DESCRIPTORS; i++) {
        if (i == first || !is_it(early, i) || lseek(i, 0, SEEK_CUR) != at)
            continue;
        if (!early->is_own)
            dup3(first, i, fcntl(i, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0);
        if (file)
            written_add_twin(file, i);
    }
}

/* It is one of the files that this rank has open from now on. */
static void enter(const struct early *early) {
    int descriptor = first_of(early);
    if (descriptor == DESCRIPTORS)
        return;
    off_t at = lseek(descriptor, 0, SEEK_CUR);
    if (!early->is_own)
        divert(descriptor);
    struct written *file = written_new(early->path);
    if (file) {
        file->is_own = file->is_early = true;
        file->is_diverted = !early->is_own;
        written_show(file, descriptor, 0);
    }
    take_twins(early, file, descriptor, at);
}

void early_divert(void) {
    int saved_errno = errno;
    tell_of_change();
    for (int i = 0; i < count && shim_rank(); i++)
        enter(&files[i]);
    count = 0;
    errno = saved_errno;
}

void early_end(void) {
    for (int i = 0; i < count; i++)
        if (!files[i].is_own)
            others_tell(AT_FDCWD, files[i].path, "writes");
    if (changed_path[0])
        others_tell(AT_FDCWD, changed_path, "changes");
}

static void renew(struct written *file, const void *unused) {
    (void)unused;
    if (file->is_early)
        sink_renew(file);
}

void early_renew(void) {
    written_each(renew, NULL);
}
