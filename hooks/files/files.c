/*
 * One writer: what the program does to the file system is done once, by rank 0, and all ranks see the same.
 *
 * Rules of hooks/files/
 *  - Where the program opens a file for writing, or changes names (mkdir, rename, unlink, links) or attributes, the ranks meet (shim/meeting.h): rank 0
 *    acts when all have come, the others get its result, errno included. So no rank has yet to look at what is being changed, and all go on
 *    when it is done: between two meetings the disk is what one process would see. Looks (stat, opendir, reading) need no exchange.
 *  - The others write to private copies without names, which are gone when they are closed; closing waits until rank 0 has closed its own.
 *    While a file is open for writing, looks at its name see the private copy (view.c).
 *  - A name that differs between the ranks leads to rank 0's (alias.c), also in commands and arguments of children, and back in listings (entries.c) and links
 *    (links.c).
 *  - On another host than the first the disk is not the one that rank 0 writes to, or shows it later: what is looked at on the thread that meets is asked
 *    of the first host (shim/first_host.h), its answers count, its content is read (away.c, away_open.c, listing.c). Other threads look at their own disk.
 *  - A file that is written as a whole (opened with truncation) is written beside its place and takes its name when it is closed
 *    (shim/replace.h), or earlier: when a backward is run or the process ends (then it is a log, and shall be seen; on threads beside the training one that
 *    has not grown for a while is), when the program looks
 *    at its name, or starts a child. All else is written in place.
 *  - Only the thread that claimed the rank meets. On other threads the ranks come together by what is done and its name (shim/beside.h).
 *  - Left alone: devices, sockets, pipes, /proc; caches that processes share anyway (apart.c); files in /tmp whose names the program draws so that nobody
 *    else has them (mkstemp, Python's tempfile): each rank has its own (scratch.c). In other folders such names are rank 0's, as all are.
 *  - A rank begins, for files, when its program first opens one for writing, if it is linked with libtorch: a log that main(), or a logger's
 *    thread, opens first of all is one log. Python that the launcher has started meets from the first file that it changes (shim/attach.h), other Python claims
 *    at `import torch`, and what it has opened is diverted then (early.c); so does a program that loads libtorch when it runs, at its first parameter. No
 *    other process below the launcher is touched: neither shells nor compilers nor the ranks' children, whose files have N writers, which is told (others.c).
 *    Which of them belong to the program's own and which to a rank's private work is not to be told from outside, and a child must read what its parent's
 *    other child has written. A command that the program runs and waits for is run once (command.c, subprocess.c).
 *  - Rows of open, close and stat are reached by everything, allocators included: one relaxed load in processes that are no ranks, no
 *    allocation and no lock of ours in any, errno kept, and libc's own function is known before the first call or a system call replaces it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alias.h"
#include "command.h"
#include "early.h"

_Atomic uint8_t files_watched;

static pid_t image;           /* the process at its start: a fork of it does not claim */
static _Atomic pid_t process; /* the rank, or one that meets the others before it is; 0: not yet */
static bool is_linked_with_libtorch;
static bool begins_unknown; /* neither Python nor linked with it: it may load it when it runs */

/* The constructors of the libraries that this program is linked with have run (P23). */
__attribute__((constructor)) static void files_start(void) {
    if (!shim_job_secret())
        return;
    image = getpid();
    command_start();
    is_linked_with_libtorch = shim_has_libtorch();
    begins_unknown = !shim_may_train();
    atomic_store(&files_watched, 1);
    atomic_store(&away_asks, shim_has_hosts());
}

static enum files_place place_of_undecided(void) {
    bool is_main = syscall(SYS_gettid) == image;
    if (getpid() != image)
        return FILES_PASS;
    if (is_linked_with_libtorch) {
        if (!is_main) /* a logger's */
            meeting_will_be_of_main_thread();
        return !shim_training_begins() ? FILES_PASS : is_main ? FILES_MEET : FILES_BESIDE;
    }
    return shim_may_train() ? FILES_EARLY : FILES_PASS;
}

/* A C++ program that looks for its checkpoint before it makes a model. Python cannot be told from a script until it imports torch. */
bool files_look_may_claim(void) {
    return is_linked_with_libtorch && getpid() == image && syscall(SYS_gettid) == image;
}

static enum files_place place_of_rank(void) {
    if (shim_world_size() < 2)
        atomic_store_explicit(&files_watched, 0, memory_order_relaxed);
    pid_t meets = atomic_load(&process);
    if (!meets || meets != getpid())
        return FILES_PASS;
    if (!meeting_is_here())
        return FILES_BESIDE;
    return command_is_running() ? FILES_PASS : FILES_MEET;
}

bool files_is_in_child(void) {
    pid_t meets = atomic_load(&process);
    return meets && meets != getpid() && !shim_files_aside_now;
}

enum files_place files_place_slowly(void) {
    if (shim_files_aside_now)
        return FILES_PASS;
    int saved_errno = errno;
    enum files_place place = FILES_PASS;
    uint8_t kind = atomic_load_explicit(&shim_kind_now, memory_order_relaxed);
    if (!atomic_load(&process) && getpid() == image && shim_is_claimed_elsewhere())
        shim_training_begins();
    if (kind == SHIM_UNDECIDED && !atomic_load(&process))
        place = place_of_undecided();
    else if (atomic_load(&process))
        place = place_of_rank();
    errno = saved_errno;
    return place;
}

enum files_place files_place_early(const char *path) {
    int saved_errno = errno;
    enum files_place place = FILES_PASS;
    if (early_concerns(path))
        place = shim_attach() ? place_of_rank() : syscall(SYS_gettid) == image ? FILES_EARLY : FILES_PASS;
    errno = saved_errno;
    return place;
}

/* ---- the shim's other parts call */

static void ranks_meet(void) {
    atomic_store(&process, getpid());
}

static void rank_begins(void) {
    SHIM_FILES_ASIDE;
    if (atomic_load(&process) == getpid()) /* its files are all ranks' already */
        return;
    if (begins_unknown) {
        meeting_hold(MEETING_START, "", NULL);
        early_find();
    }
    early_divert();
    meeting_hold(MEETING_START, "", NULL);
    early_renew();
    meeting_hold(MEETING_START, "", NULL);
    atomic_store(&process, getpid());
}

/* Is it open? For writing: then it is in its place now. */
static bool settle(const char *path) {
    char buffer[PATH_MAX], real[PATH_MAX];
    if (shim_rank())
        return false;
    view(AT_FDCWD, path, buffer);
    SHIM_FILES_ASIDE;
    files_locate(path, real);
    /* what has no name, and is called by its descriptor, nothing can be put in the place of */
    return written_find_path(real) || (replace_locate(path, real) && readers_hold(real));
}

static bool is_own(const char *path) {
    char real[PATH_MAX];
    SHIM_FILES_ASIDE;
    files_locate(path, real);
    return scratch_has(real);
}

const struct files_client files_client = {
    ranks_meet, rank_begins, written_publish_logs, written_publish_all, written_sizes, is_own, view_replaced, alias_for_all, settle};

/* Files that are still open at the end. libc writes streams out after all destructors: for those of them that take their place now it is done here. */
__attribute__((destructor)) static void files_end(void) {
    if (atomic_load(&written_views) && files_place() >= FILES_MEET) {
        stream_write_all_out();
        written_publish_all();
    }
    apart_end();
    beside_end();
    if (!atomic_load(&process) && getpid() == image)
        early_end();
}

/* ---- paths */

size_t files_path_of(int descriptor, char *out) {
    char link[64];
    const char *folder = folder_path(descriptor);
    if (folder)
        return (size_t)snprintf(out, PATH_MAX, "%s", folder);
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    SHIM_FILES_ASIDE; /* rank 0's name, not what the program is shown */
    ssize_t length = readlink(link, out, PATH_MAX - 1);
    out[length < 0 ? 0 : length] = 0;
    return length < 0 ? 0 : (size_t)length;
}

/* False: it is too long, or the system does not say what the directory is called, which is so where that is too long. */
static bool put_together(int directory, const char *path, char *out) {
    size_t length = files_path_of(directory, out);
    return length && snprintf(out + length, PATH_MAX - length, "/%s", path) < (int)(PATH_MAX - length);
}

const char *files_whole_path(int directory, const char *path, char *out) {
    if (path[0] == '/' || directory == AT_FDCWD)
        return path;
    if (!put_together(directory, path, out))
        snprintf(out, PATH_MAX, FILES_TOO_LONG "%s", path);
    return out;
}

bool files_has_place(int directory, const char *path) {
    return path && *path && (path[0] == '/' || directory == AT_FDCWD || fcntl(directory, F_GETFD) >= 0);
}

bool files_absolute(int directory, const char *path, char *out) {
    if (path[0] == '/')
        return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
    if (directory != AT_FDCWD)
        return put_together(directory, path, out);
    SHIM_FILES_ASIDE;
    if (!getcwd(out, PATH_MAX))
        return false;
    size_t length = strlen(out);
    return snprintf(out + length, PATH_MAX - length, "/%s", path) < (int)(PATH_MAX - length);
}

/* Empty parts, dots and the parts before two dots go, by the letters alone. path: absolute, changed in place. Returns how many of its first `told` characters
   stay before all that comes behind them. */
static size_t clean(char *path, size_t told) {
    char *to = path;
    size_t left = 0;
    for (const char *from = path; *from;) {
        size_t length = 1 + strcspn(from + 1, "/"); /* with the slash before it */
        if (length == 3 && !strncmp(from, "/..", 3))
            while (to > path && *--to != '/')
                ;
        else if (length > 2 || (length == 2 && from[1] != '.'))
            to = (char *)memmove(to, from, length) + length;
        from += length;
        if (from <= path + told || (size_t)(to - path) < left)
            left = (size_t)(to - path);
    }
    strcpy(to, to == path ? "/" : "");
    return left;
}

bool files_clean_told(int directory, const char *path, char *out, size_t *told) {
    if (!files_absolute(directory, path, out))
        return false;
    *told = clean(out, path[0] == '/' ? 0 : strlen(out) - strlen(path) - 1);
    return true;
}

bool files_clean(const char *path, char *out) {
    size_t told;
    return files_clean_told(AT_FDCWD, path, out, &told);
}

void files_locate(const char *path, char *real) {
    int saved_errno = errno;
    if (replace_locate(path, real))
        return;
    if (!files_clean(path, real))
        snprintf(real, PATH_MAX, "%s", path);
    errno = saved_errno;
}

const char *files_below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    while (length && folder[length - 1] == '/')
        length--;
    return length && !strncmp(path, folder, length) && path[length] == '/' ? path + length + 1 : NULL;
}

static bool is_in_drivers_cache(const char *real) {
    const char *folder = shim_driver_cache_folder();
    return folder && files_below(real, folder);
}

bool files_is_in_cache(const char *real) {
    return strstr(real, "/__pycache__/") || strstr(real, "/.triton/");
}

/* A device, or in a cache: Python's compiled modules, libraries' and compilers' caches are made for several processes at a time, by names and renames of
   their own (apart.c). */
static bool is_shared_by_all(const char *real) {
    static const char *const roots[] = {"/dev/", "/proc/", "/sys/"};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        if (!strncmp(real, roots[i], strlen(roots[i])) && strncmp(real, "/dev/shm/", 9)) /* files in memory are the program's as any */
            return true;
    static const char modules[] = "/__pycache__";
    size_t length = strlen(real);
    return files_is_in_cache(real) || strstr(real, "/.nv/") || is_in_drivers_cache(real) ||
           (length >= strlen(modules) && !strcmp(real + length - strlen(modules), modules));
}

bool files_is_left_alone(const char *real) {
    return is_shared_by_all(real) || scratch_has(real);
}

bool files_may_begin(void) {
    bool is_undecided = atomic_load_explicit(&shim_kind_now, memory_order_relaxed) == SHIM_UNDECIDED;
    bool is_watched = atomic_load_explicit(&files_watched, memory_order_relaxed);
    return is_watched && is_undecided && (is_linked_with_libtorch || shim_may_train());
}

enum files_place files_place_of(const char *path) {
    bool is_undecided = atomic_load_explicit(&shim_kind_now, memory_order_relaxed) == SHIM_UNDECIDED && !atomic_load(&process);
    return is_undecided && path && is_shared_by_all(path) ? FILES_PASS : files_place();
}
