/*
 * Names that contain a pid, the time or a random number are spelled differently on the ranks; rank 0's was made. The others' spelling leads to it, and in
 * listings rank 0's leads back (listing.c): what this rank is shown it can open, and the program finds the name there that it has made.
 *
 *  - The first parts that differ are enough: what comes below is spelled as usual.
 *  - Of several that fit the youngest counts. They stay for ever: names that are gone may be asked for, and one of rank 0's with the same letters is another
 *    file.
 *  - Looked up by each beginning of a path: as many names as a run makes cost a look nothing.
 *  - Where the program stands, and what a descriptor is open for, the system calls as rank 0 does. These letters may be another name of this rank's: so what
 *    stands below is looked up by this rank's name of that folder, and by itself.
 *  - A folder may be reached by a link, too: a part of a path that the letters do not lead from is looked up in its folder without links, if the program has
 *    ever made such a name.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "alias.h"

struct alias {
    struct alias *older, *older_of_rank_0s; /* with the same checksum of the one name, and of the other */
    struct alias *_Atomic after;            /* the next younger one of all */
    _Atomic bool is_moved;                  /* with its folder; a file has not been made there since */
    uint64_t number;                        /* the youngest has the highest */
    const char *rank_0s;                    /* behind the own one */
    char own[];                             /* absolute, clean */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of those who add */
static struct pairs by_own, by_rank_0s;                   /* checksum → youngest */
static struct pairs folders;                              /* checksums of rank 0's, where something is spelled differently */
static struct pairs by_part;                              /* checksum of the own one's last part, where rank 0's is another → youngest */
static struct alias *_Atomic oldest, *youngest;           /* of all */
static _Atomic uint64_t count;

static void *key_of(const char *name, size_t length) {
    return (void *)(checksum_bytes(length, name, length) | 1);
}

/* Of the name of what it lies in. */
static size_t folder_length(const char *path) {
    size_t length = (size_t)(shim_base_of(path) - path);
    return length > 1 ? length - 1 : length;
}

static void *key_of_folder(const char *path) {
    return key_of(path, folder_length(path));
}

bool alias_is_known(void) {
    return atomic_load_explicit(&count, memory_order_relaxed);
}

/* ---- from this rank's name to rank 0's */

/* The youngest for the first characters of the path. */
static struct alias *find_exactly(const char *path, size_t length) {
    struct alias *alias = pairs_get(&by_own, key_of(path, length));
    while (alias && (strncmp(alias->own, path, length) || alias->own[length]))
        alias = alias->older;
    return alias;
}

/* By more than the first characters. path: clean. Returns how much of what is in the buffer is spelled as rank 0 does; 0: nothing. */
static size_t find_behind(const char *path, size_t told, char *buffer) {
    const struct alias *found = NULL;
    size_t used = 0;
    for (size_t length = strlen(path); length > told; length--) {
        if (path[length] && path[length] != '/')
            continue;
        const struct alias *alias = find_exactly(path, length);
        if (!alias || (found && found->number > alias->number))
            continue;
        found = alias;
        used = length;
    }
    return found && snprintf(buffer, PATH_MAX, "%s%s", found->rank_0s, path + used) < PATH_MAX ? strlen(found->rank_0s) : 0;
}

static size_t find_clean(const char *path, char *buffer) {
    return find_behind(path, 0, buffer);
}

/* What this rank calls what rank 0 calls by the first characters of the path: the youngest that is older than this one, or NULL for all. NULL: none more. */
static const struct alias *find_own(const char *rank_0s, size_t length, const struct alias *than) {
    char found[PATH_MAX];
    const struct alias *alias = than ? than->older_of_rank_0s : pairs_get(&by_rank_0s, key_of(rank_0s, length));
    while (alias && (strncmp(alias->rank_0s, rank_0s, length) || alias->rank_0s[length] || !find_clean(alias->own, found) ||
                     strcmp(found, alias->rank_0s)))
        alias = alias->older_of_rank_0s;
    return alias;
}

/* What this rank calls the folder that the path's first characters are, or one above that, whose length it is then. NULL: as rank 0 does. */
static const struct alias *find_folder(const char *path, size_t *length) {
    const struct alias *found = NULL;
    while (*length && ((path[*length] && path[*length] != '/') || !(found = find_own(path, *length, NULL))))
        (*length)--;
    return found;
}

/* The path by that: own[PATH_MAX]. False: as rank 0 does, or it is too long. */
static bool find_own_folder(const char *path, size_t told, char *own) {
    const struct alias *found = find_folder(path, &told);
    return found && snprintf(own, PATH_MAX, "%s%s", found->own, path + told) < PATH_MAX;
}

/* The first `told` characters of the path are rank 0's name already, what follows is as this rank calls it. Returns as find_behind(). */
static size_t find_told(const char *path, size_t told, char *buffer) {
    char own[PATH_MAX];
    size_t known, length = told;
    const struct alias *alias = find_folder(path, &length);
    if (!alias)
        return find_behind(path, told, buffer);
    for (; alias; alias = find_own(path, length, alias)) /* the folder may have several */
        if (snprintf(own, PATH_MAX, "%s%s", alias->own, path + length) < PATH_MAX && (known = find_clean(own, buffer)) &&
            strcmp(buffer, path))
            return known;
    return 0;
}

/* What rank 0 calls it, by its folder without links: found[PATH_MAX]. False: not known. */
static bool find_without_links(const char *path, char *found) {
    char real[PATH_MAX];
    return replace_locate_name(path, real) && find_told(real, folder_length(real), found) && strcmp(found, real);
}

/* Of a path and what has been found for it: what need not be looked at any more. */
static size_t known_of(const char *path, size_t told, const char *found, size_t known) {
    bool is_kept = known < told && !strncmp(found, path, told) && (!found[told] || found[told] == '/');
    return is_kept ? told : known;
}

/* The parts behind the first characters, which are spelled as rank 0 does already. path[PATH_MAX]. False: they stay. */
static bool respell_parts(char *path, size_t known) {
    char own[PATH_MAX], found[PATH_MAX];
    bool is_respelled = false;
    for (size_t end; path[known]; known = end) {
        end = known + 1 + strcspn(path + known + 1, "/");
        if (!pairs_get(&by_part, key_of(path + known + 1, end - known - 1)))
            continue;
        snprintf(own, sizeof own, "%.*s", (int)end, path);
        if (!find_without_links(own, found) || strlen(found) + strlen(path + end) >= PATH_MAX)
            continue;
        memmove(path + strlen(found), path + end, strlen(path + end) + 1);
        memcpy(path, found, strlen(found));
        end = strlen(found);
        is_respelled = true;
    }
    return is_respelled;
}

bool alias_find(int directory, const char *path, char *buffer) {
    char absolute[PATH_MAX];
    size_t told;
    if (!alias_is_known() || !files_clean_told(directory, path, absolute, &told))
        return false;
    size_t known = find_told(absolute, told, buffer);
    if (!known)
        strcpy(buffer, absolute);
    return respell_parts(buffer, known_of(absolute, told, buffer, known)) || known;
}

const char *alias_of(const char *path, char *buffer) {
    return alias_find(AT_FDCWD, path, buffer) ? buffer : path;
}

bool alias_is_rank_0s(const char *path) {
    char absolute[PATH_MAX];
    return alias_is_known() && files_clean(path, absolute) && pairs_get(&by_rank_0s, key_of(absolute, strlen(absolute)));
}

bool alias_is_of_two(int directory, const char *path, char *other) {
    char found[PATH_MAX];
    size_t told;
    if (!files_clean_told(directory, path, other, &told) || !find_told(other, told, found) || !strcmp(found, other))
        return false;
    for (size_t length = strlen(other); length > told; length--)
        if ((!other[length] || other[length] == '/') && find_own(other, length, NULL))
            return true;
    return false;
}

const char *alias_for_all(const char *path, char *buffer) {
    bool is_spelled = *path && ((shim_rank() && alias_find(AT_FDCWD, path, buffer)) || files_clean(path, buffer));
    return is_spelled ? buffer : path;
}

const char *alias_spelled(int directory, const char *path, char *buffer) {
    if (!path || shim_files_aside_now || !alias_is_known())
        return path;
    int saved_errno = errno;
    bool is_found = alias_find(directory, path, buffer);
    errno = saved_errno;
    return is_found ? buffer : path;
}

/* Is the folder that the system has told of, by its letters, another one to this rank? */
static bool is_misread(const char *path, size_t told) {
    char folder[PATH_MAX], found[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", (int)told, path);
    return find_clean(folder, found) && strcmp(folder, found);
}

const char *alias_whole_path(int directory, const char *path, char *buffer) {
    char absolute[PATH_MAX];
    size_t told;
    bool is_found = path[0] != '/' && alias_is_known() && files_clean_told(directory, path, absolute, &told) &&
                    is_misread(absolute, told) && find_own_folder(absolute, told, buffer);
    return is_found ? buffer : files_whole_path(directory, path, buffer);
}

const char *alias_part(const char *part, size_t length) {
    const struct alias *alias = pairs_get(&by_part, key_of(part, length));
    const char *own = alias ? shim_base_of(alias->own) : "";
    return strlen(own) == length && !strncmp(own, part, length) ? shim_base_of(alias->rank_0s) : NULL;
}

/* ---- and back */

static bool is_listed(const char *rank_0s) {
    return pairs_get(&folders, key_of(rank_0s, strlen(rank_0s)));
}

static bool is_listed_without_links(struct alias_folder *folder) {
    char real[PATH_MAX];
    SHIM_FILES_ASIDE;
    if (!replace_locate(folder->rank_0s, real) || !strcmp(real, folder->rank_0s) || !is_listed(real))
        return false;
    strcpy(folder->own, real);
    strcpy(folder->rank_0s, real);
    folder->told = strlen(real);
    return true;
}

/* folder->own: clean. */
static bool find_listed(struct alias_folder *folder) {
    size_t known = find_told(folder->own, folder->told, folder->rank_0s);
    if (!known)
        strcpy(folder->rank_0s, folder->own);
    if (respell_parts(folder->rank_0s, known_of(folder->own, folder->told, folder->rank_0s, known))) { /* the letters do not lead there */
        strcpy(folder->own, folder->rank_0s);
        folder->told = strlen(folder->own);
    }
    return is_listed_without_links(folder) || is_listed(folder->rank_0s);
}

bool alias_is_in_folder(int directory, const char *path, struct alias_folder *folder) {
    if (!path || shim_files_aside_now || !alias_is_known())
        return false;
    int saved_errno = errno;
    bool is_so = files_clean_told(directory, path, folder->own, &folder->told) && find_listed(folder);
    errno = saved_errno;
    return is_so;
}

/* path[PATH_MAX]. False: too long. */
static bool join(char *path, const char *folder, const char *entry) {
    return snprintf(path, PATH_MAX, "%s/%s", strcmp(folder, "/") ? folder : "", entry) < PATH_MAX;
}

/* What this rank finds in the folder under that name, as rank 0 calls it. */
static bool find_entry(const struct alias_folder *folder, const char *entry, char *found) {
    char own[PATH_MAX];
    return join(own, folder->own, entry) && (find_told(own, folder->told, found) || strcpy(found, own));
}

const char *alias_own_entry(const struct alias_folder *folder, const char *entry) {
    char rank_0s[PATH_MAX], found[PATH_MAX];
    if (!join(rank_0s, folder->rank_0s, entry))
        return NULL;
    const struct alias *alias = pairs_get(&by_rank_0s, key_of(rank_0s, strlen(rank_0s)));
    for (; alias; alias = alias->older_of_rank_0s) {
        const char *own = shim_base_of(alias->own);
        if (!strcmp(alias->rank_0s, rank_0s) && strlen(own) <= NAME_MAX && find_entry(folder, own, found) && !strcmp(found, rank_0s))
            return own;
    }
    return NULL;
}

bool alias_hides_entry(const struct alias_folder *folder, const char *entry) {
    char rank_0s[PATH_MAX], found[PATH_MAX];
    return join(rank_0s, folder->rank_0s, entry) && find_entry(folder, entry, found) && strcmp(found, rank_0s);
}

/* ---- new ones */

static void add(const char *own, const char *rank_0s) {
    size_t length = strlen(own);
    struct alias *alias = malloc(sizeof *alias + length + strlen(rank_0s) + 2);
    if (!alias)
        return;
    strcpy(alias->own, own);
    strcpy(alias->own + length + 1, rank_0s);
    alias->rank_0s = alias->own + length + 1;
    void *of_own = key_of(own, length), *of_rank_0s = key_of(rank_0s, strlen(rank_0s)), *of_folder = key_of_folder(rank_0s);
    void *of_part = key_of(shim_base_of(own), strlen(shim_base_of(own)));
    pthread_mutex_lock(&mutex);
    alias->number = atomic_load(&count) + 1;
    atomic_store(&alias->after, NULL);
    atomic_store(&alias->is_moved, false);
    alias->older = pairs_get(&by_own, of_own);
    alias->older_of_rank_0s = pairs_get(&by_rank_0s, of_rank_0s);
    pairs_put(&by_own, of_own, alias);
    pairs_put(&by_rank_0s, of_rank_0s, alias);
    pairs_put(&folders, of_folder, alias);
    if (strcmp(shim_base_of(own), shim_base_of(rank_0s)))
        pairs_put(&by_part, of_part, alias);
    atomic_store(youngest ? &youngest->after : &oldest, alias);
    youngest = alias;
    atomic_store(&count, alias->number);
    pthread_mutex_unlock(&mutex);
    atomic_fetch_add(&written_views, 1);
}

/* A name that is the same on both now may have been another one of rank 0's, and rank 0's another one of this rank's. Clean ones. */
static void add_if_new(const char *own, const char *rank_0s) {
    struct alias *exact = find_exactly(own, strlen(own));
    char known[PATH_MAX];
    const struct alias *other = find_own(rank_0s, strlen(rank_0s), NULL);
    bool is_known = !strcmp(find_clean(own, known) ? known : own, rank_0s);
    if (!is_known || (other && strcmp(shim_base_of(other->own), shim_base_of(own))))
        add(own, rank_0s);
    else if (exact)
        atomic_store(&exact->is_moved, false);
}

/* folder: with a slash. */
static void add_in(const char *folder, int length, const char *name, const char *rank_0s) {
    char own[PATH_MAX];
    if (snprintf(own, sizeof own, "%.*s%s", length, folder, name) < PATH_MAX && strcmp(own, rank_0s))
        add_if_new(own, rank_0s);
}

/* The same name in the folder as rank 0 calls it, without links where this host has the folder, and as this rank does. */
static void add_without_links(const char *own, const char *rank_0s) {
    char real[PATH_MAX], folder[PATH_MAX];
    const char *name = shim_base_of(own);
    if (!strcmp(name, shim_base_of(rank_0s)))
        return;
    if (!replace_locate_name(rank_0s, real))
        strcpy(real, rank_0s);
    add_in(real, (int)(shim_base_of(real) - real), name, real);
    if (find_own_folder(real, folder_length(real), folder))
        add_in(folder, (int)(shim_base_of(folder) - folder), name, real);
}

/* Also where the program stands in its folder, has that as a descriptor, or lists it. */
static void add_all(const char *own, const char *rank_0s) {
    add_if_new(own, rank_0s);
    add_without_links(own, rank_0s);
}

/* Process numbers come again: what this rank has called so until now may be a file that was there before the job, which has no name any more then. It gets that
   of rank 0's file: names lead to one file each. Not a folder: where the program stands, and descriptors, go by rank 0's letters, and would lead into the old.
   before: as rank 0 calls that. */
static void keep_reachable(const char *before, const char *rank_0s) {
    struct stat now;
    char found[PATH_MAX];
    bool has_name =
        !find_clean(before, found) || !strcmp(found, before) || !strcmp(before, rank_0s) || find_own(before, strlen(before), NULL);
    if (!has_name && !find_exactly(rank_0s, strlen(rank_0s)) && !away_stat_disk(before, AT_SYMLINK_NOFOLLOW, &now) && !S_ISDIR(now.st_mode))
        add_all(rank_0s, before);
}

void alias_add(const char *own, const char *rank_0s) {
    char mine[PATH_MAX], theirs[PATH_MAX], before[PATH_MAX];
    size_t told;
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    bool is_same = !strcmp(own, rank_0s);
    if ((!is_same || alias_is_known()) && !scratch_has(own) && files_clean_told(AT_FDCWD, own, before, &told) &&
        files_clean(rank_0s, theirs)) {
        if (!find_own_folder(before, told, mine))
            strcpy(mine, before);
        if (!find_clean(mine, before))
            strcpy(before, mine);
        add_all(mine, theirs);
        keep_reachable(before, theirs);
    }
    errno = saved_errno;
}

/* From one folder to another: as this rank calls them, and rank 0; clean. */
struct move {
    char own[PATH_MAX], rank_0s[PATH_MAX], to[PATH_MAX], rank_0s_to[PATH_MAX];
};

/* Once: the program fills the same temporary folder for each checkpoint. */
static void move_one(struct alias *alias, const struct move *move) {
    char own[PATH_MAX], rank_0s[PATH_MAX];
    if (atomic_load_explicit(&alias->is_moved, memory_order_relaxed))
        return;
    const char *name = files_below(alias->rank_0s, move->rank_0s), *own_name = files_below(alias->own, move->own);
    own_name = own_name ? own_name : files_below(alias->own, move->rank_0s);
    if (!name || !own_name || !find_clean(alias->own, own) || strcmp(own, alias->rank_0s)) /* another one counts */
        return;
    if (join(own, move->to, own_name) && join(rank_0s, move->rank_0s_to, name))
        alias_add(own, rank_0s);
    atomic_store(&alias->is_moved, true);
}

void alias_move(const char *own, const char *to, const char *rank_0s_to) {
    struct move move;
    SHIM_FILES_ASIDE;
    uint64_t last = atomic_load(&count); /* what is added here follows it: the folders may be one, by a link */
    if (!files_clean(own, move.own) || !files_clean(to, move.to) || !files_clean(rank_0s_to, move.rank_0s_to) || !strcmp(move.own, move.to))
        return;
    if (!alias_find(AT_FDCWD, own, move.rank_0s))
        strcpy(move.rank_0s, move.own);
    for (struct alias *alias = atomic_load(&oldest); alias && alias->number <= last; alias = atomic_load(&alias->after))
        move_one(alias, &move);
}
