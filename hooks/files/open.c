/* Rows of opening. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alias.h"
#include "early.h"
#include "files.h"

/* libc exports this one under a second name, which nobody interposes. */
extern int __open64(const char *path, int flags, ...);

static bool writes(int flags) {
    if (flags & (O_PATH | O_DIRECTORY)) /* O_TMPFILE has O_DIRECTORY in it: nobody else sees such a file */
        return false;
    return (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
}

/* Files whose name is what counts, for other processes too: there at once. */
bool open_is_lock(const char *path) {
    static const char *const ends[] = {".lock", ".lck", ".pid"};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (length > strlen(ends[i]) && !strcmp(path + length - strlen(ends[i]), ends[i]))
            return true;
    return false;
}

/* Rewritten as a whole: may be written elsewhere until it is complete. A file that must not be there yet is a lock as often as a save, and of
   one that must be no link the system says so. */
static bool is_whole(const char *path, int flags) {
    return flags & O_TRUNC && !(flags & (O_EXCL | O_NOFOLLOW)) && (flags & O_ACCMODE) != O_RDONLY && !open_is_lock(path);
}

static struct written *entry_for(const char *real) {
    struct written *file = written_new(real);
    if (!file)
        shim_problem("AR-FILE-MANY", "Close files that are not written any more.",
                     "rank %u cannot open '%s': it has no room to know more than %d files that are open for writing at a time", shim_rank(),
                     real, BOARD_ENDS);
    return file;
}

int open_private(const char *real, int flags) {
    struct written *file = entry_for(real);
    int descriptor = sink_open(real, flags | O_TRUNC, 0600);
    if (descriptor < 0)
        sink_refuse(real);
    file->is_own = true;
    written_show(file, descriptor, 0);
    scratch_add(real);
    return descriptor;
}

/* How Python's tempfile opens, where it does without being told. */
static bool is_scratch(const char *real, int flags, unsigned mode) {
    const int drawn = O_CREAT | O_EXCL | O_NOFOLLOW;
    return (flags & drawn) == drawn && !(mode & 077) && scratch_may_be_in(real);
}

static int open_scratch(const char *path, const char *real, int flags, unsigned mode) {
    if (scratch_is_anothers(path)) {
        errno = EEXIST;
        return -1;
    }
    int descriptor = open(path, flags, mode);
    if (descriptor < 0 && errno == ENOENT && away_has_folder_of(path))
        return open_private(real, flags);
    int saved_errno = errno;
    if (descriptor >= 0)
        scratch_add(path);
    errno = saved_errno;
    return descriptor;
}

/* Opens the file itself, or a temporary one for it: not where another handle has it, for reading or by its memory, which would go on with a file that has no
   name. -1 with errno. */
static int open_real(struct written *file, const char *path, int flags, unsigned mode) {
    /* Where no backward may ever show what is being written it is written in place. */
    bool is_rank = atomic_load_explicit(&shim_kind_now, memory_order_relaxed) == SHIM_RANK;
    if (is_rank && is_whole(path, flags) && (flags & O_CREAT || !access(path, F_OK)) && !written_find_path(file->path) &&
        !readers_have(path) && replace_open(&file->replacement, path, flags, mode) == REPLACE_WHOLE) {
        file->is_temporary = true;
        return file->replacement.file;
    }
    return open(path, flags, mode);
}

/* Rank 0's part of a meeting: all have come. */
static int open_first(struct meeting *meeting, struct written *file, const char *path, int flags, unsigned mode) {
    int descriptor = open_real(file, path, flags, mode);
    meeting_answer(meeting, descriptor < 0 ? errno : 0, written_place(file));
    return descriptor;
}

/* The others' part. */
struct copy {
    struct written *file;
    const char *path;
    int flags;
    unsigned mode;
    int sink, error; /* -1 and why */
};

static void take_copy(struct copy *copy) {
    copy->sink = sink_take(copy->file, copy->file->path, copy->flags, copy->mode);
    copy->error = errno;
}

/* A private copy that cannot be made would part this rank from the others. */
static void refuse_copy(const struct copy *copy) {
    errno = copy->error;
    sink_refuse(copy->path);
}

/* Rank 0 empties the file as it opens it, or makes a new one, which may fail: until then the others keep what they have under that name. */
static bool is_emptied(const struct copy *copy) {
    return copy->flags & O_TRUNC || sink_is_new(copy->flags);
}

/* Before rank 0 opens the file: the copy begins with what is in it. There is none yet where rank 0 may have no descriptor left either. */
static void begin_copy(struct copy *copy) {
    copy->sink = -1;
    if (is_emptied(copy))
        return;
    take_copy(copy);
    if (copy->sink < 0 && !sink_has_none_left())
        refuse_copy(copy);
}

/* Rank 0 has opened the file, or failed to with this errno. Returns the copy, or -1 with errno. */
static int end_copy(struct copy *copy, int error) {
    if (!error && is_emptied(copy))
        take_copy(copy);
    if (!error && copy->sink < 0)
        refuse_copy(copy);
    if (!error)
        return copy->sink;
    if (copy->sink >= 0)
        close(copy->sink);
    errno = error;
    return -1;
}

static int open_copy(struct meeting *meeting, struct written *file, const char *path, int flags, unsigned mode) {
    struct copy copy = {file, path, flags, mode, -1, 0};
    begin_copy(&copy);
    meeting_come(meeting, MEETING_OPEN, path, NULL);
    meeting_await(meeting);
    int sink = end_copy(&copy, meeting->error);
    if (sink < 0)
        return -1;
    file->is_own = true;
    file->is_whole = is_whole(path, flags);
    file->rank_0s = meeting->answer;
    spelling_met(path, meeting->paths[0]);
    alias_add(path, meeting->paths[0]);
    mapped_settle(true); /* rank 0 is past what it has written to those before */
    return sink;
}

/* Returns the descriptor, with errno as it was. */
static int opened(struct written *file, int descriptor, uint64_t number) {
    int saved_errno = errno;
    if (descriptor >= 0)
        written_show(file, descriptor, number);
    else
        written_drop(file);
    errno = saved_errno;
    return descriptor;
}

static int open_meeting(const char *path, const char *real, int flags, unsigned mode) {
    struct meeting meeting;
    struct written *file = entry_for(real);
    int descriptor;
    if (shim_rank() == 0) {
        meeting_come(&meeting, MEETING_OPEN, path, NULL);
        descriptor = open_first(&meeting, file, path, flags, mode);
    } else {
        descriptor = open_copy(&meeting, file, path, flags, mode);
    }
    return opened(file, descriptor, meeting.number);
}

/* On a thread that does not meet. The others go on with a private copy where rank 0 does not come. */
static int open_copy_beside(struct beside *beside, struct written *file, const char *path, int flags, unsigned mode) {
    struct copy copy = {file, path, flags, mode, -1, 0};
    begin_copy(&copy);
    beside_come(beside);
    bool is_answered = beside_await(beside);
    int sink = end_copy(&copy, is_answered ? beside->error : 0);
    if (sink < 0)
        return -1;
    file->is_own = true;
    file->beside = is_answered ? beside->file : (struct beside_file){0, 0};
    if (beside->rank_0s[0])
        alias_add(path, beside->rank_0s);
    return sink;
}

static int open_first_beside(struct beside *beside, struct written *file, const char *path, int flags, unsigned mode) {
    int descriptor = open_real(file, path, flags, mode);
    if (descriptor < 0)
        beside_answer(beside, errno);
    else
        beside_answer_file(beside, written_place(file));
    file->beside = beside->file;
    return descriptor;
}

static int open_beside(const char *path, const char *real, int flags, unsigned mode) {
    struct beside beside;
    struct written *file = entry_for(real);
    int descriptor;
    view_name_beside(&beside, BESIDE_OPEN, path, "");
    if (shim_rank() == 0) {
        beside_come(&beside);
        descriptor = open_first_beside(&beside, file, path, flags, mode);
    } else {
        descriptor = open_copy_beside(&beside, file, path, flags, mode);
    }
    return opened(file, descriptor, 0);
}

/* A rank, or what may become one. */
FILES_DEEP static int open_of_rank(enum files_place place, int directory, const char *path, int flags, unsigned mode) {
    char whole[PATH_MAX], viewed[PATH_MAX], real[PATH_MAX], rank_0s[PATH_MAX];
    struct stat now;
    trackers_look_at(path);
    path = alias_whole_path(directory, path, whole);
    if (files_is_too_long(path)) { /* no rank could find it again by its name */
        errno = ENAMETOOLONG;
        return place == FILES_EARLY ? OPEN_PASS : -1;
    }
    if (place == FILES_EARLY && (place = files_place_early(path)) < FILES_MEET)
        return place == FILES_EARLY ? early_open(path, flags, mode) : OPEN_PASS;
    if (shim_rank() == 0)
        path = view(AT_FDCWD, path, viewed); /* what is not in its place yet goes there */
    SHIM_FILES_ASIDE;
    files_locate(path, real);
    bool is_there = !away_stat_disk(alias_of(real, rank_0s), 0, &now);
    if (is_there && S_ISDIR(now.st_mode)) { /* also where another host alone has it */
        errno = flags & O_EXCL ? EEXIST : EISDIR;
        return -1;
    }
    if ((is_there && files_is_special(now.st_mode)) || files_is_left_alone(real))
        return OPEN_PASS;
    if (is_there && S_ISFIFO(now.st_mode))
        return pipes_open(path, flags, mode);
    if (is_scratch(real, flags, mode))
        return open_scratch(path, real, flags, mode);
    return place == FILES_MEET ? open_meeting(path, real, flags, mode) : open_beside(path, real, flags, mode);
}

int open_written(int directory, const char *path, int flags, unsigned mode) {
    if (!writes(flags)) {
        if (!(flags & (O_PATH | O_DIRECTORY)))
            pipes_refuse_to_read(directory, path);
        return OPEN_PASS;
    }
    bool is_watched = atomic_load_explicit(&files_watched, memory_order_relaxed);
    if (!is_watched || !files_has_place(directory, path))
        return OPEN_PASS;
    if (numbers_is_one(path) && !(path = numbers_name(path, FILES_ROOM)))
        return OPEN_PASS;
    int apart = open_is_lock(path) ? OPEN_PASS : apart_open(directory, path, flags, mode);
    if (apart != OPEN_PASS)
        return apart;
    enum files_place place = files_place_of(path);
    if (place != FILES_PASS)
        return open_of_rank(place, directory, path, flags, mode);
    if (others_may_tell() && !open_is_lock(path) && !view_is_copy(VIEW(directory, path)))
        others_tell(directory, path, "writes");
    return OPEN_PASS;
}

/* ---- open */

int hook_openat(int directory, const char *path, int flags, unsigned mode) {
    int descriptor = seed_open_device(path, flags);
    if (descriptor >= 0)
        return descriptor;
    descriptor = open_written(directory, path, flags, mode);
    if (descriptor != OPEN_PASS)
        return descriptor;
    path = VIEW_TO_OPEN(directory, path, &flags);
    descriptor = away_open(directory, path, flags);
    if (descriptor != OPEN_PASS)
        return descriptor;
    return NEXT(openat) ? NEXT(openat)(directory, path, flags, mode) : (int)syscall(SYS_openat, directory, path, flags, mode);
}

int hook_open(const char *path, int flags, unsigned mode) {
    int descriptor = seed_open_device(path, flags);
    if (descriptor >= 0)
        return descriptor;
    descriptor = open_written(AT_FDCWD, path, flags, mode);
    if (descriptor != OPEN_PASS)
        return descriptor;
    path = VIEW_TO_OPEN(AT_FDCWD, path, &flags);
    descriptor = away_open(AT_FDCWD, path, flags);
    if (descriptor != OPEN_PASS)
        return descriptor;
    return NEXT(open) ? NEXT(open)(path, flags, mode) : __open64(path, flags, mode);
}

int hook_open64(const char *path, int flags, unsigned mode) {
    return hook_open(path, flags, mode);
}

int hook_openat64(int directory, const char *path, int flags, unsigned mode) {
    return hook_openat(directory, path, flags, mode);
}

int hook_open_2(const char *path, int flags) {
    return hook_open(path, flags, 0);
}

int hook_open64_2(const char *path, int flags) {
    return hook_open(path, flags, 0);
}

int hook_openat_2(int directory, const char *path, int flags) {
    return hook_openat(directory, path, flags, 0);
}

int hook_openat64_2(int directory, const char *path, int flags) {
    return hook_openat(directory, path, flags, 0);
}

int hook_creat(const char *path, unsigned mode) {
    return hook_open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

int hook_creat64(const char *path, unsigned mode) {
    return hook_open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}
