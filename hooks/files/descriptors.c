/* Rows of descriptors: a file that has several ends when the last of them is closed, whichever that is. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "change.h"

static int twin(int from, int to) {
    struct written *file = to >= 0 && from != to ? written_find(from) : NULL;
    if (file)
        written_add_twin(file, to);
    return to;
}

int hook_dup(int from) {
    return twin(from, ORIGINAL(dup)(from));
}

/* A child makes it its output before it becomes another program. */
static void give(int from, int to) {
    if (to <= STDERR_FILENO && from != to && files_is_in_child())
        given_add(from);
}

int hook_posix_spawn_dup2(void *actions, int from, int to) {
    if (written_find(from))
        given_add(from);
    return ORIGINAL(posix_spawn_dup2)(actions, from, to);
}

/* What stands under the number is closed, unless the call will be refused: then it goes on. Keeps errno. */
static void make_free(int from, int to, int flags) {
    struct rlimit limit;
    int saved_errno = errno;
    if (from == to || written_place_at(to) == BOARD_ENDS)
        return;
    if (fcntl(from, F_GETFD) >= 0 && !(flags & ~O_CLOEXEC) && !getrlimit(RLIMIT_NOFILE, &limit) && (rlim_t)to < limit.rlim_cur)
        open_end(to);
    errno = saved_errno;
}

int hook_dup2(int from, int to) {
    give(from, to);
    make_free(from, to, 0);
    return twin(from, ORIGINAL(dup2)(from, to));
}

int hook_dup3(int from, int to, int flags) {
    give(from, to);
    make_free(from, to, flags);
    return twin(from, ORIGINAL(dup3)(from, to, flags));
}

/* An allocator may call this one before the table is filled. */
int hook_fcntl(int descriptor, int command, long what) {
    switch (command) {
    case F_SETLK:
    case F_SETLKW:
    case F_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
    case F_OFD_GETLK:
        if (what)
            return locks_fcntl(descriptor, command, (struct flock *)what);
    }
    int result = NEXT(fcntl) ? NEXT(fcntl)(descriptor, command, what) : (int)syscall(SYS_fcntl, descriptor, command, what);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? twin(descriptor, result) : result;
}

int hook_fcntl64(int descriptor, int command, long what) {
    return hook_fcntl(descriptor, command, what);
}

/* What has been added to a file is cut: until then the others' copies may still need what rank 0 has there (sink_fill), afterwards they must not. */
static void before_cut(int descriptor) {
    struct written *file = written_find(descriptor);
    if (!file || !(fcntl(descriptor, F_GETFL) & O_APPEND))
        return;
    if (file->is_own)
        sink_fill(file);
    if (file->number && meeting_is_here())
        meeting_hold(MEETING_TRUNCATE, file->path, NULL);
}

int hook_ftruncate(int descriptor, long length) {
    before_cut(descriptor);
    return ORIGINAL(ftruncate)(descriptor, length);
}

int hook_ftruncate64(int descriptor, long length) {
    return hook_ftruncate(descriptor, length);
}

/* They may be closed without a call of ours: what they wrote is in its place then. */
int hook_close_range(unsigned first, unsigned last, int flags) {
    written_publish_all();
    return ORIGINAL(close_range)(first, last, flags);
}

void hook_closefrom(int first) {
    written_publish_all();
    ORIGINAL(closefrom)(first);
}
