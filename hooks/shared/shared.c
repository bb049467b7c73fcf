/*
 * Memory that a program shares with its own children by a fixed name: a cache, a buffer that is written in place. One process has one; so has each rank.
 *
 * Rules of hooks/shared/
 *  - Rank 0's has the name that the program gave it; each other rank, with all its children, has its own: that name with the job's and the rank's number.
 *  - What was there before the job (another program's) is everybody's, and is opened as it is. Rank 0 leaves a mark beside what it makes itself, before it
 *    makes it; so the others know one from the other.
 *  - In any process of a job, claimed or not: a child may be the first to make it. What is left goes when the job ends (launcher/shared_names.c).
 *  - Names that libtorch draws for tensors (torch_PROCESS_RANDOM_NUMBER) are each rank's own, rank 0's, too: its random numbers are those of all ranks, and in
 *    process namespaces so are process numbers; and what ends before it has removed them leaves nothing. All processes that use them are the rank's, its
 *    torch_shm_manager among them, and say the drawn name to each other. One that only stands as it is drawn is somebody's outside of the job.
 *  - Names of semaphores that Python's multiprocessing draws, which all ranks draw alike, are each rank's own: it gives up after a hundred that are taken, and
 *    where workers are spawned they stay taken. Other semaphores are everybody's.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../shim/shim.h"

enum { NAME_ROOM = NAME_MAX + 2 };

static bool exists(const char *name) {
    int saved_errno = errno, file = ORIGINAL(shm_open)(name, O_RDONLY | O_CLOEXEC, 0);
    bool is_there = file >= 0 || errno == EACCES;
    if (file >= 0)
        close(file);
    errno = saved_errno;
    return is_there;
}

/* Made by somebody who is not of this job. */
static bool is_foreign(const char *name, const char *mark) {
    for (int look = 0; look < 2; look++) /* rank 0 may be removing both */
        if (!exists(name) || exists(mark))
            return false;
    return true;
}

/* own: what stands for the name on this rank; for rank 0, its mark. False: the program's name holds as it is. */
static bool find_own(const char *name, char *own) {
    char mark[NAME_ROOM];
    return shim_job_name() && shim_own_name(name, 0, mark, NAME_ROOM) && shim_own_name(name, shim_slot(), own, NAME_ROOM) &&
           !is_foreign(name, mark);
}

static void leave_mark(const char *mark) {
    int saved_errno = errno, file = ORIGINAL(shm_open)(mark, O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file >= 0)
        close(file);
    errno = saved_errno;
}

/* at::NewProcessWideShmHandle. */
static bool is_of_libtorch(const char *name) {
    return !strncmp(name, "/torch_", 7) && name[7] >= '0' && name[7] <= '9';
}

static bool find_drawn(const char *name, char *own) {
    return is_of_libtorch(name) && shim_job_name() && shim_own_name(name, shim_slot(), own, NAME_ROOM);
}

static int open_drawn(const char *name, const char *own, int flags, unsigned mode) {
    int file = ORIGINAL(shm_open)(own, flags, mode);
    return file < 0 && errno == ENOENT ? ORIGINAL(shm_open)(name, flags, mode) : file;
}

static int unlink_drawn(const char *name, const char *own) {
    int result = ORIGINAL(shm_unlink)(own);
    return result && errno == ENOENT ? ORIGINAL(shm_unlink)(name) : result;
}

int hook_shm_open(const char *name, int flags, unsigned mode) {
    char own[NAME_ROOM];
    if (find_drawn(name, own))
        return open_drawn(name, own, flags, mode);
    if (!find_own(name, own))
        return ORIGINAL(shm_open)(name, flags, mode);
    if (shim_slot())
        return ORIGINAL(shm_open)(own, flags, mode);
    if (flags & O_CREAT)
        leave_mark(own);
    return ORIGINAL(shm_open)(name, flags, mode);
}

int hook_shm_unlink(const char *name) {
    char own[NAME_ROOM];
    if (find_drawn(name, own))
        return unlink_drawn(name, own);
    if (!find_own(name, own))
        return ORIGINAL(shm_unlink)(name);
    if (shim_slot())
        return ORIGINAL(shm_unlink)(own);
    int result = ORIGINAL(shm_unlink)(name), saved_errno = errno;
    ORIGINAL(shm_unlink)(own);
    errno = saved_errno;
    return result;
}

static const char *name_of_semaphore(const char *name, char *own) {
    bool is_drawn = name && !strncmp(name, "/mp-", 4) && shim_job_name() && shim_slot();
    return is_drawn && shim_own_name(name, shim_slot(), own, NAME_ROOM) ? own : name;
}

void *hook_sem_open(const char *name, int flags, unsigned mode, unsigned value) {
    char own[NAME_ROOM];
    return ORIGINAL(sem_open)(name_of_semaphore(name, own), flags, mode, value);
}

int hook_sem_unlink(const char *name) {
    char own[NAME_ROOM];
    return ORIGINAL(sem_unlink)(name_of_semaphore(name, own));
}
