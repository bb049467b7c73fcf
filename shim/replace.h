/*
 * A file is replaced whole: what is written goes to a temporary file in the same directory, which takes the target's name at the end. A
 * reader, or a crash at any moment, finds the old file or the new one.
 *
 *  - The temporary file has no name (O_TMPFILE) where the file system has such: it is gone with its process. Elsewhere (NFS) it is called after the target:
 *    model.pt is written as model.accel-0123abcd. libtorch writes the file's stem into its archives (name.pt becomes name/data.pkl) and cuts at the last dot,
 *    so the bytes are those of a plain run.
 *  - A named one that a killed job has left behind is removed by the next replacement of the same target. Locks tell: a living job holds
 *    one on its own.
 *  - Not synchronised to the disk: against dying processes, not against a power cut.
 *  - Allocates nothing (but opendir does), keeps errno. One thread for each struct.
 */
#ifndef ACCEL_SHIM_REPLACE_H
#define ACCEL_SHIM_REPLACE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum { REPLACE_LINK_BYTES = 32 }; /* of /proc/self/fd/N */

enum replace_way {
    REPLACE_WHOLE,
    REPLACE_DIRECT, /* must be opened by its path: a device, a pipe, a file of several names or that is mounted, where nothing can be made */
    REPLACE_FAIL,   /* opening the path fails */
};

struct replacement {
    char target[PATH_MAX]; /* the file that is replaced, without symbolic links */
    char name[PATH_MAX];   /* of the temporary file; of one without a name: what it is called by */
    int file;              /* the temporary file, locked; -1: none */
    bool is_unnamed;       /* it has no name yet */
    bool is_borrowed;      /* the file is the caller's to close */
    bool is_locked;        /* it has a lock of ours */
    mode_t mode;           /* permissions of the file that is replaced, 0: there is none */
};

/* The real path: of the file, or of its directory when the file does not exist yet; a link to nowhere is followed to what it names, as where a file is made.
   false: it cannot be opened. real[PATH_MAX]. */
bool replace_locate(const char *path, char *real);
/* The same of the name itself: also of a link, and where nothing stands yet. errno: of realpath(). */
bool replace_locate_name(const char *path, char *real);

/* Decides; if WHOLE makes the temporary file, for somebody who opens it by replacement->name, and whose call of open is given replace_path() instead. */
enum replace_way replace_begin(struct replacement *replacement, const char *path);
/* Where the temporary file is to be opened. link[REPLACE_LINK_BYTES] may be where the answer is. */
const char *replace_path(const struct replacement *replacement, char *link);
/* Decides, and opens the temporary file for the caller: flags and mode as for open(). The descriptor in replacement->file is then the caller's to close, and
   commit and discard leave it open. */
enum replace_way replace_open(struct replacement *replacement, const char *path, int flags, mode_t mode);

/* The caller is about to lock a descriptor of its own: that lock is not ours to give up in the end. */
void replace_unlock(struct replacement *replacement);

/* The name of such a file, without a folder, that one of these processes is just writing. */
bool replace_is_temporary(const char *name, const int32_t *makers, uint32_t count);

/* Puts the temporary file in the target's place. Returns 0 or an errno; then it is discarded. */
int replace_commit(struct replacement *replacement);
/* Removes the temporary file if it is still there. */
void replace_discard(struct replacement *replacement);

#endif
