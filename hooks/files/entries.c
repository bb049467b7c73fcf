/*
 * What a folder holds, by the names that this rank has for it: those under which the program has made the files, of which rank 0 has others (alias.c).
 *
 * A program goes by the order of names, too: the last of them is the newest checkpoint, the first is removed. So the folder is in the same order by this rank's
 * names as by rank 0's, or all entries have rank 0's (a process number of more digits, a time of day across midnight). Where one of those would be another
 * file's on this rank there is no choice.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "entries.h"

struct names {
    const char *rank_0s, *own;
};

bool entries_add(struct entries *entries, const char *data, size_t bytes) {
    char *more = realloc(entries->data, entries->bytes + bytes);
    if (!more)
        return false;
    memcpy(more + entries->bytes, data, bytes);
    entries->data = more;
    entries->bytes += bytes;
    return true;
}

void entries_drop(struct entries *entries) {
    free(entries->data);
    *entries = (struct entries){NULL, 0};
}

bool entries_is_hidden(const char *name) {
    int32_t ranks[BOARD_RANKS_MAX];
    if (!strstr(name, ".accel-") || files_place() < FILES_MEET)
        return false;
    shim_processes(ranks);
    return replace_is_temporary(name, ranks, shim_world_size());
}

/* The name of the entry that begins there. */
static const char *name_at(const struct entries *entries, size_t at) {
    return entries->data + at + sizeof(struct protocol_entry);
}

static size_t behind(const struct entries *entries, size_t at) {
    return at + sizeof(struct protocol_entry) + strlen(name_at(entries, at)) + 1;
}

/* names: room for all, or NULL. Returns how many there are. */
static size_t list_names(const struct entries *entries, const struct alias_folder *folder, struct names *names) {
    size_t count = 0;
    for (size_t at = 0; at < entries->bytes; at = behind(entries, at)) {
        const char *name = name_at(entries, at);
        if (entries_is_hidden(name))
            continue;
        if (names) {
            const char *own = alias_own_entry(folder, name);
            names[count] = (struct names){name, own ? own : name};
        }
        count++;
    }
    return count;
}

static int compare(const void *first, const void *second) {
    return strcmp(((const struct names *)first)->rank_0s, ((const struct names *)second)->rank_0s);
}

/* names: sorted here. */
static bool are_in_order(struct names *names, size_t count) {
    qsort(names, count, sizeof *names, compare);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1].own, names[i].own) >= 0)
            return false;
    return true;
}

static bool is_one_hidden(const struct names *names, size_t count, const struct alias_folder *folder) {
    for (size_t i = 0; i < count; i++)
        if (alias_hides_entry(folder, names[i].rank_0s))
            return true;
    return false;
}

static bool add_spelled(struct entries *spelled, const struct entries *entries, size_t at, const char *own) {
    return entries_add(spelled, entries->data + at, sizeof(struct protocol_entry)) && entries_add(spelled, own, strlen(own) + 1);
}

static bool spell_all(struct entries *entries, const struct alias_folder *folder) {
    struct entries spelled = {NULL, 0};
    for (size_t at = 0; at < entries->bytes; at = behind(entries, at)) {
        const char *own = alias_own_entry(folder, name_at(entries, at));
        if (!add_spelled(&spelled, entries, at, own ? own : name_at(entries, at))) {
            entries_drop(&spelled);
            return false;
        }
    }
    entries_drop(entries);
    *entries = spelled;
    return true;
}

bool entries_spell(struct entries *entries, const struct alias_folder *folder) {
    size_t count = list_names(entries, folder, NULL);
    struct names *names = count ? malloc(count * sizeof *names) : NULL;
    if (!names)
        return !count;
    list_names(entries, folder, names);
    bool are_spelled = are_in_order(names, count) || is_one_hidden(names, count, folder);
    free(names);
    return !are_spelled || spell_all(entries, folder);
}
