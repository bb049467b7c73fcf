/* Changes of the disk that rank 0 makes when all ranks have come (change.c). */
#ifndef ACCEL_HOOKS_FILES_CHANGE_H
#define ACCEL_HOOKS_FILES_CHANGE_H

#include "files.h"

struct change_names {
    char whole[2][PATH_MAX], real[2][PATH_MAX]; /* the second is empty where there is one name only */
};

struct change {
    struct meeting meeting;
    struct beside beside;
    enum meeting_kind kind;
    enum files_place place;
    char (*whole)[PATH_MAX], (*real)[PATH_MAX]; /* of struct change_names; NULL: not needed */
    const char *paths[2];
    bool is_met, acts;
    bool is_early;     /* the process is no rank yet */
    uint16_t news;     /* what rank 0 says beside its result: 0 if it says nothing before the end */
    bool asks;         /* nothing is changed: what rank 0 has found is told as a line, in place of how it calls the name */
    const char *said;  /* this line; NULL: not known on this rank, since rank 0 does not come */
    bool is_beside;    /* met for by name, on a thread that does not meet otherwise */
    bool is_brought;   /* a file of all ranks is moved to where each has its own */
    bool ends_scratch; /* what each rank has for itself is removed, or gets another name */
};

/* Returns true on the ranks that act: those call the function itself, the others take 0 as its result. second: the other name, or NULL. Paths are borrowed
   until the end. */
#define change_begin(change, kind, directory, path, second_directory, second)                                                              \
    (change_passes(change, kind, directory, path, second) ||                                                                               \
     change_meet(change, (struct change_names *)__builtin_alloca(sizeof(struct change_names)), directory, path, second_directory, second))
/* Its two parts: true: there is nothing to be met for. Then there need be no room for names. */
bool change_passes(struct change *change, enum meeting_kind kind, int directory, const char *path, const char *second);
FILES_DEEP bool change_meet(struct change *change, struct change_names *names, int directory, const char *path, int second_directory,
                            const char *second);
/* Returns what the program gets, with errno. */
int change_end(struct change *change, int result);
/* After the end: no rank goes on before all are here. */
void change_hold(struct change *change);

/* fcntl() for a lock (locks.c). */
struct flock;
int locks_fcntl(int descriptor, int command, struct flock *wanted);

#endif
