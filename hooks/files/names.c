/* Rows of what changes names: all ranks meet, rank 0 acts, the others get its result. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include "change.h"

/* ---- directories */

/* A name that all ranks have alike is none that each has drawn. */
static bool have_one_name(const char *path) {
    struct meeting meeting;
    meeting_come(&meeting, MEETING_DIRECTORY, path, NULL);
    if (shim_rank() == 0)
        meeting_answer(&meeting, 0, meeting_is_of_one_name());
    else
        meeting_await(&meeting);
    return meeting.answer;
}

/* How Python's tempfile makes them where it does without being told: this rank's own. */
static bool is_scratch_directory(const char *path, unsigned mode) {
    char absolute[PATH_MAX];
    enum files_place place = path && mode == 0700 ? files_place() : FILES_PASS;
    if (place < FILES_EARLY || !files_clean(path, absolute) || !scratch_may_be_in(absolute) || !scratch_may_be_drawn(absolute))
        return false;
    return place != FILES_MEET || scratch_begins_usually(absolute) || !have_one_name(absolute);
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

/* What a link leads to is there, or the name could not be followed to it. */
int hook_symlink(const char *text, const char *path) {
    struct change change;
    written_publish_all();
    int result = change_begin(&change, MEETING_LINK, AT_FDCWD, path, 0, NULL) ? ORIGINAL(symlink)(text, path) : 0;
    return change_end(&change, result);
}

int hook_symlinkat(const char *text, int directory, const char *path) {
    struct change change;
    written_publish_all();
    int result = change_begin(&change, MEETING_LINK, directory, path, 0, NULL) ? ORIGINAL(symlinkat)(text, directory, path) : 0;
    return change_end(&change, result);
}

int hook_truncate(const char *path, long length) {
    struct change change;
    int result = change_begin(&change, MEETING_TRUNCATE, AT_FDCWD, path, 0, NULL) ? ORIGINAL(truncate)(path, length) : 0;
    result = change_end(&change, result);
    if (!result && change.is_met && !change.acts)
        sink_cut(change.real[0], length);
    return result;
}

int hook_truncate64(const char *path, long length) {
    return hook_truncate(path, length);
}
