/*
 * Rows in which the system says what a link says. On the disk that is rank 0's name. This rank is told what its listings show (listing.c): a program that keeps
 * what `latest` leads to, and removes what else glob() finds, keeps the same file on all ranks.
 *
 * Where the program stands it is told by rank 0's name on all ranks: getcwd() is handed to other processes (multiprocessing's workers go there), which know no
 * other, and to commands. So the folders that lead there are rank 0's in what links say, too, and in listings (entries.c): one file has one name without links.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "entries.h"

/* What this rank is shown of a part of what rank 0 says; before: what this rank is shown in front of it; folder: where that begins, with a slash. NULL: the
   same. */
static const char *own_part(const char *before, const char *part, size_t length, const void *folder) {
    char at[PATH_MAX], entry[NAME_MAX + 1], here[NAME_MAX + 1];
    struct alias_folder known;
    if (length > NAME_MAX || snprintf(at, sizeof at, "%s%s.", *before == '/' ? "" : (const char *)folder, before) >= PATH_MAX ||
        !alias_is_in_folder(AT_FDCWD, at, &known))
        return NULL;
    snprintf(entry, sizeof entry, "%.*s", (int)length, part);
    const char *own = alias_own_entry(&known, entry);
    if (!own)
        return NULL;
    entries_find_here(known.rank_0s, here);
    return strcmp(entry, here) && listing_shows(at, own, entry) ? own : NULL;
}

/* ---- links */

static long read_link(int directory, const char *path, char *text, size_t room) {
    long away;
    if (AWAY(link, directory, path, text, room, &away))
        return away;
    return NEXT(readlinkat) ? NEXT(readlinkat)(directory, path, text, room) : syscall(SYS_readlinkat, directory, path, text, room);
}

/* The same where names differ. */
FILES_DEEP static long read_spelled(int directory, const char *path, char *text, size_t room) {
    char buffer[PATH_MAX], whole[PATH_MAX], folder[PATH_MAX], read[PATH_MAX], own[PATH_MAX];
    long length = read_link(directory, alias_spelled(directory, path, buffer), read, sizeof read - 1);
    if (length < 0)
        return length;
    int saved_errno = errno;
    read[length] = 0;
    path = alias_whole_path(directory, path, whole);
    snprintf(folder, sizeof folder, "%.*s", (int)(shim_base_of(path) - path), path);
    const char *shown = alias_respell(read, own_part, folder, own) ? own : read;
    size_t bytes = strlen(shown);
    memcpy(text, shown, bytes < room ? bytes : room);
    errno = saved_errno;
    return (long)(bytes < room ? bytes : room);
}

long hook_readlinkat(int directory, const char *path, char *text, unsigned long room) {
    bool differs = path && room && alias_is_known() && !shim_files_aside_now;
    return differs ? read_spelled(directory, path, text, room) : read_link(directory, path, text, room);
}

long hook_readlink(const char *path, char *text, unsigned long room) {
    return hook_readlinkat(AT_FDCWD, path, text, room);
}
