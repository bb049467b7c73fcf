/*
 * Files on their way into a cache that processes share: numba's functions, compiled modules. Each process writes its own, under a name that nobody else has,
 * and renames it. But what programs draw is the same on all ranks (hooks/seed): one rank cut and renamed what another was writing, whose own rename then found
 * nothing. So on the disk each rank but 0 has another name for such a file, with the job's name and the rank's number at its end. It goes with the renaming
 * or removal, or when the rank ends.
 *
 * The disk alone says which files there are: one process of a rank may write what another renames. A file is on its way when its name has 'tmp' in it, or a
 * UUID that was drawn. Others are what the caches hold: every process opens those by their names, as it would without us, and so do commands (a compiler) that
 * are given what a program has drawn.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "files.h"

enum { NOTED = 32 };

/* Made by this process, or by the rank that has forked it: to be removed when the rank ends. What has gone since is remembered for a while. */
static struct {
    _Atomic uint8_t state; /* 0 free, 1 being written, 2 there */
    char own[PATH_MAX];
} noted[NOTED];
static _Atomic bool has_noted;
static _Atomic uint32_t next_noted;

/* form: 'x' for a digit of a UUID, 'v' for the one that says its variant (RFC 9562). */
static bool has_form(const char *text, const char *form) {
    static const char digits[] = "89abAB01234567cdefCDEF";
    for (; *form; form++, text++) {
        bool fits = *form == 'x' ? *text && strchr(digits, *text) : *form == 'v' ? *text && memchr(digits, *text, 6) : *text == *form;
        if (!fits)
            return false;
    }
    return true;
}

/* Of version 4. A sum of contents has as many digits, and one in 64 looks like it: then each rank has its own in the cache as long as it runs. */
static bool has_drawn_uuid(const char *name) {
    for (; *name; name++)
        if (has_form(name, "xxxxxxxx-xxxx-4xxx-vxxx-xxxxxxxxxxxx") || has_form(name, "xxxxxxxxxxxx4xxxvxxxxxxxxxxxxxxx"))
            return true;
    return false;
}

static bool is_on_its_way(const char *path) {
    const char *name = shim_base_of(path);
    return strstr(name, "tmp") || has_drawn_uuid(name);
}

bool apart_may_be(const char *path) {
    return atomic_load_explicit(&files_watched, memory_order_relaxed) && shim_slot() && path && is_on_its_way(path);
}

/* The rank's other name for it: own[PATH_MAX]. False: it has none. Keeps errno. */
static bool name_apart(int directory, const char *path, char *own) {
    char whole[PATH_MAX], real[PATH_MAX];
    if (shim_files_aside_now || !apart_may_be(path))
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

static bool is_noted(const char *own) {
    for (int i = 0; i < NOTED; i++)
        if (atomic_load(&noted[i].state) == 2 && !strcmp(noted[i].own, own))
            return true;
    return false;
}

/* What this rank has renamed or removed is no more, also where rank 0 has its own yet. */
static bool is_ranks(const char *own) {
    return is_there(own) || is_noted(own);
}

/* In a free place, or that of the one which has been gone for longest; where there is none it stays for ever. */
static void note(const char *own) {
    uint32_t first = atomic_load(&next_noted);
    for (uint32_t i = 0; i < NOTED; i++) {
        uint32_t place = (first + i) % NOTED;
        uint8_t state = atomic_load(&noted[place].state);
        if (state == 1 || (state == 2 && is_there(noted[place].own)) || !atomic_compare_exchange_strong(&noted[place].state, &state, 1))
            continue;
        strcpy(noted[place].own, own);
        atomic_store(&noted[place].state, 2);
        atomic_store(&next_noted, place + 1);
        break;
    }
    if (!atomic_exchange(&has_noted, true))
        atomic_fetch_add(&written_views, 1); /* from now on looks ask here */
}

FILES_DEEP static int open_apart(int directory, const char *path, int flags, unsigned mode) {
    char own[PATH_MAX];
    if (!name_apart(directory, path, own) || !shim_may_train())
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

int apart_open(int directory, const char *path, int flags, unsigned mode) {
    bool is_made = flags & O_CREAT && flags & (O_TRUNC | O_EXCL);
    return is_made && apart_may_be(path) ? open_apart(directory, path, flags, mode) : OPEN_PASS;
}

const char *apart_name(int directory, const char *path, char *buffer) {
    char own[PATH_MAX];
    return name_apart(directory, path, own) && is_ranks(own) ? strcpy(buffer, own) : path;
}

FILES_DEEP static bool rename_apart(int from_directory, const char *from, int to_directory, const char *to, unsigned flags, int *result) {
    char own[PATH_MAX], whole[PATH_MAX], real[PATH_MAX];
    if (!name_apart(from_directory, from, own) || !is_ranks(own) || !files_has_place(to_directory, to))
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

bool apart_rename(int from_directory, const char *from, int to_directory, const char *to, unsigned flags, int *result) {
    return apart_may_be(from) && rename_apart(from_directory, from, to_directory, to, flags, result);
}

FILES_DEEP static bool remove_apart(int directory, const char *path, int *result) {
    char own[PATH_MAX];
    if (!name_apart(directory, path, own) || !is_ranks(own))
        return false;
    SHIM_FILES_ASIDE;
    *result = unlink(own);
    return true;
}

bool apart_remove(int directory, const char *path, int *result) {
    return apart_may_be(path) && remove_apart(directory, path, result);
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
