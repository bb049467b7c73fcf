/* One save of a file, as all ranks go through it. The rules stand in save.c. */
#ifndef ACCEL_HOOKS_SAVE_H
#define ACCEL_HOOKS_SAVE_H

#include <limits.h>
#include <sys/types.h>

#include "../../shim/shim.h"

enum save_way {
    SAVE_REPLACE = REPLACE_WHOLE, /* rank 0: into a temporary file, which takes the target's name at the end */
    SAVE_DIRECT = REPLACE_DIRECT, /* rank 0: the path itself */
    SAVE_FAIL = REPLACE_FAIL,     /* every rank: opening the path fails, and the program shall hear why from libtorch */
    SAVE_NOWHERE,                 /* the other ranks */
    SAVE_OWN,                     /* every rank: a file that it has drawn a name for (tempfile) */
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
    struct replacement file;   /* REPLACE: rank 0's */
    bool is_written;           /* libtorch has returned: all bytes are in the file */
    bool has_failed;           /* libtorch has thrown before */
    bool is_over;              /* the ranks have told each other how it went */
    bool is_beside;            /* on a thread on which the ranks come together by the file's name */
    uint64_t beside;           /* the key of its end (shim/beside.h); 0: nobody follows */
};

/* The save that this thread is beginning, for writer_file. */
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

#endif
