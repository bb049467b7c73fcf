/* Rows of what changes names: all ranks meet, rank 0 acts, the others get its result. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "change.h"

/* ---- directories */

/* Made where tempfile makes them without being told: this rank's own, for their owner alone. libc's mkdtemp() calls no mkdir() that is seen: in a program
   without Python the name is the program's. */
FILES_DEEP static bool is_drawn_directory(const char *path) {
    char absolute[PATH_MAX];
    if (!files_clean(path, absolute) || !scratch_may_be_in(absolute))
        return false;
    return shim_has_python() ? scratch_is_by_tempfile() : scratch_may_be_drawn(absolute) && scratch_begins_usually(absolute);
}

static bool is_scratch_directory(const char *path, unsigned mode) {
    return path && mode == 0700 && files_place() >= FILES_EARLY && is_drawn_directory(path);
}

/* A GPU's driver makes the folder of its cache, and all above it, when it first compiles something, which each rank may come to at another time (seen on an
   H200: '/root', '/root/.nv'). */
static bool is_of_driver(const void *caller) {
    return !strncmp(shim_file_at(caller), "libcuda.so", 10);
}

int hook_mkdir(const char *path, unsigned mode) {
    if (is_of_driver(__builtin_return_address(0)))
        return ORIGINAL(mkdir)(path, mode);
    if (is_scratch_directory(path, mode)) {
        if (scratch_is_anothers(path)) {
            errno = EEXIST;
            return -1;
        }
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
    int result;
    if (apart_rename(AT_FDCWD, from, AT_FDCWD, to, 0, &result))
        return result;
    struct change change;
    result = change_begin(&change, MEETING_RENAME, AT_FDCWD, from, AT_FDCWD, to) ? ORIGINAL(rename)(from, to) : 0;
    return change_end(&change, result);
}

int hook_renameat(int from_directory, const char *from, int to_directory, const char *to) {
    int result;
    if (apart_rename(from_directory, from, to_directory, to, 0, &result))
        return result;
    struct change change;
    result = change_begin(&change, MEETING_RENAME, from_directory, from, to_directory, to)
                 ? ORIGINAL(renameat)(from_directory, from, to_directory, to)
                 : 0;
    return change_end(&change, result);
}

int hook_renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
    int result;
    if (apart_rename(from_directory, from, to_directory, to, flags, &result))
        return result;
    struct change change;
    result = change_begin(&change, MEETING_RENAME, from_directory, from, to_directory, to)
                 ? ORIGINAL(renameat2)(from_directory, from, to_directory, to, flags)
                 : 0;
    return change_end(&change, result);
}

/* ---- removal */

int hook_unlink(const char *path) {
    int result;
    if (apart_remove(AT_FDCWD, path, &result))
        return result;
    struct change change;
    result = change_begin(&change, MEETING_REMOVE, AT_FDCWD, path, 0, NULL) ? ORIGINAL(unlink)(path) : 0;
    return change_end(&change, result);
}

int hook_unlinkat(int directory, const char *path, int flags) {
    int result;
    if (apart_remove(directory, path, &result))
        return result;
    struct change change;
    result = change_begin(&change, MEETING_REMOVE, directory, path, 0, NULL) ? ORIGINAL(unlinkat)(directory, path, flags) : 0;
    return change_end(&change, result);
}

int hook_rmdir(const char *path) {
    struct change change;
    int result = change_begin(&change, MEETING_REMOVE, AT_FDCWD, path, 0, NULL) ? ORIGINAL(rmdir)(path) : 0;
    return change_end(&change, result);
}

int hook_remove(const char *path) {
    int result;
    if (apart_remove(AT_FDCWD, path, &result))
        return result;
    struct change change;
    result = change_begin(&change, MEETING_REMOVE, AT_FDCWD, path, 0, NULL) ? ORIGINAL(remove)(path) : 0;
    return change_end(&change, result);
}

/* ---- links, length */

int hook_link(const char *from, const char *to) {
    struct change change;
    int result = change_begin(&change, MEETING_LINK, AT_FDCWD, from, AT_FDCWD, to) ? ORIGINAL(link)(APART_NAME(AT_FDCWD, from), to) : 0;
    return change_end(&change, result);
}

/* What has no name yet gets one by its descriptor alone. name: of 64 characters. */
static const char *name_to_link(int descriptor, const char *path, int flags, char *name) {
    if (!path || *path || !(flags & AT_EMPTY_PATH) || descriptor < 0)
        return path;
    snprintf(name, 64, "/proc/self/fd/%d", descriptor);
    return name;
}

int hook_linkat(int from_directory, const char *from, int to_directory, const char *to, int flags) {
    struct change change;
    char name[64];
    int result = change_begin(&change, MEETING_LINK, from_directory, name_to_link(from_directory, from, flags, name), to_directory, to)
                     ? ORIGINAL(linkat)(from_directory, APART_NAME(from_directory, from), to_directory, to, flags)
                     : 0;
    return change_end(&change, result);
}

/* What a link leads to is there, or the name could not be followed to it. */
FILES_DEEP static void look_at_target(const char *text, int directory, const char *path) {
    char whole[PATH_MAX], target[PATH_MAX], buffer[PATH_MAX];
    path = files_whole_path(directory, path, whole);
    int before = text[0] == '/' ? 0 : (int)(shim_base_of(path) - path);
    if (snprintf(target, sizeof target, "%.*s%s", before, path, text) < PATH_MAX)
        view(AT_FDCWD, target, buffer);
}

static void settle_target(const char *text, int directory, const char *path) {
    bool is_viewed = atomic_load_explicit(&written_views, memory_order_relaxed);
    if (is_viewed && !shim_rank() && text && files_has_place(directory, path))
        look_at_target(text, directory, path);
}

int hook_symlink(const char *text, const char *path) {
    struct change change;
    settle_target(text, AT_FDCWD, path);
    int result = change_begin(&change, MEETING_LINK, AT_FDCWD, path, 0, NULL) ? ORIGINAL(symlink)(text, path) : 0;
    return change_end(&change, result);
}

int hook_symlinkat(const char *text, int directory, const char *path) {
    struct change change;
    settle_target(text, directory, path);
    int result = change_begin(&change, MEETING_LINK, directory, path, 0, NULL) ? ORIGINAL(symlinkat)(text, directory, path) : 0;
    return change_end(&change, result);
}

int hook_truncate(const char *path, long length) {
    struct change change;
    bool acts = change_begin(&change, MEETING_TRUNCATE, AT_FDCWD, path, 0, NULL);
    int result = acts ? ORIGINAL(truncate)(APART_NAME(AT_FDCWD, path), length) : 0;
    result = change_end(&change, result);
    if (!result && change.is_met && !change.acts)
        sink_cut(change.real[0], length);
    return result;
}

int hook_truncate64(const char *path, long length) {
    return hook_truncate(path, length);
}
