/*
 * Rows of libc that draw a name until nobody else has it. In /tmp each rank has its own (scratch.c); in the program's folders one name is drawn for all, and
 * the ranks meet for it as for any other.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "files.h"

enum { DRAWN = 6, TRIES = 10000 };

/* descriptor: what libc has made; where this host has not the folder, a private file of the name that it has tried. */
static int add_scratch(int descriptor, const char *path, int flags) {
    char real[PATH_MAX];
    if (descriptor >= 0 && files_place() >= FILES_EARLY)
        scratch_add(path);
    if (descriptor >= 0 || errno != ENOENT || !away_has_folder_of(path))
        return descriptor;
    SHIM_FILES_ASIDE;
    files_locate(path, real);
    return open_private(real, O_RDWR | flags);
}

/* Where the letters stand that are drawn for all ranks; NULL: each draws, or libc says what is wrong. */
static char *drawn_for_all(char *path, int suffix) {
    char absolute[PATH_MAX];
    size_t length = path ? strlen(path) : 0;
    enum files_place place = files_place();
    if (place < FILES_EARLY || suffix < 0 || length < DRAWN + (size_t)suffix)
        return NULL;
    char *letters = path + length - (size_t)suffix - DRAWN;
    if (strncmp(letters, "XXXXXX", DRAWN) || !files_clean(path, absolute) || scratch_may_be_in(absolute))
        return NULL;
    if (place == FILES_EARLY)
        place = files_place_early(path);
    return place == FILES_MEET ? letters : NULL;
}

/* The same on all ranks, which draw in step; where they do not, a name that is spelled differently leads to rank 0's. */
static void draw(char *letters, const char *path) {
    static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static uint64_t count;
    const char *secret = shim_job_secret();
    memcpy(letters, "XXXXXX", DRAWN);
    uint64_t number = checksum_bytes(checksum_bytes(count++, secret, secret ? strlen(secret) : 0), path, strlen(path));
    for (int i = 0; i < DRAWN; i++, number /= sizeof all - 1)
        letters[i] = all[number % (sizeof all - 1)];
}

typedef int make_drawn(const char *path, int flags); /* -1 with errno: EEXIST for another name */

static int make_with_drawn(char *path, char *letters, make_drawn *make, int flags) {
    int made = -1, saved_errno = errno;
    for (int tries = 0; made < 0 && tries < TRIES; tries++) {
        draw(letters, path);
        made = make(path, flags);
        if (made < 0 && errno != EEXIST)
            return -1;
    }
    if (made >= 0)
        errno = saved_errno;
    return made;
}

static int open_drawn(const char *path, int flags) {
    return hook_open(path, O_RDWR | O_CREAT | O_EXCL | flags, 0600);
}

static int make_drawn_folder(const char *path, int flags) {
    return hook_mkdir(path, 0700);
}

static int make_file(char *path, int suffix, int flags) {
    char *letters = drawn_for_all(path, suffix);
    return letters ? make_with_drawn(path, letters, open_drawn, flags) : add_scratch(ORIGINAL(mkostemps)(path, suffix, flags), path, flags);
}

int hook_mkstemp(char *path) {
    return make_file(path, 0, 0);
}

int hook_mkstemp64(char *path) {
    return make_file(path, 0, 0);
}

int hook_mkostemp(char *path, int flags) {
    return make_file(path, 0, flags);
}

int hook_mkostemp64(char *path, int flags) {
    return make_file(path, 0, flags);
}

int hook_mkstemps(char *path, int suffix) {
    return make_file(path, suffix, 0);
}

int hook_mkstemps64(char *path, int suffix) {
    return make_file(path, suffix, 0);
}

int hook_mkostemps(char *path, int suffix, int flags) {
    return make_file(path, suffix, flags);
}

int hook_mkostemps64(char *path, int suffix, int flags) {
    return make_file(path, suffix, flags);
}

char *hook_mkdtemp(char *path) {
    char *letters = drawn_for_all(path, 0);
    if (letters)
        return make_with_drawn(path, letters, make_drawn_folder, 0) ? NULL : path;
    char *made = ORIGINAL(mkdtemp)(path);
    if (!made && errno == ENOENT)
        away_check_folder_of(path);
    if (made && files_place() >= FILES_EARLY)
        scratch_add(made);
    return made;
}
