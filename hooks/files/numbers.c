/*
 * Descriptors that are opened again by their numbers (/dev/fd/3). What the program has opened itself goes by the name of its file: on another rank than 0 the
 * number stands for a private copy, or for what nobody but the program's own reading is known of.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "files.h"

/* -1: it is none. */
static int number_in(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *number = path + strlen(folders[i]);
        if (!strncmp(path, folders[i], strlen(folders[i])) && isdigit((unsigned char)*number) && !number[strspn(number, "0123456789")])
            return atoi(number);
    }
    return -1;
}

struct search {
    struct stat now;
    const char *name;
};

static void compare(struct written *file, const void *what) {
    struct search *search = *(struct search *const *)what;
    if (file->is_own && file->inode == search->now.st_ino && file->device == search->now.st_dev)
        search->name = file->path;
}

/* Of a regular file that is open for reading, or for nothing (O_PATH), as the program itself opens it: its name, or of a private copy that of what it stands
   for. */
static bool find_name(int descriptor, char *name) {
    struct search search = {.name = NULL}, *its = &search;
    struct stat there;
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || (!(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY) || fstat(descriptor, &search.now) ||
        !S_ISREG(search.now.st_mode))
        return false;
    written_each(compare, &its);
    if (search.name)
        strcpy(name, search.name);
    else if (!files_path_of(descriptor, name) || stat(name, &there) || there.st_ino != search.now.st_ino ||
             there.st_dev != search.now.st_dev)
        return false;
    return *name;
}

bool numbers_find(int descriptor, char *name) {
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    bool has_name = find_name(descriptor, name);
    errno = saved_errno;
    return has_name;
}

bool numbers_is_one(const char *path) {
    return number_in(path) >= 0;
}

const char *numbers_name(const char *path, char *buffer) {
    int number = number_in(path), saved_errno = errno;
    if (number < 0)
        return path;
    const struct written *file = written_find(number);
    SHIM_FILES_ASIDE;
    if (file)
        strcpy(buffer, file->path);
    bool has_name = file ? *buffer : find_name(number, buffer);
    errno = saved_errno;
    return has_name ? buffer : NULL;
}
