/* One save of a file, as all ranks go through it. The rules stand in save.c. */
#ifndef ACCEL_HOOKS_SAVE_H
#define ACCEL_HOOKS_SAVE_H

#include <limits.h>
#include <sys/types.h>

#include "../../shim/shim.h"

enum save_way {
    SAVE_REPLACE, /* rank 0: into a temporary file, which takes the target's name at the end */
    SAVE_DIRECT,  /* rank 0: the path itself: a device, a pipe, a file with several names, a directory where nothing can be created */
    SAVE_NOWHERE, /* the other ranks */
    SAVE_FAIL,    /* every rank: opening the path fails, and the program shall hear why from libtorch */
};

/* A std::string to pass to libtorch, of either ABI: in both, the first word points to the characters. */
struct save_string {
    const char *text;
    size_t length, capacity, unused; /* since C++11 */
    struct {                         /* before: the characters follow their header */
        size_t length, capacity;
        int64_t references; /* -1: copies must not share */
        char text[PATH_MAX];
    } shared;
};

struct save {
    enum save_way way;
    struct save_string opened; /* what libtorch opens */
    char path[PATH_MAX];       /* the program's */
    char target[PATH_MAX];     /* REPLACE: the file that is replaced, without symbolic links */
    int file;                  /* REPLACE: the temporary file, locked; -1 */
    bool is_unnamed;           /* it has no name yet */
    bool is_written;           /* libtorch has returned: all bytes are in the file */
    bool has_failed;           /* libtorch has thrown before */
    bool is_over;              /* the ranks have told each other how it went */
    mode_t mode;               /* REPLACE: permissions of the file that is replaced, 0: there is none */
};

/* The save that this thread is beginning, for writer_setup. */
extern _Thread_local struct save *save_current;

/* The characters of a std::string of either ABI, borrowed. */
static inline const char *save_text(const void *string) {
    return *(const char *const *)string;
}
void save_set_string(struct save_string *string, const char *text);

/* A collective of all ranks: agrees on the way and fills save->opened. */
void save_begin(struct save *save, const char *path);
/* A collective: after libtorch has written everything. Throws where the file could not be written, on every rank. */
void save_finish(struct save *save);
/* The same while an exception passes (and nothing otherwise): never throws. A cleanup. */
void save_abandon(struct save *save);

/* ---- rank 0's file (file.c) */

/* Decides between REPLACE, DIRECT and FAIL; in the first case makes the temporary file and sets save->opened. */
void file_begin(struct save *save);
/* libtorch is about to open save->opened: exchanges the temporary file for one without a name where the file system has such. */
void file_unname(struct save *save);
/* Puts the temporary file in the target's place. Returns 0 or an errno. */
int file_commit(struct save *save);
/* Removes the temporary file if it is still there. */
void file_discard(struct save *save);
/* All ranks have come to this save to memory of their own, or to a file that each has opened itself. Within a save by name: nothing. */
void save_meet(const char *where);

#endif
