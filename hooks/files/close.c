/* Rows of closing: all ranks get what rank 0 gets, when its file is complete. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files.h"

struct ending {
    struct meeting_file met; /* number 0: nobody waits */
    uint64_t bytes, most;    /* that rank 0's could have */
    bool is_own;
    int problem;               /* of putting it in its place */
    struct beside_file beside; /* number 0: nobody waits */
};

static struct ending ending_begin(struct written *file) {
    struct stat now = {0};
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    struct ending ending = {.met = written_in_meeting(file), .is_own = file->is_own, .beside = file->beside};
    if (!fstat(file->descriptor, &now))
        ending.bytes = (uint64_t)now.st_size;
    ending.most = sink_most_bytes(file->descriptor, ending.bytes); /* before the file whose place it takes is gone */
    ending.problem = written_publish(file);                        /* also where another thread has begun to */
    if (!mapped_keep(file))
        written_drop(file);
    errno = saved_errno;
    return ending;
}

static int error_of_copy(const struct ending *ending, int first, uint64_t most) {
    return !first && ending->bytes > most ? ENOSPC : first;
}

/* result: of closing. Returns what the program gets: on all ranks what rank 0 gets. A rank's copy that has become longer than rank 0's file
   could become on its disk says that rank 0 could not write all. */
static int ending_end(struct ending *ending, int result, int failure) {
    int error = result ? errno : ending->problem;
    int first = 0;
    uint64_t most;
    if (ending->beside.number && !ending->is_own)
        beside_file_ends(ending->beside, ending->most, error);
    else if (ending->beside.number && beside_await_file(ending->beside, &most, &first) && !error)
        error = error_of_copy(ending, first, most);
    if (ending->met.number && !ending->is_own)
        meeting_file_ends(ending->met, ending->most, error);
    else if (ending->met.number && meeting_await_file(ending->met, &most, &first) && !error)
        error = error_of_copy(ending, first, most);
    if (error)
        errno = error;
    return error ? failure : result;
}

int hook_close(int descriptor) {
    struct written *file = written_find(descriptor);
    if (!file || written_leaves(file, descriptor))
        return NEXT(close) ? NEXT(close)(descriptor) : (int)syscall(SYS_close, descriptor);
    struct ending ending = ending_begin(file);
    return ending_end(&ending, NEXT(close)(descriptor), -1);
}

int hook_fclose(void *stream) {
    struct written *file = stream ? written_find(fileno(stream)) : NULL;
    if (!file || written_leaves(file, fileno(stream)))
        return ORIGINAL(fclose)(stream);
    bool is_flushed = !fflush(stream);
    int saved_errno = errno;
    struct ending ending = ending_begin(file);
    if (!is_flushed && !ending.problem)
        ending.problem = saved_errno;
    return ending_end(&ending, ORIGINAL(fclose)(stream), EOF);
}

void open_end(int descriptor) {
    struct written *file = written_find(descriptor);
    if (!file || written_leaves(file, descriptor))
        return;
    struct ending ending = ending_begin(file);
    int saved_errno = errno;
    ending_end(&ending, 0, 0);
    errno = saved_errno;
}
