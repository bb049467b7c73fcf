/*
 * Rows of attributes: all ranks meet, and rank 0 sets them. A rank that set them by itself would do so before a slower one has looked at them. Who has a
 * private copy of the file sets its, too, where the program will look.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "change.h"

struct setting {
    struct change change;
    bool acts;
    const char *path; /* where to set it, when there is anything to be done here */
};

/* In a row's own frame. */
#define setting_begin(setting, directory, name)                                                                                            \
    ((setting)->acts = change_begin(&(setting)->change, MEETING_ATTRIBUTES, directory, name, 0, NULL),                                     \
     (setting)->path = VIEW(directory, name), (setting)->acts || view_is_copy((setting)->path))

static int setting_end(struct setting *setting, int result) {
    return change_end(&setting->change, setting->acts ? result : 0);
}

/* ---- mode and owner */

int hook_chmod(const char *path, unsigned mode) {
    struct setting setting;
    return setting_end(&setting, setting_begin(&setting, AT_FDCWD, path) ? ORIGINAL(chmod)(setting.path, mode) : 0);
}

int hook_fchmodat(int directory, const char *path, unsigned mode, int flags) {
    struct setting setting;
    return setting_end(&setting, setting_begin(&setting, directory, path) ? ORIGINAL(fchmodat)(directory, setting.path, mode, flags) : 0);
}

int hook_chown(const char *path, unsigned user, unsigned group) {
    struct setting setting;
    return setting_end(&setting, setting_begin(&setting, AT_FDCWD, path) ? ORIGINAL(chown)(setting.path, user, group) : 0);
}

int hook_lchown(const char *path, unsigned user, unsigned group) {
    struct setting setting;
    if (!setting_begin(&setting, AT_FDCWD, path))
        return setting_end(&setting, 0);
    bool is_copy = view_is_copy(setting.path);
    return setting_end(&setting, is_copy ? ORIGINAL(chown)(setting.path, user, group) : ORIGINAL(lchown)(setting.path, user, group));
}

int hook_fchownat(int directory, const char *path, unsigned user, unsigned group, int flags) {
    struct setting setting;
    if (!setting_begin(&setting, directory, path))
        return setting_end(&setting, 0);
    flags &= view_is_copy(setting.path) ? ~AT_SYMLINK_NOFOLLOW : ~0;
    return setting_end(&setting, ORIGINAL(fchownat)(directory, setting.path, user, group, flags));
}

/* ---- times */

int hook_utimensat(int directory, const char *path, const void *times, int flags) {
    struct setting setting;
    if (!setting_begin(&setting, directory, path))
        return setting_end(&setting, 0);
    flags &= view_is_copy(setting.path) ? ~AT_SYMLINK_NOFOLLOW : ~0;
    return setting_end(&setting, ORIGINAL(utimensat)(directory, setting.path, times, flags));
}

int hook_utimes(const char *path, const void *times) {
    struct setting setting;
    return setting_end(&setting, setting_begin(&setting, AT_FDCWD, path) ? ORIGINAL(utimes)(setting.path, times) : 0);
}

int hook_utime(const char *path, const void *times) {
    struct setting setting;
    return setting_end(&setting, setting_begin(&setting, AT_FDCWD, path) ? ORIGINAL(utime)(setting.path, times) : 0);
}

int hook_lutimes(const char *path, const void *times) {
    struct setting setting;
    if (!setting_begin(&setting, AT_FDCWD, path))
        return setting_end(&setting, 0);
    bool is_copy = view_is_copy(setting.path);
    return setting_end(&setting, is_copy ? ORIGINAL(utimes)(setting.path, times) : ORIGINAL(lutimes)(setting.path, times));
}

int hook_futimesat(int directory, const char *path, const void *times) {
    struct setting setting;
    return setting_end(&setting, setting_begin(&setting, directory, path) ? ORIGINAL(futimesat)(directory, setting.path, times) : 0);
}

/* ---- extended ones are not told between hosts: as on a file system that has none */

int hook_setxattr(const char *path, const char *name, const void *value, unsigned long size, int flags) {
    struct setting setting;
    return setting_end(&setting, setting_begin(&setting, AT_FDCWD, path) ? ORIGINAL(setxattr)(setting.path, name, value, size, flags) : 0);
}

int hook_removexattr(const char *path, const char *name) {
    struct setting setting;
    return setting_end(&setting, setting_begin(&setting, AT_FDCWD, path) ? ORIGINAL(removexattr)(setting.path, name) : 0);
}

long hook_getxattr(const char *path, const char *name, void *value, unsigned long size) {
    return ORIGINAL(getxattr)(VIEW(AT_FDCWD, path), name, value, size);
}

long hook_listxattr(const char *path, char *list, unsigned long room) {
    int away;
    path = VIEW(AT_FDCWD, path);
    if (!AWAY(access, AT_FDCWD, path, F_OK, &away))
        return ORIGINAL(listxattr)(path, list, room);
    return away;
}

/* ---- of links themselves */

int hook_lsetxattr(const char *path, const char *name, const void *value, unsigned long size, int flags) {
    struct setting setting;
    if (!setting_begin(&setting, AT_FDCWD, path))
        return setting_end(&setting, 0);
    bool is_copy = view_is_copy(setting.path);
    return setting_end(&setting, is_copy ? ORIGINAL(setxattr)(setting.path, name, value, size, flags)
                                         : ORIGINAL(lsetxattr)(setting.path, name, value, size, flags));
}

int hook_lremovexattr(const char *path, const char *name) {
    struct setting setting;
    if (!setting_begin(&setting, AT_FDCWD, path))
        return setting_end(&setting, 0);
    bool is_copy = view_is_copy(setting.path);
    return setting_end(&setting, is_copy ? ORIGINAL(removexattr)(setting.path, name) : ORIGINAL(lremovexattr)(setting.path, name));
}

long hook_lgetxattr(const char *path, const char *name, void *value, unsigned long size) {
    path = VIEW_OF_NAME(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
    return view_is_copy(path) ? ORIGINAL(getxattr)(path, name, value, size) : ORIGINAL(lgetxattr)(path, name, value, size);
}

long hook_llistxattr(const char *path, char *list, unsigned long room) {
    int away;
    path = VIEW_OF_NAME(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
    if (AWAY(access, AT_FDCWD, path, F_OK, &away))
        return away;
    return view_is_copy(path) ? ORIGINAL(listxattr)(path, list, room) : ORIGINAL(llistxattr)(path, list, room);
}

/* ---- by descriptors: what is open for writing is each rank's own; what is open for reading is one file for all */

int hook_fsetxattr(int descriptor, const char *name, const void *value, unsigned long size, int flags) {
    struct change change;
    char *path = files_place() < FILES_MEET ? NULL : FILES_ROOM;
    if (!path || !numbers_find(descriptor, path))
        return ORIGINAL(fsetxattr)(descriptor, name, value, size, flags);
    bool acts = change_begin(&change, MEETING_ATTRIBUTES, AT_FDCWD, path, 0, NULL);
    return change_end(&change, acts ? ORIGINAL(fsetxattr)(descriptor, name, value, size, flags) : 0);
}

int hook_fremovexattr(int descriptor, const char *name) {
    struct change change;
    char *path = files_place() < FILES_MEET ? NULL : FILES_ROOM;
    if (!path || !numbers_find(descriptor, path))
        return ORIGINAL(fremovexattr)(descriptor, name);
    bool acts = change_begin(&change, MEETING_ATTRIBUTES, AT_FDCWD, path, 0, NULL);
    return change_end(&change, acts ? ORIGINAL(fremovexattr)(descriptor, name) : 0);
}
