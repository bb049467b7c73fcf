/*
 * Names as the program has written them, for those who know nothing of its spelling: commands, and children that become another program. They are told
 * rank 0's.
 *
 * A word leads to a file from where the program stands. Where nothing is there it may be meant for another folder ("cd runs && gzip it", "tar -C runs it",
 * cwd=): then each part that this rank has given a file as its name is the name that rank 0 gave it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "alias.h"

bool alias_respell(const char *path, const char *(*respelled)(const char *before, const char *part, size_t length, const void *what),
                   const void *what, char *out) {
    size_t used = 0, length;
    bool differs = false;
    out[0] = 0;
    for (const char *part = path; *part; part += length) {
        length = *part == '/' ? strspn(part, "/") : strcspn(part, "/");
        const char *other = *part == '/' ? NULL : respelled(out, part, length, what);
        size_t characters = other ? strlen(other) : length;
        if (used + characters >= PATH_MAX)
            return false;
        memcpy(out + used, other ? other : part, characters);
        used += characters;
        out[used] = 0;
        differs |= other != NULL;
    }
    return differs;
}

/* ---- a path */

/* How much of the path leads to where it begins: "../.." of "../../here". */
static size_t beginning_of(const char *path) {
    size_t length = 0;
    for (;;) {
        size_t dots = strspn(path + length, "."), slashes = strspn(path + length + dots, "/");
        if (!dots || dots > 2 || !slashes)
            return length;
        length += dots + slashes;
    }
}

const char *alias_spelled_here(const char *path, char *buffer) {
    char here[PATH_MAX], folder[PATH_MAX];
    const char *found = alias_spelled(AT_FDCWD, path, buffer);
    if (found == path || *path == '/')
        return found;
    int saved_errno = errno;
    size_t length = beginning_of(path);
    snprintf(here, sizeof here, "%.*s.", (int)length, path);
    const char *below = files_clean(here, folder) ? files_below(found, folder) : NULL;
    errno = saved_errno;
    if (!below || length + strlen(below) >= PATH_MAX)
        return found;
    memmove(buffer + length, below, strlen(below) + 1);
    return memcpy(buffer, path, length);
}

/* ---- words */

static bool is_there(const char *path) {
    struct stat now;
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    bool is_so = !lstat(path, &now);
    errno = saved_errno;
    return is_so;
}

/* It is an address, too, which folders are called by. */
static bool is_this_host(const char *part, size_t length) {
    struct utsname host;
    return !uname(&host) && strlen(host.nodename) == length && !strncmp(host.nodename, part, length);
}

static const char *part_of_rank_0(const char *before, const char *part, size_t length, const void *unused) {
    return is_this_host(part, length) ? NULL : alias_part(part, length);
}

/* A number may be any. word[PATH_MAX]. NULL: it stays. */
static const char *spelled_word(const char *text, size_t length, char *word, char *buffer) {
    snprintf(word, PATH_MAX, "%.*s", (int)length, text);
    if (strspn(word, "0123456789") == length)
        return NULL;
    const char *spelled = alias_spelled_here(word, buffer);
    if (spelled != word)
        return spelled;
    bool is_elsewhere = *word != '/' && !shim_files_aside_now && alias_respell(word, part_of_rank_0, NULL, buffer) && !is_there(word);
    return is_elsewhere ? buffer : NULL;
}

/* Returns its characters; where there is room for them and a zero they are put there. */
static size_t put(char *out, size_t used, size_t room, const char *text, size_t characters) {
    if (used + characters < room)
        memcpy(out + used, text, characters);
    return characters;
}

size_t alias_spell_words(const char *text, char *out, size_t room) {
    static const char between[] = " \t\r\n'\"`;|&<>()=,";
    char word[PATH_MAX], buffer[PATH_MAX];
    size_t used = 0, length, others;
    bool differs = false;
    for (const char *at = text; *at && alias_is_known(); at += length + others) {
        length = strcspn(at, between);
        others = strspn(at + length, between);
        const char *spelled = length && length < PATH_MAX ? spelled_word(at, length, word, buffer) : NULL;
        used += spelled ? put(out, used, room, spelled, strlen(spelled)) : put(out, used, room, at, length);
        used += put(out, used, room, at + length, others);
        differs |= spelled != NULL;
    }
    if (used < room)
        out[used] = 0;
    return differs ? used : 0;
}

char *alias_spell_text(const char *text) {
    size_t length = text ? alias_spell_words(text, NULL, 0) : 0;
    char *out = length ? malloc(length + 1) : NULL;
    size_t used = out ? alias_spell_words(text, out, length + 1) : 0;
    if (used && used <= length)
        return out;
    free(out);
    return NULL;
}
