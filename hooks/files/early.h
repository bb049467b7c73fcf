/* Files that a process has opened for writing before it became a rank. */
#ifndef ACCEL_HOOKS_FILES_EARLY_H
#define ACCEL_HOOKS_FILES_EARLY_H

#include "../../shim/shim.h"

/* Is what is done under this name of the job's concern? Not devices, and what is left alone (files.c). */
bool early_concerns(const char *path);
/* An open for writing in a process that may become a rank, of a name that concerns; the result is that of open_written(). */
int early_open(const char *path, int flags, unsigned mode);
/* A change of names that has been made, or a lock that has been taken, in such a process: each copy has done it, or found it done. */
void early_note_change(enum meeting_kind kind, const char *path);
/* The process ends, and has not become one. */
void early_end(void);
/* The process is a rank, and what it has opened before went by unseen. All are, and stand still. */
void early_find(void);
/* The process is a rank: ranks but 0 go on with private copies of what they have open. */
void early_divert(void);
/* All are ranks, and nobody goes on: the copies become what rank 0's files are now. */
void early_renew(void);

#endif
