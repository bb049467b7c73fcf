/* What a folder holds, by the names that this rank has for it (entries.c). */
#ifndef ACCEL_HOOKS_FILES_ENTRIES_H
#define ACCEL_HOOKS_FILES_ENTRIES_H

#include "alias.h"

struct entries {
    char *data; /* owned: struct protocol_entry, name, zero, ... */
    size_t bytes, room;
};

/* As they are in data. False: no memory. */
bool entries_add(struct entries *entries, const char *data, size_t bytes);
/* Gives those that this rank has made its own names for them, where the folder is in the same order by them. False: no memory. */
bool entries_spell(struct entries *entries, const struct alias_folder *folder);
void entries_drop(struct entries *entries);
/* The entry of the folder, by rank 0's names, that is where the program stands, or leads there: entry[NAME_MAX + 1]; empty: none. */
void entries_find_here(const char *folder, char *entry);
/* A whole file that rank 0 is writing beside its place is nothing to the program: it would stand in one rank's listing, and not in another's. */
bool entries_is_hidden(const char *name);

/* A folder is about to be listed: names of new files are there (listing.c). */
void listing_settle(void);
/* Is the own name of an entry what a listing of the folder shows of it? Also where there is none. Waits for nobody. May change errno. */
bool listing_shows(const char *folder, const char *own, const char *rank_0s);

#endif
