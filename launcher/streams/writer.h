/*
 * Writes to files, by a thread of its own: a disk that does not answer (a network folder whose server is gone) holds up that thread, and not the supervision
 * of the ranks. Pipes and terminals do not come here: poll() knows when they would block.
 *
 * Rules
 *  - To its callers a file is what a descriptor with O_NONBLOCK is: what the disk has not taken after WRITER_PATIENCE_MS is EAGAIN, and they come back, with
 *    the same bytes in front, when writer_add() calls them. Disks take less, so that things happen in the order in which they always did.
 *  - One write at a time. Who comes meanwhile gets EAGAIN: what two write to one file stands there in the order in which they came.
 *  - The thread ends with the launcher. Where none can be made the caller writes by itself.
 */
#ifndef ACCEL_RUN_WRITER_H
#define ACCEL_RUN_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "../loop.h"

#define WRITER_PATIENCE_MS 100

struct writer {
    struct writer_thread *thread; /* NULL: nothing was written yet */
};

/* As write(); errno EAGAIN: later. owner: an address by which the caller is known when it comes back. */
ssize_t writer_write(struct writer *writer, const void *owner, int descriptor, const char *bytes, size_t count);
/* The caller will not come back. */
void writer_forget(struct writer *writer, const void *owner);
/* Asks the loop to call when it is time to come back. */
void writer_add(struct writer *writer, int descriptor, struct loop *loop, loop_ready *ready, void *context, size_t index);

#endif
