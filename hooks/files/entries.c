/*
 * What a folder holds, by the names that this rank has for it: those under which the program has made the files, of which rank 0 has others (alias.c).
 *
 * A program goes by the order of names, too: the last of them is the newest checkpoint, the first is removed. So the folder is in the same order by this rank's
 * names as by rank 0's, or all entries have rank 0's (a process number of more digits, a time of day across midnight).
 *
 * Where the program stands it is told by rank 0's names (links.c), and it may keep that alone, or leave it out: so the entry that leads there has rank 0's.
 *
 * Where one of those would be another file's on this rank there is no choice.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "entries.h"

struct names {
    const char *rank_0s, *own;
};

bool entries_add(struct entries *entries, const char *data, size_t bytes) {
    size_t needed = entries->bytes + bytes;
    if (needed > entries->room) {
        char *more = realloc(entries->data, 2 * needed);
        if (!more)
            return false;
        entries->data = more;
        entries->room = 2 * needed;
    }
    memcpy(entries->data + entries->bytes, data, bytes);
    entries->bytes = needed;
    return true;
}

void entries_drop(struct entries *entries) {
    free(entries->data);
    *entries = (struct entries){NULL, 0, 0};
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

static size_t count_entries(const struct entries *entries) {
    size_t count = 0;
    for (size_t at = 0; at < entries->bytes; at = behind(entries, at))
        count++;
    return count;
}

void entries_find_here(const char *folder, char *entry) {
    char here[PATH_MAX];
    SHIM_FILES_ASIDE;
    const char *below = !getcwd(here, sizeof here) ? NULL : strcmp(folder, "/") ? files_below(here, folder) : here + 1;
    snprintf(entry, NAME_MAX + 1, "%.*s", below ? (int)strcspn(below, "/") : 0, below ? below : "");
}

/* here: the entry that keeps rank 0's. True: some differ. */
static bool find_names(const struct entries *entries, const struct alias_folder *folder, const char *here, struct names *names) {
    bool differ = false;
    for (size_t at = 0; at < entries->bytes; at = behind(entries, at), names++) {
        const char *name = name_at(entries, at), *own = strcmp(name, here) ? alias_own_entry(folder, name) : NULL;
        *names = (struct names){name, own ? own : name};
        differ |= own != NULL;
    }
    return differ;
}

/* As the first parts of longer paths, with a slash behind them. */
static int compare_parts(const char *first, const char *second) {
    while (*first && *first == *second) {
        first++;
        second++;
    }
    return (*first || *second) ? (unsigned char)(*first ? *first : '/') - (unsigned char)(*second ? *second : '/') : 0;
}

static int compare_names(const void *first, const void *second) {
    return strcmp(((const struct names *)first)->rank_0s, ((const struct names *)second)->rank_0s);
}

static int compare_as_parts(const void *first, const void *second) {
    return compare_parts(((const struct names *)first)->rank_0s, ((const struct names *)second)->rank_0s);
}

static bool have_order(const struct names *sorted, size_t count, int (*compare)(const char *first, const char *second)) {
    for (size_t i = 1; i < count; i++)
        if (compare(sorted[i - 1].own, sorted[i].own) >= 0)
            return false;
    return true;
}

/* By themselves, and in paths: run_60-1 comes behind run_60, and before run_60/. sorted: room for as many names. Those that nobody is shown do not count. */
static bool are_in_order(const struct names *names, size_t count, struct names *sorted) {
    size_t shown = 0;
    for (size_t i = 0; i < count; i++)
        if (!entries_is_hidden(names[i].rank_0s))
            sorted[shown++] = names[i];
    qsort(sorted, shown, sizeof *sorted, compare_names);
    if (!have_order(sorted, shown, strcmp))
        return false;
    qsort(sorted, shown, sizeof *sorted, compare_as_parts);
    return have_order(sorted, shown, compare_parts);
}

static bool is_one_hidden(const struct names *names, size_t count, const struct alias_folder *folder) {
    for (size_t i = 0; i < count; i++)
        if (alias_hides_entry(folder, names[i].rank_0s))
            return true;
    return false;
}

/* names: in the order of the entries. */
static bool spell_all(struct entries *entries, const struct names *names) {
    struct entries spelled = {NULL, 0, 0};
    for (size_t at = 0; at < entries->bytes; at = behind(entries, at), names++)
        if (!entries_add(&spelled, entries->data + at, sizeof(struct protocol_entry)) ||
            !entries_add(&spelled, names->own, strlen(names->own) + 1)) {
            entries_drop(&spelled);
            return false;
        }
    entries_drop(entries);
    *entries = spelled;
    return true;
}

bool entries_spell(struct entries *entries, const struct alias_folder *folder) {
    char here[NAME_MAX + 1];
    size_t count = count_entries(entries);
    struct names *names = count ? malloc(2 * count * sizeof *names) : NULL;
    if (!names)
        return !count;
    entries_find_here(folder->rank_0s, here);
    bool differ = find_names(entries, folder, here, names), are_spelled = differ && are_in_order(names, count, names + count);
    bool is_spelled_as_first = differ && !are_spelled;
    if ((*here && alias_hides_entry(folder, here)) || (is_spelled_as_first && is_one_hidden(names, count, folder)))
        are_spelled = find_names(entries, folder, "", names);
    bool has_memory = !are_spelled || spell_all(entries, names);
    free(names);
    return has_memory;
}
