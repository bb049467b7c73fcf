/* Names that rank 0 spells differently (alias.c); any rank but 0. */
#ifndef ACCEL_HOOKS_FILES_ALIAS_H
#define ACCEL_HOOKS_FILES_ALIAS_H

#include "files.h"

/* Is there one? */
bool alias_is_known(void);
/* Rank 0 spells this one differently, or not. Both whole paths, or both from the current directory. Keeps errno. */
void alias_add(const char *own, const char *rank_0s);
/* A folder has got another name, which rank 0 calls so: what is known of names in it goes with it. May change errno. */
void alias_move(const char *own, const char *to, const char *rank_0s_to);
/* Rank 0's spelling is in buffer[PATH_MAX], whole. False: it is not known to be another one. May change errno. */
bool alias_find(int directory, const char *path, char *buffer);
/* Rank 0's spelling of it: path, or buffer[PATH_MAX]. */
const char *alias_of(const char *path, char *buffer);
/* May rank 0 call a file so that this rank calls otherwise? By the letters alone: a cheap question. */
bool alias_is_rank_0s(const char *path);
/* Does rank 0 call another file by these letters than this rank? Then they are whole in other[PATH_MAX]. May change errno. */
bool alias_is_of_two(int directory, const char *path, char *other);
/* The same letters on all ranks, as far as is known: buffer[PATH_MAX]; see files_client. */
const char *alias_for_all(const char *path, char *buffer);
/* Rank 0's spelling of the program's name, in a child, too: path, or buffer[PATH_MAX], a whole path. What a link's text says of an open file is the program's.
   Keeps errno. */
const char *alias_spelled(int directory, const char *path, char *buffer);
/* As files_whole_path(); where that begins with what the system has told, and this rank calls another folder so, with this rank's name for it. Others are one
   file by a relative and by a whole path, and have links that can be followed. buffer[PATH_MAX]. May change errno. */
const char *alias_whole_path(int directory, const char *path, char *buffer);
/* What rank 0 calls the youngest file or folder that this rank calls so, wherever it lies: length characters of a name without a folder. NULL: none, or the
   same. Borrowed, for ever. */
const char *alias_part(const char *part, size_t length);

/* ---- as the program has written them (alias_words.c) */

/* As alias_spelled(), from where the program stands if it was so. */
const char *alias_spelled_here(const char *path, char *buffer);
/* The same for each word of a text (a command, an argument of one) but numbers, once; a word that names nothing here may be meant for another folder. Returns
   how many characters that is, and fills out[room] where they and a zero fit; 0: all stay. Allocates nothing. */
size_t alias_spell_words(const char *text, char *out, size_t room);
/* The same; owned. NULL: it stays as it is. */
char *alias_spell_text(const char *text);
/* Calls for each part of the path, with what stands before it in out[PATH_MAX]. NULL: it stays. False: all stay, or it is too long. */
bool alias_respell(const char *path, const char *(*respelled)(const char *before, const char *part, size_t length, const void *what),
                   const void *what, char *out);

/* A folder as the program calls it, of which the first characters are what the system has told (files_clean_told), and as rank 0 does; both clean. */
struct alias_folder {
    char own[PATH_MAX], rank_0s[PATH_MAX];
    size_t told;
};
/* False: there is nothing in it that rank 0 spells differently, as far as is known. Keeps errno. */
bool alias_is_in_folder(int directory, const char *path, struct alias_folder *folder);
/* What this rank calls an entry of it. NULL: as rank 0 does. Borrowed, for ever. */
const char *alias_own_entry(const struct alias_folder *folder, const char *entry);
/* Under the entry's name in the folder this rank would find another file. */
bool alias_hides_entry(const struct alias_folder *folder, const char *entry);

#endif
