/*
 * Memory that a program shares with its own children by a fixed name: a cache, a buffer that is written in place. One process has one; so has each rank.
 *
 * Rules of hooks/shared/
 *  - Rank 0's has the name that the program gave it; each other rank, with all its children, has its own: that name with the job's and the rank's number.
 *  - What was there before the job (another program's) is everybody's, and is opened as it is. Rank 0 leaves a mark beside what it makes itself, before it
 *    makes it; so the others know one from the other.
 *  - In any process of a job, claimed or not: a child may be the first to make it. What is left goes when the job ends (launcher/shared_names.c).
 *  - Names that libtorch draws (torch_PID_...) are left alone.
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
    bool is_ours = shim_job_name() && strncmp(name, "/torch_", 7) != 0;
    return is_ours && shim_own_name(name, 0, mark, NAME_ROOM) && shim_own_name(name, shim_slot(), own, NAME_ROOM) &&
           !is_foreign(name, mark);
}

static void leave_mark(const char *mark) {
    int saved_errno = errno, file = ORIGINAL(shm_open)(mark, O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file >= 0)
        close(file);
    errno = saved_errno;
}

int hook_shm_open(const char *name, int flags, unsigned mode) {
    char own[NAME_ROOM];
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
