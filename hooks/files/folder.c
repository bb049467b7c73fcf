/*
 * Descriptors of folders that the first host has and this one has not: std::filesystem's iterators, os.scandir(fd) and shutil.rmtree hold such. An empty
 * folder that nobody else sees stands in; what is asked through it is asked about the folder that it stands for.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files.h"

enum { FOLDERS = 64 };

/* By what they are, not by descriptor: those are duplicated. */
static struct {
    dev_t device;
    _Atomic ino_t inode; /* 0: free */
    char path[PATH_MAX]; /* absolute, of the first host */
} folders[FOLDERS];
static _Atomic uint8_t is_used;

/* As the system sees it: fstat has a row here. Nobody has removed an open folder but us. */
static bool read_status(int descriptor, struct stat *now) {
    return !syscall(SYS_fstat, descriptor, now) && S_ISDIR(now->st_mode) && now->st_nlink == 0;
}

static int find(const struct stat *status) {
    for (int i = 0; i < FOLDERS; i++)
        if (atomic_load(&folders[i].inode) == status->st_ino && folders[i].device == status->st_dev)
            return i;
    return -1;
}

const char *folder_path(int descriptor) {
    struct stat now;
    if (__builtin_expect(!atomic_load_explicit(&is_used, memory_order_relaxed), 1) || descriptor < 0)
        return NULL;
    int saved_errno = errno;
    int index = read_status(descriptor, &now) ? find(&now) : -1;
    errno = saved_errno;
    return index < 0 ? NULL : folders[index].path;
}

/* Nobody says when the last descriptor is closed. On the thread that meets. */
static void forget_closed(void) {
    struct stat now;
    struct dirent *entry;
    bool is_open[FOLDERS] = {false};
    DIR *own = opendir("/proc/self/fd");
    if (!own)
        return;
    while ((entry = readdir(own))) {
        int index = read_status(atoi(entry->d_name), &now) ? find(&now) : -1;
        if (index >= 0)
            is_open[index] = true;
    }
    closedir(own);
    for (int i = 0; i < FOLDERS; i++)
        if (!is_open[i])
            atomic_store(&folders[i].inode, 0);
}

/* A place for a new folder, or that of one which has gone and had the inode before. */
static int take_free(const struct stat *now) {
    int index = find(now);
    for (int i = 0; i < 2 * FOLDERS && index < 0; i++) {
        if (i == FOLDERS)
            forget_closed();
        if (!atomic_load(&folders[i % FOLDERS].inode))
            index = i % FOLDERS;
    }
    return index;
}

int folder_stand_in(const char *absolute, int flags) {
    char name[] = "/tmp/accel-run-XXXXXX";
    struct stat now;
    int descriptor = mkdtemp(name) ? open(name, flags & ~O_NOFOLLOW) : -1;
    rmdir(name);
    int index = descriptor < 0 || !read_status(descriptor, &now) ? -1 : take_free(&now);
    if (index < 0)
        shim_problem("AR-FILE-HOSTS", AWAY_FOLDER_CURE,
                     "the program opens the folder '%s', which is on host 0 (%s) and not on this one (%s): it cannot be stood in for by an "
                     "empty one in /tmp, or %d are open",
                     absolute, first_host_name(), first_host_own_name(), FOLDERS);
    atomic_store(&folders[index].inode, 0);
    folders[index].device = now.st_dev;
    snprintf(folders[index].path, PATH_MAX, "%s", absolute);
    atomic_store(&folders[index].inode, now.st_ino);
    atomic_store(&is_used, 1);
    return descriptor;
}

/* ---- rows */

int hook_fstat(int descriptor, void *status) {
    int away;
    struct stat *now = status;
    const char *path = folder_path(descriptor);
    if (path && AWAY(stat, AT_FDCWD, path, 0, status, &away))
        return away;
    int result = NEXT(fstat) ? NEXT(fstat)(descriptor, status) : (int)syscall(SYS_fstat, descriptor, status);
    if (!result && !now->st_nlink && written_has_name(descriptor, now))
        now->st_nlink = 1;
    return result;
}

int hook_fstat64(int descriptor, void *status) {
    return hook_fstat(descriptor, status);
}

int hook_fxstat(int version, int descriptor, void *status) {
    return hook_fstat(descriptor, status);
}

int hook_fxstat64(int version, int descriptor, void *status) {
    return hook_fstat(descriptor, status);
}
