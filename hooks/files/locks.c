/*
 * Locks of files: rank 0 takes them, where other processes see them, and the others get its answer: each for itself would have the lock of its private
 * copy, or stand in the way of the others. What is locked is the file itself: not one that is written beside its place. Who gets the lock finds what
 * others have written while they had it: so the private copies become what rank 0 has then, before anything is written under it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "change.h"
#include "early.h"

/* A time of change may be as coarse as a tick of the kernel's: two changes within it look like one. */
enum { TICK_MS = 50 };
/* What SQLite locks of a data base, step by step: who writes has all of it, and begins when nobody else has any. */
enum { SQLITE_FIRST = 0x40000000, SQLITE_BYTES = 512 };

struct call {
    int descriptor;
    int (*act)(const struct call *call); /* libc's own */
    long command, what;
    bool takes;          /* a lock, rather than giving one up or asking for it */
    struct flock *asked; /* for what would be in its way; or NULL */
};

static int act_flock(const struct call *call) {
    return ORIGINAL(flock)(call->descriptor, (int)call->command);
}

static int act_fcntl(const struct call *call) {
    return ORIGINAL(fcntl)(call->descriptor, (int)call->command, call->what);
}

static int act_lockf(const struct call *call) {
    return ORIGINAL(lockf)(call->descriptor, (int)call->command, call->what);
}

static int64_t since_ms(struct timespec then) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (now.tv_sec - then.tv_sec) * 1000 + (now.tv_nsec - then.tv_nsec) / 1000000;
}

/* Does nobody else write to the file while this lock is held, nor while it becomes another such? flock() gives up the one before it takes the other. */
static bool guards(const struct call *call) {
    const struct flock *lock = (const struct flock *)call->what;
    if (call->act != act_fcntl || lock->l_whence != SEEK_SET)
        return false;
    bool is_sqlites = lock->l_start >= SQLITE_FIRST && lock->l_len > 0 && lock->l_start + lock->l_len <= SQLITE_FIRST + SQLITE_BYTES;
    return is_sqlites || (!lock->l_start && !lock->l_len);
}

/* Rank 0, which has got a lock: may there be something in the file that was not there at the last one? Its own additions count, too. */
static bool may_be_new(struct written *file, bool guarded) {
    struct stat now;
    if (!file || fstat(file->descriptor, &now))
        return true;
    bool is_old = (file->locked.is_known || (file->locked.is_held && guarded)) && file->locked.size == now.st_size &&
                  file->locked.time.tv_sec == now.st_mtim.tv_sec && file->locked.time.tv_nsec == now.st_mtim.tv_nsec;
    file->locked.is_known = since_ms(now.st_mtim) > TICK_MS;
    file->locked.is_held |= guarded;
    file->locked.size = now.st_size;
    file->locked.time = now.st_mtim;
    return !is_old;
}

static void is_given_up(struct written *other, const void *what) {
    const struct written *file = what;
    if (other->inode == file->inode && other->device == file->device)
        other->locked.is_held = false;
}

/* SQLite gives up the first of its parts when it has the second, and all by the handle that it used last. */
static bool gives_up_all(const struct call *call) {
    const struct flock *lock = (const struct flock *)call->what;
    return !call->takes && !call->asked && !(call->act == act_fcntl && (lock->l_start || lock->l_len));
}

/* What all ranks are told with the answer. */
static uint32_t news_of(const struct call *call, struct written *file) {
    int saved_errno = errno;
    uint32_t news = call->takes && may_be_new(file, guards(call));
    if (file && gives_up_all(call))
        written_each(is_given_up, file);
    errno = saved_errno;
    return news;
}

enum { ANSWER_CHARS = 80, NO_PROCESS = INT_MAX }; /* the kernel gives no such number */

/* Rank 0: what is in the way of a lock. */
static const char *tell_answer(const struct flock *lock, char *line) {
    snprintf(line, ANSWER_CHARS, "%d %d %lld %lld %d", lock->l_type, lock->l_whence, (long long)lock->l_start, (long long)lock->l_len,
             lock->l_pid);
    return line;
}

/* The others. The process is one of rank 0's host: elsewhere its number would be that of another one, which the program may be about to end. Where rank 0 does
   not come a rank asks for itself. */
static int take_answer(const struct change *change, const struct call *call) {
    int type, whence, process;
    long long start, length;
    if (!change->said || sscanf(change->said, "%d %d %lld %lld %d", &type, &whence, &start, &length, &process) < 5)
        return call->act(call);
    call->asked->l_type = (short)type;
    if (type == F_UNLCK) /* the rest stays what it was */
        return 0;
    call->asked->l_whence = (short)whence;
    call->asked->l_start = start;
    call->asked->l_len = length;
    call->asked->l_pid = process > 0 && !first_host_is_this() ? NO_PROCESS : process;
    return 0;
}

/* The lock is there. */
static void catch_up(struct change *change, const struct call *call, struct written *file) {
    if (!call->takes || !change->news)
        return;
    if (file && file->is_own)
        sink_renew(file);
    change_hold(change);
}

FILES_DEEP static int lock(const struct call *call) {
    char path[PATH_MAX], line[ANSWER_CHARS];
    struct change change;
    struct written *file = written_find(call->descriptor);
    if (file && shim_rank() == 0)
        written_put_in_place(file);
    bool has_path = file ? snprintf(path, sizeof path, "%s", file->path) > 0 : files_path_of(call->descriptor, path) > 0;
    if (!has_path)
        return call->act(call);
    bool acts = change_begin(&change, MEETING_LOCK, AT_FDCWD, path, 0, NULL);
    int result = acts ? call->act(call) : 0;
    change.asks = call->asked != NULL;
    if (acts && change.is_met && change.asks)
        change.said = tell_answer(call->asked, line);
    if (acts && change.is_met && !result)
        change.news = news_of(call, file);
    else if (acts && file && call->takes)
        file->locked.is_held = false;
    result = change_end(&change, result);
    if (change.is_met && !result && change.asks && !acts)
        result = take_answer(&change, call);
    if (change.is_met && !result)
        catch_up(&change, call, file);
    return result;
}

static enum files_place place_of(int descriptor) {
    int saved_errno = errno;
    char *path = files_may_begin() ? FILES_ROOM : NULL;
    bool has_path = path && files_path_of(descriptor, path);
    errno = saved_errno;
    enum files_place place = files_place_of(has_path ? path : NULL);
    if (place == FILES_EARLY)
        place = has_path ? files_place_early(path) : FILES_PASS;
    return place;
}

int hook_flock(int descriptor, int operation) {
    struct call call = {descriptor, act_flock, operation, 0, !(operation & LOCK_UN), NULL};
    return place_of(descriptor) < FILES_MEET ? act_flock(&call) : lock(&call);
}

int locks_fcntl(int descriptor, int command, struct flock *wanted) {
    bool asks = command == F_GETLK || command == F_OFD_GETLK;
    struct call call = {descriptor, act_fcntl, command, (long)wanted, !asks && wanted->l_type != F_UNLCK, asks ? wanted : NULL};
    enum files_place place = place_of(descriptor);
    int result = place < FILES_MEET ? act_fcntl(&call) : lock(&call);
    bool is_early = place == FILES_EARLY && !result && !asks && wanted->l_type == F_WRLCK;
    char *path = is_early ? FILES_ROOM : NULL;
    if (path && files_path_of(descriptor, path))
        early_note_change(MEETING_LOCK, path);
    return result;
}

int hook_lockf(int descriptor, int command, long length) {
    struct call call = {descriptor, act_lockf, command, length, command == F_LOCK || command == F_TLOCK, NULL};
    return place_of(descriptor) < FILES_MEET ? act_lockf(&call) : lock(&call);
}

int hook_lockf64(int descriptor, int command, long length) {
    return hook_lockf(descriptor, command, length);
}
