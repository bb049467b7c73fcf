/*
 * Rows of looks: what is open for writing looks as it would in one process.
 *
 *  - Rank 0: a file that is not in its place yet (files.c) is put there when the program looks at its name, or lists a directory.
 *  - The others: the name leads to the private copy, whose length is this rank's, however far rank 0 has come.
 *  - A forked child of these finds by its name what they have mapped: their copy, whose memory it may fill for them.
 *  - A name that is spelled differently on the ranks leads to rank 0's (alias.c).
 *  - A file on its way into a cache has another name on each rank (apart.c).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alias.h"

void view_name_beside(struct beside *beside, enum beside_kind kind, const char *path, const char *second) {
    char first_of_all[PATH_MAX], second_of_all[PATH_MAX];
    beside_name(beside, kind, alias_for_all(path, first_of_all), alias_for_all(second, second_of_all));
    beside->path = path;
}

/* What is open under this name is another file now: the name leads to that. */
void view_replaced(const char *own, const char *rank_0s) {
    char real[PATH_MAX];
    SHIM_FILES_ASIDE;
    files_locate(own, real);
    for (struct written *file; (file = written_find_path(real));)
        file->path[0] = 0;
    spelling_met(own, rank_0s);
    alias_add(own, rank_0s);
}

/* Rank 0's name, real: the same for all names that this rank has for it, by its own process number or by a link of the program's to rank 0's folder. */
static void name_of_first(const char *real, char *name) {
    char buffer[PATH_MAX];
    if (alias_find(AT_FDCWD, real, buffer))
        files_locate(buffer, name);
    else
        strcpy(name, real);
}

struct search {
    const char *real, *name; /* this rank's, and rank 0's */
    struct written *found;
};

static void compare_names(struct written *file, const void *what) {
    struct search *search = *(struct search *const *)what;
    char name[PATH_MAX], buffer[PATH_MAX];
    const char *base = file->is_own ? shim_base_of(file->path) : "";
    if (!*base ||
        (strcmp(base, shim_base_of(search->real)) && strcmp(shim_base_of(alias_of(file->path, buffer)), shim_base_of(search->name))))
        return;
    name_of_first(file->path, name);
    if (!strcmp(name, search->name))
        search->found = file;
}

/* A link that the program has made leads to rank 0's name: `latest` to runs/PID, or to PID.log. spelled: what rank 0 calls the path. */
static struct written *find_by_rank_0s_name(const char *real, const char *spelled) {
    char name[PATH_MAX];
    struct search search = {real, name, NULL}, *its = &search;
    if (!alias_is_known())
        return NULL;
    files_locate(spelled, name);
    written_each(compare_names, &its);
    return search.found;
}

static void respell(struct written *file, const void *what) {
    const struct search *search = *(struct search *const *)what;
    char name[PATH_MAX], moved[PATH_MAX];
    if (!file->is_own || !file->path[0] || files_below(file->path, search->real))
        return;
    name_of_first(file->path, name);
    const char *below = strcmp(name, search->name) ? files_below(name, search->name) : "";
    if (below && snprintf(moved, PATH_MAX, "%s%s%s", search->real, *below ? "/" : "", below) < PATH_MAX)
        strcpy(file->path, moved);
}

void view_respell(const char *real, const char *name) {
    struct search search = {real, name, NULL}, *its = &search;
    written_each(respell, &its);
}

static const char *copy_of(struct written *file, char *buffer) {
    sink_fill(file);
    snprintf(buffer, PATH_MAX, VIEW_COPIES "%d", file->descriptor);
    return buffer;
}

/* spelled: what rank 0 calls the path. */
static const char *find_written(const char *path, const char *spelled, char *buffer) {
    char real[PATH_MAX];
    if (!written_may_be(AT_FDCWD, path) && (spelled == path || !written_may_be(AT_FDCWD, spelled)) && !alias_is_rank_0s(path))
        return path;
    files_locate(path, real);
    struct written *file = shim_rank() ? written_find_own(real) : written_find_path(real);
    if (!file && shim_rank())
        file = find_by_rank_0s_name(real, spelled);
    if (file)
        written_publish(file);
    if (!file || !file->is_own || !written_is_open(file) || mapped_is_behind(file))
        return path;
    return copy_of(file, buffer);
}

/* In a process that this rank has forked, which has inherited the descriptors: what the rank sees in its memory is the copy, so who fills that for it opens the
   copy, too. */
static const char *find_mapped(const char *path, char *buffer) {
    char real[PATH_MAX];
    if (!shim_rank() || !written_may_be(AT_FDCWD, path))
        return path;
    files_locate(path, real);
    struct written *file = written_find_own(real);
    return file && file->is_mapped && !file->is_diverted && written_is_open(file) ? copy_of(file, buffer) : path;
}

/* What view_slowly() looks for is none of these. */
bool view_may_differ_slowly(int directory, const char *path) {
    int saved_errno = errno;
    if (shim_files_aside_now)
        return false;
    SHIM_FILES_ASIDE;
    bool may_differ = alias_is_known() || apart_may_be(path) || written_may_be(directory, path);
    errno = saved_errno;
    return may_differ;
}

const char *view_slowly(int directory, const char *path, char *buffer) {
    char whole[PATH_MAX], rank_0s[PATH_MAX];
    const char *apart = apart_name(directory, path, buffer);
    if (apart != path)
        return apart;
    int saved_errno = errno;
    bool is_met = files_place() >= FILES_MEET;
    if (is_met || files_is_in_child()) { /* a loader's worker knows what its parent calls by another name */
        SHIM_FILES_ASIDE;
        const char *viewed = alias_whole_path(directory, path, whole), *spelled = alias_find(directory, path, rank_0s) ? rank_0s : viewed;
        const char *found = is_met ? find_written(viewed, spelled, buffer) : find_mapped(viewed, buffer);
        if (found == viewed && spelled != viewed)
            found = strcpy(buffer, spelled);
        path = found == viewed ? path : buffer;
    }
    errno = saved_errno;
    return path;
}

/* A file that was open on the disk before the ranks began is known by the number that it had on the disk: SQLite and logging compare it. */
FILES_DEEP static const char *look(int directory, const char *path, char *buffer) {
    const char *viewed = view(directory, path, buffer);
    if (viewed == path || !view_is_copy(viewed))
        return viewed;
    const struct written *file = written_find((int)strtol(viewed + strlen(VIEW_COPIES), NULL, 10));
    return file && file->is_diverted ? path : viewed;
}

static bool is_link(int directory, const char *path) {
    struct stat now;
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    bool is_one = !fstatat(directory, path, &now, AT_SYMLINK_NOFOLLOW) && S_ISLNK(now.st_mode);
    errno = saved_errno;
    return is_one;
}

/* The name itself of what leads to a private copy; NULL: it is no link. */
static const char *link_itself(int directory, const char *path, char *buffer) {
    char name[PATH_MAX];
    const char *spelled = alias_spelled(directory, path, name);
    if (!is_link(directory, spelled))
        return NULL;
    return spelled == path ? path : strcpy(buffer, spelled);
}

/* The same of the name itself: a link to an open file is a link. */
const char *view_of_name(int directory, const char *path, int flags, char *buffer) {
    const char *viewed = look(directory, path, buffer);
    if (viewed == path || !(flags & AT_SYMLINK_NOFOLLOW) || !view_is_copy(viewed))
        return viewed;
    const char *link = link_itself(directory, path, buffer);
    return link ? link : viewed;
}

/* The name is what this rank calls a file, and rank 0 another one that is there. The program has it from itself, or from a file, which has rank 0's: nobody
   can tell. */
static void tell_of_two(int directory, const char *path, const char *viewed) {
    static _Atomic bool is_told;
    char other[PATH_MAX];
    struct stat now;
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    if (!atomic_load(&is_told) && alias_is_of_two(directory, path, other) && !away_stat_disk(other, AT_SYMLINK_NOFOLLOW, &now) &&
        !atomic_exchange(&is_told, true))
        shim_warning(
            "AR-FILE-NAMES",
            "where the program has the name from a file, let a link say it, or name files by what is the same on all ranks (a step)",
            "rank %u reads '%s', the file that it has made by the name '%s', by which there is another one", shim_rank(), viewed, path);
    errno = saved_errno;
}

const char *view_to_open(int directory, const char *path, int *flags, char *buffer) {
    const char *viewed = view(directory, path, buffer);
    bool is_read = !(*flags & (O_ACCMODE | O_DIRECTORY | O_PATH));
    if (viewed != path && is_read && alias_is_known() && !view_is_copy(viewed) && !files_is_in_child())
        tell_of_two(directory, path, viewed);
    if (viewed == path || !(*flags & O_NOFOLLOW) || !view_is_copy(viewed))
        return viewed;
    const char *link = link_itself(directory, path, buffer);
    if (link)
        return link;
    *flags &= ~O_NOFOLLOW;
    return viewed;
}

#define LOOK(directory, path) (view_may_differ(directory, path) ? look(directory, path, FILES_ROOM) : (path))

/* A private copy has no name of its own; what it stands for has this one. */
static int named(int result, const char *path, struct stat *status) {
    if (!result && !status->st_nlink && view_is_copy(path))
        status->st_nlink = 1;
    return result;
}

int hook_stat(const char *path, void *status) {
    int away;
    path = LOOK(AT_FDCWD, path);
    if (AWAY(stat, AT_FDCWD, path, 0, status, &away))
        return away;
    return named(NEXT(stat) ? NEXT(stat)(path, status) : (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, 0), path, status);
}

int hook_stat64(const char *path, void *status) {
    return hook_stat(path, status);
}

int hook_lstat(const char *path, void *status) {
    const char *asked = path;
    int away;
    path = VIEW_OF_NAME(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
    if (path != asked && view_is_copy(path))
        return named(NEXT(stat)(path, status), path, status);
    if (AWAY(stat, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, status, &away))
        return away;
    return NEXT(lstat) ? NEXT(lstat)(path, status) : (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int hook_lstat64(const char *path, void *status) {
    return hook_lstat(path, status);
}

int hook_fstatat(int directory, const char *path, void *status, int flags) {
    int away;
    const char *asked = path;
    path = VIEW_OF_NAME(directory, path, flags);
    if (path != asked && view_is_copy(path))
        flags &= ~AT_SYMLINK_NOFOLLOW;
    if (AWAY(stat, directory, path, flags, status, &away))
        return away;
    return named(NEXT(fstatat) ? NEXT(fstatat)(directory, path, status, flags)
                               : (int)syscall(SYS_newfstatat, directory, path, status, flags),
                 path, status);
}

int hook_fstatat64(int directory, const char *path, void *status, int flags) {
    return hook_fstatat(directory, path, status, flags);
}

int hook_fxstatat(int version, int directory, const char *path, void *status, int flags) {
    return hook_fstatat(directory, path, status, flags);
}

int hook_fxstatat64(int version, int directory, const char *path, void *status, int flags) {
    return hook_fstatat(directory, path, status, flags);
}

int hook_xstat(int version, const char *path, void *status) {
    int away;
    path = LOOK(AT_FDCWD, path);
    if (AWAY(stat, AT_FDCWD, path, 0, status, &away))
        return away;
    return named(ORIGINAL(xstat)(version, path, status), path, status);
}

int hook_xstat64(int version, const char *path, void *status) {
    return hook_xstat(version, path, status);
}

int hook_lxstat(int version, const char *path, void *status) {
    int away;
    const char *asked = path;
    path = VIEW_OF_NAME(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
    if (AWAY(stat, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, status, &away))
        return away;
    if (path != asked && view_is_copy(path))
        return named(ORIGINAL(xstat)(version, path, status), path, status);
    return ORIGINAL(lxstat)(version, path, status);
}

int hook_lxstat64(int version, const char *path, void *status) {
    return hook_lxstat(version, path, status);
}

int hook_statx(int directory, const char *path, int flags, unsigned mask, void *status) {
    int away;
    const char *asked = path;
    path = VIEW_OF_NAME(directory, path, flags);
    if (path != asked && view_is_copy(path))
        flags &= ~AT_SYMLINK_NOFOLLOW;
    if (AWAY(statx, directory, path, flags, status, &away))
        return away;
    struct statx *now = status;
    int result = ORIGINAL(statx)(directory, path, flags, mask, status);
    if (!result && !now->stx_nlink && now->stx_mask & STATX_NLINK && view_is_copy(path))
        now->stx_nlink = 1;
    return result;
}

int hook_access(const char *path, int mode) {
    int away;
    path = LOOK(AT_FDCWD, path);
    if (AWAY(access, AT_FDCWD, path, mode, &away))
        return away;
    return NEXT(access) ? NEXT(access)(path, mode) : (int)syscall(SYS_access, path, mode);
}

int hook_faccessat(int directory, const char *path, int mode, int flags) {
    int away;
    path = LOOK(directory, path);
    if (AWAY(access, directory, path, mode, &away))
        return away;
    return ORIGINAL(faccessat)(directory, path, mode, flags);
}

int hook_chdir(const char *path) {
    path = LOOK(AT_FDCWD, path);
    if (files_asks_away())
        away_check_folder(path);
    return ORIGINAL(chdir)(path);
}
