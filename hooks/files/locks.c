/*
 * flock(): rank 0 takes the lock, which other processes see, and the others get its answer: each for itself would have the lock of its private copy, or
 * stand in the way of the others. What is locked is the file itself: not one that is written beside its place.
 */
#define _GNU_SOURCE
#include <stdio.h>

#include "change.h"

int hook_flock(int descriptor, int operation) {
    char path[PATH_MAX];
    struct change change;
    if (files_place() < FILES_MEET)
        return ORIGINAL(flock)(descriptor, operation);
    struct written *file = written_find(descriptor);
    if (file && shim_rank() == 0)
        written_put_in_place(file);
    bool has_path = file ? snprintf(path, sizeof path, "%s", file->path) > 0 : files_path_of(descriptor, path) > 0;
    bool acts = !has_path || change_begin(&change, MEETING_LOCK, AT_FDCWD, path, 0, NULL);
    int result = acts ? ORIGINAL(flock)(descriptor, operation) : 0;
    return has_path ? change_end(&change, result) : result;
}
