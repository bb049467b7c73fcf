/*
 * Files on their way into a cache that processes share: numba's functions, compiled modules. Each process writes its own, under a name that nobody else has,
 * and renames it. But what programs draw is the same on all ranks (hooks/seed): one rank cut and renamed what another was writing, whose own rename then found
 * nothing. So on the disk each rank but 0 has another name for such a file, with the job's name and the rank's number at its end. It goes with the renaming
 * or removal, or when the rank ends.
 *
 * The disk alone says which files there are: one process of a rank may write what another renames. A file is on its way when its name has 'tmp' in it. Others
 * are what the caches hold: every process opens those by their names, as it would without us, and so do commands (a compiler) that are given what a program
 * has drawn.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "files.h"

enum { NOTED = 32 };

/* Made by this process, or by the rank that has forked it: to be removed when the rank ends. */
static struct {
    _Atomic uint8_t state; /* 0 free, 1 being written, 2 there */
    char own[PATH_MAX];
} noted[NOTED];
static _Atomic bool has_noted;

static bool is_on_its_way(const char *path) {
    return strstr(shim_base_of(path), "tmp");
}

/* The rank's other name for it: own[PATH_MAX]. False: it has none. Keeps errno. */
static bool name_apart(int directory, const char *path, char *own) {
    char whole[PATH_MAX], real[PATH_MAX];
    if (!atomic_load_explicit(&files_watched, memory_order_relaxed) || !shim_slot() || shim_files_aside_now || !path ||
        !is_on_its_way(path))
        return false;
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    files_locate(files_whole_path(directory, path, whole), real);
    errno = saved_errno;
    return files_is_in_cache(real) && shim_own_name(real, shim_slot(), own, PATH_MAX);
}

static bool is_there(const char *own) {
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    bool is_so = !access(own, F_OK);
    errno = saved_errno;
    return is_so;
}

/* In a free place, or that of one which has gone; where there is none it stays for ever. */
static void note(const char *own) {
    for (int i = 0; i < NOTED; i++) {
        uint8_t state = atomic_load(&noted[i].state);
        if (state == 1 || (state == 2 && is_there(noted[i].own)) || !atomic_compare_exchange_strong(&noted[i].state, &state, 1))
            continue;
        strcpy(noted[i].own, own);
        atomic_store(&noted[i].state, 2);
        break;
    }
    if (!atomic_exchange(&has_noted, true))
        atomic_fetch_add(&written_views, 1); /* from now on looks ask here */
}

int apart_open(int directory, const char *path, int flags, unsigned mode) {
    char own[PATH_MAX];
    bool is_made = flags & O_CREAT && flags & (O_TRUNC | O_EXCL);
    if (!is_made || !name_apart(directory, path, own) || !shim_may_train())
        return OPEN_PASS;
    SHIM_FILES_ASIDE;
    int saved_errno = errno, descriptor = open(own, flags, mode);
    if (descriptor < 0 && errno == ENAMETOOLONG) {
        errno = saved_errno;
        return OPEN_PASS;
    }
    if (descriptor >= 0)
        note(own);
    return descriptor;
}

const char *apart_name(int directory, const char *path, char *buffer) {
    char own[PATH_MAX];
    return name_apart(directory, path, own) && is_there(own) ? strcpy(buffer, own) : path;
}

bool apart_rename(int from_directory, const char *from, int to_directory, const char *to, unsigned flags, int *result) {
    char own[PATH_MAX], whole[PATH_MAX], real[PATH_MAX];
    if (!name_apart(from_directory, from, own) || !is_there(own) || !files_has_place(to_directory, to))
        return false;
    SHIM_FILES_ASIDE;
    int saved_errno = errno;
    files_locate(files_whole_path(to_directory, to, whole), real);
    errno = saved_errno;
    if (!files_is_in_cache(real)) /* all ranks meet for it, and rank 0's counts */
        return false;
    *result = renameat2(AT_FDCWD, own, to_directory, to, flags);
    if (!*result)
        apart_drop(real); /* it is replaced, where it was another one on its way */
    return true;
}

bool apart_remove(int directory, const char *path, int *result) {
    char own[PATH_MAX];
    if (!name_apart(directory, path, own) || !is_there(own))
        return false;
    SHIM_FILES_ASIDE;
    *result = unlink(own);
    return true;
}

void apart_drop(const char *path) {
    int saved_errno = errno, result;
    FILES_NOT_ASIDE;
    apart_remove(AT_FDCWD, path, &result);
    errno = saved_errno;
}

void apart_end(void) {
    bool is_rank = atomic_load_explicit(&shim_kind_now, memory_order_relaxed) == SHIM_RANK;
    if (!is_rank || !atomic_load(&has_noted) || files_is_in_child()) /* of vfork(), too, whose exec has failed */
        return;
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    for (int i = 0; i < NOTED; i++)
        if (atomic_load(&noted[i].state) == 2)
            unlink(noted[i].own);
    errno = saved_errno;
}
