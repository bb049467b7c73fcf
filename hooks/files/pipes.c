/*
 * Named pipes. What the program writes into one comes once, from rank 0: the others' go nowhere. What comes through one can be read once: each rank would
 * get another part of it, so the program is stopped by name. Standard input, and pipes of the shell's that the arguments name, are copied by the launcher
 * (launcher/streams/input.h).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "change.h"

static bool is_pipe(int directory, const char *path) {
    struct stat now;
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    bool is_one = !fstatat(directory, path, &now, 0) && S_ISFIFO(now.st_mode);
    errno = saved_errno;
    return is_one;
}

/* Pipes without a name have one in /proc and /dev. */
static bool has_own_name(const char *path) {
    struct statfs system;
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    bool has_one = !statfs(path, &system) && system.f_type != PIPEFS_MAGIC;
    errno = saved_errno;
    return has_one;
}

/* On a rank, or what is about to be one. */
static bool is_of_all_ranks(const char *path) {
    char real[PATH_MAX];
    enum files_place place = files_place();
    if (place == FILES_EARLY)
        place = files_place_early(path);
    SHIM_FILES_ASIDE;
    files_locate(path, real);
    return place >= FILES_MEET && !files_is_left_alone(real);
}

FILES_DEEP static void refuse(int directory, const char *path) {
    char whole[PATH_MAX];
    path = files_whole_path(directory, path, whole);
    if (has_own_name(path) && is_of_all_ranks(path))
        shim_problem(
            "AR-PIPE",
            "give it as standard input (accel-run ... <PIPE), or as <(cat PIPE) in the place of its name: every rank gets all of that",
            "the pipe '%s' is opened for reading: each rank would get another part of what comes through it", path);
}

void pipes_refuse_to_read(int directory, const char *path) {
    bool is_watched = atomic_load_explicit(&files_watched, memory_order_relaxed);
    if (is_watched && !shim_files_aside_now && path && is_pipe(directory, path))
        refuse(directory, path);
}

int pipes_open(const char *path, int flags, unsigned mode) {
    FILES_NOT_ASIDE;
    struct change change;
    if ((flags & O_ACCMODE) != O_WRONLY)
        pipes_refuse_to_read(AT_FDCWD, path);
    bool acts = change_begin(&change, MEETING_PIPE, AT_FDCWD, path, 0, NULL);
    SHIM_FILES_ASIDE;
    int descriptor = acts ? open(path, flags, mode) : 0;
    if (change_end(&change, descriptor < 0 ? -1 : 0))
        return -1;
    return acts ? descriptor : open("/dev/null", flags & (O_ACCMODE | O_CLOEXEC | O_NONBLOCK | O_APPEND));
}

/* ---- making them: libc's other functions are this one, too */

int hook_mknodat(int directory, const char *path, unsigned mode, unsigned long device) {
    struct change change;
    int result = change_begin(&change, MEETING_NODE, directory, path, 0, NULL) ? ORIGINAL(mknodat)(directory, path, mode, device) : 0;
    return change_end(&change, result);
}

int hook_mknod(const char *path, unsigned mode, unsigned long device) {
    return hook_mknodat(AT_FDCWD, path, mode, device);
}

int hook_mkfifoat(int directory, const char *path, unsigned mode) {
    return hook_mknodat(directory, path, mode | S_IFIFO, 0);
}

int hook_mkfifo(const char *path, unsigned mode) {
    return hook_mkfifoat(AT_FDCWD, path, mode);
}

/* What programs that were built before glibc 2.33 call. */
int hook_xmknodat(int version, int directory, const char *path, unsigned mode, unsigned long *device) {
    return hook_mknodat(directory, path, mode, *device);
}

int hook_xmknod(int version, const char *path, unsigned mode, unsigned long *device) {
    return hook_mknodat(AT_FDCWD, path, mode, *device);
}
