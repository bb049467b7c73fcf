/*
 * The table of files that this rank has open for writing. Entries are taken by one atomic exchange: open() and close() may be called on any
 * thread, in signal handlers, and in a vfork()ed child, which must not touch them (files.c: it is another process).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "files.h"

enum { FILES = BOARD_ENDS, PART = 256, PARTS = FILES / PART, IDLE_SECONDS = 3, LOG_BYTES = 1 << 16, PUBLISH_YIELDS = 100000 };
enum {
    DESCRIPTORS = 1 << 20
}; /* the system gives no more to a process (fs.nr_open), unless it was told to; what is not used costs nothing */
enum { FREE, TAKEN, SHOWN };

static struct written *_Atomic parts[PARTS];        /* made when the one before is full, and kept */
static _Atomic int reach;                           /* entries from here on have never been used */
static _Atomic uint16_t of_descriptor[DESCRIPTORS]; /* 1 + index; 0: none */
static _Atomic int behind_descriptors;              /* from here on there has never been one */
static _Atomic uint32_t met;
static _Atomic bool were_met;
_Atomic uint32_t written_views;

/* Below reach. */
static struct written *file_at(int index) {
    return &atomic_load_explicit(&parts[index / PART], memory_order_acquire)[index % PART];
}

static uint16_t index_of(const struct written *file) {
    return (uint16_t)(file->place + 1);
}

/* NULL: no memory. */
static struct written *part_at(int index) {
    struct written *_Atomic *part = &parts[index / PART], *made = atomic_load(part);
    if (made)
        return made;
    size_t bytes = PART * sizeof *made;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (atomic_compare_exchange_strong(part, &made, memory))
        return memory;
    munmap(memory, bytes);
    return made;
}

static void set_descriptor(int descriptor, const struct written *file) {
    if (descriptor >= DESCRIPTORS)
        shim_problem("AR-FILE-MANY", "Close files that are not written any more, or lower the limit of open files (ulimit -n).",
                     "rank %u has opened '%s' as descriptor %d: it is not known above %d which file is which", shim_rank(), file->path,
                     descriptor, DESCRIPTORS - 1);
    for (int seen = atomic_load(&behind_descriptors);
         seen <= descriptor && !atomic_compare_exchange_weak(&behind_descriptors, &seen, descriptor + 1);) {
    }
    atomic_store(&of_descriptor[descriptor], index_of(file));
}

static uint16_t index_at(int descriptor) {
    return descriptor >= 0 && descriptor < DESCRIPTORS ? atomic_load_explicit(&of_descriptor[descriptor], memory_order_relaxed) : 0;
}

uint32_t written_place(const struct written *file) {
    return file ? file->place : BOARD_ENDS;
}

uint32_t written_place_at(int descriptor) {
    uint16_t index = index_at(descriptor);
    return index ? index - 1u : BOARD_ENDS;
}

struct meeting_file written_in_meeting(const struct written *file) {
    return (struct meeting_file){file->number, shim_rank() ? file->rank_0s : written_place(file), meeting_likeness(file->path)};
}

static void count_out(const struct written *file) {
    atomic_fetch_sub(&met, file->number != 0);
}

static bool is_viewed(const struct written *file) {
    return file->is_own || file->is_temporary;
}

struct written *written_new(const char *real) {
    for (int i = 0; i < FILES && part_at(i); i++) {
        uint8_t is_free = FREE;
        struct written *file = &part_at(i)[i % PART];
        if (atomic_load_explicit(&file->state, memory_order_relaxed) != FREE ||
            !atomic_compare_exchange_strong(&file->state, &is_free, TAKEN))
            continue;
        file->place = (uint32_t)i;
        for (int seen = atomic_load(&reach); seen <= i && !atomic_compare_exchange_weak(&reach, &seen, i + 1);) {
        }
        file->is_own = file->is_whole = false;
        file->is_temporary = false;
        file->is_early = file->is_diverted = false;
        file->is_mapped = file->is_kept = false;
        given_forget(file->place);
        file->has_twins = false;
        file->beside.number = 0;
        file->problem = 0;
        file->hollow = 0;
        file->locked.is_known = file->locked.is_held = false;
        file->stream = NULL;
        file->size_seen = -1;
        file->descriptor = -1;
        file->replacement.file = -1;
        strcpy(file->path, real);
        return file;
    }
    return NULL;
}

void written_show(struct written *file, int descriptor, uint64_t number) {
    struct stat now;
    if (fstat(descriptor, &now)) {
        if (file->is_temporary)
            replace_commit(&file->replacement);
        atomic_store(&file->state, FREE);
        return;
    }
    file->descriptor = descriptor;
    file->device = now.st_dev;
    file->inode = now.st_ino;
    file->number = number;
    atomic_fetch_add(&met, number != 0);
    if (number)
        atomic_store(&were_met, true);
    if (is_viewed(file))
        atomic_fetch_add(&written_views, 1);
    atomic_store(&file->state, SHOWN);
    set_descriptor(descriptor, file);
}

void written_drop(struct written *file) {
    if (index_at(file->descriptor) == index_of(file))
        atomic_store(&of_descriptor[file->descriptor], 0);
    if (file->descriptor >= 0)
        count_out(file);
    if (is_viewed(file))
        atomic_fetch_sub(&written_views, file->descriptor >= 0);
    atomic_store(&file->state, FREE);
}

uint32_t written_count(void) {
    return atomic_load_explicit(&met, memory_order_relaxed);
}

bool written_were_met(void) {
    return atomic_load_explicit(&were_met, memory_order_relaxed);
}

static bool is_open_at(const struct written *file, int descriptor) {
    struct stat now;
    int saved_errno = errno;
    bool is_it = !fstat(descriptor, &now) && now.st_dev == file->device && now.st_ino == file->inode;
    errno = saved_errno;
    return is_it;
}

bool written_is_open(const struct written *file) {
    return is_open_at(file, file->descriptor);
}

void written_keep(struct written *file, int descriptor) {
    atomic_store(&of_descriptor[file->descriptor], 0);
    count_out(file);
    file->was_met = file->number != 0;
    file->number = file->beside.number = 0;
    file->descriptor = descriptor;
    file->is_kept = true;
}

/* Of the file's, in order; before: the one before it, or -1. -1: no more. */
static int next_descriptor(const struct written *file, int before) {
    for (int i = before + 1, end = atomic_load_explicit(&behind_descriptors, memory_order_relaxed); i < end; i++)
        if (atomic_load_explicit(&of_descriptor[i], memory_order_relaxed) == index_of(file))
            return i;
    return -1;
}

void written_add_twin(struct written *file, int descriptor) {
    file->has_twins = true;
    set_descriptor(descriptor, file);
}

/* Another thread is putting the file in its place, by its descriptor or its stream: who is about to close that, or looks for the file, waits. Not for ever: he
   may be its signal handler. */
static void await_publishers(const struct written *file) {
    for (int i = 0; i < PUBLISH_YIELDS && atomic_load(&file->publishers); i++)
        sched_yield();
}

bool written_leaves(struct written *file, int descriptor) {
    if (atomic_load(&file->stream) && file->stream_at == descriptor) {
        atomic_store(&file->stream, NULL);
        await_publishers(file);
    }
    if (!file->has_twins)
        return false;
    atomic_store(&of_descriptor[descriptor], 0);
    for (int twin = -1; (twin = next_descriptor(file, twin)) >= 0;) {
        file->descriptor = twin;
        if (is_open_at(file, twin)) {
            file->replacement.file = file->replacement.file == descriptor ? twin : file->replacement.file;
            return true;
        }
        atomic_store(&of_descriptor[twin], 0);
    }
    file->descriptor = descriptor;
    return false;
}

struct written *written_find(int descriptor) {
    uint16_t index = index_at(descriptor);
    if (!index || files_place() < FILES_MEET)
        return NULL;
    struct written *file = file_at(index - 1);
    if (is_open_at(file, descriptor))
        return file;
    if (!written_leaves(file, descriptor))
        written_drop(file); /* closed unseen (close_range), and another file has its number */
    return NULL;
}

bool written_has_name(int descriptor, const struct stat *now) {
    uint16_t index = index_at(descriptor);
    const struct written *file = index ? file_at(index - 1) : NULL;
    return file && is_viewed(file) && file->path[0] && file->inode == now->st_ino && file->device == now->st_dev;
}

struct written *written_find_path(const char *real) {
    for (int i = 0, end = atomic_load_explicit(&reach, memory_order_relaxed); i < end; i++)
        if (atomic_load(&file_at(i)->state) == SHOWN && !strcmp(file_at(i)->path, real))
            return file_at(i);
    return NULL;
}

static bool has_base(const char *path) {
    const char *base = shim_base_of(path);
    for (int i = 0, end = atomic_load_explicit(&reach, memory_order_relaxed); i < end; i++)
        if (atomic_load_explicit(&file_at(i)->state, memory_order_acquire) == SHOWN && !strcmp(shim_base_of(file_at(i)->path), base))
            return true;
    return false;
}

/* A name may be a link to the file, or one of several that it has on the disk. */
static bool may_be_other_name(int directory, const char *path, struct stat *now) {
    return !fstatat(directory, path, now, AT_SYMLINK_NOFOLLOW) && (S_ISLNK(now->st_mode) || now->st_nlink > 1);
}

bool written_may_be(int directory, const char *path) {
    struct stat now;
    return has_base(path) || may_be_other_name(directory, path, &now);
}

struct written *written_find_own(const char *real) {
    struct stat now, other;
    struct written *file = written_find_path(real);
    if (file || !may_be_other_name(AT_FDCWD, real, &now))
        return file && file->is_own ? file : NULL;
    for (int i = 0, end = atomic_load_explicit(&reach, memory_order_relaxed); i < end; i++)
        if (atomic_load(&file_at(i)->state) == SHOWN && file_at(i)->is_own && !stat(file_at(i)->path, &other) &&
            other.st_ino == now.st_ino && other.st_dev == now.st_dev)
            return file_at(i);
    return NULL;
}

void written_each(void (*visit)(struct written *file, const void *what), const void *what) {
    for (int i = 0, end = atomic_load_explicit(&reach, memory_order_relaxed); i < end; i++)
        if (atomic_load(&file_at(i)->state) == SHOWN)
            visit(file_at(i), what);
}

static void add_size(struct written *file, const void *sum) {
    uint64_t *sizes = *(uint64_t *const *)sum;
    struct stat status;
    off_t size = fstat(file->descriptor, &status) ? -1 : status.st_size;
    *sizes = checksum_bytes(*sizes, &size, sizeof size);
}

uint64_t written_sizes(void) {
    uint64_t sum = 1, *its = &sum;
    SHIM_FILES_ASIDE;
    written_each(add_size, &its);
    return sum;
}

int written_publish(struct written *file) {
    int saved_errno = errno;
    atomic_fetch_add(&file->publishers, 1);
    if (!atomic_exchange(&file->is_temporary, false)) {
        atomic_fetch_sub(&file->publishers, 1);
        await_publishers(file);
        errno = saved_errno;
        return file->problem;
    }
    if (written_is_open(file)) /* not closed unseen, and gone */
        file->problem = replace_commit(&file->replacement);
    if (!file->is_own)
        atomic_fetch_sub(&written_views, 1); /* not before: who looks for it meanwhile finds that somebody is at it, and waits */
    atomic_fetch_sub(&file->publishers, 1);
    if (file->number)
        meeting_file_is_seen(written_in_meeting(file));
    errno = saved_errno;
    return file->problem;
}

/* What has been written so far goes to the file itself. */
static bool move_into(int there, const struct written *file) {
    int from = sink_reopen(file->descriptor, O_RDONLY | O_CLOEXEC);
    bool is_moved = from >= 0 && sink_copy_all(there, from);
    if (from >= 0)
        close(from);
    return is_moved && lseek(there, lseek(file->descriptor, 0, SEEK_CUR), SEEK_SET) >= 0;
}

static void put_on(const struct written *file, int descriptor, int there) {
    if (is_open_at(file, descriptor))
        dup3(there, descriptor, fcntl(descriptor, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0);
}

void written_put_in_place(struct written *file) {
    struct stat real;
    int saved_errno = errno, flags = fcntl(file->descriptor, F_GETFL);
    SHIM_FILES_ASIDE;
    replace_unlock(&file->replacement);
    if (file->is_mapped) /* its memory stays the temporary file's */
        written_publish(file);
    /* one that is not there nobody has locked */
    int there = atomic_load(&file->is_temporary) ? open(file->path, O_RDWR | O_CLOEXEC | (flags & O_APPEND)) : -1;
    if (there >= 0 && !fstat(there, &real) && move_into(there, file)) {
        replace_discard(&file->replacement);
        for (int twin = -1; (twin = next_descriptor(file, twin)) >= 0;)
            put_on(file, twin, there);
        written_publish(file); /* the descriptor's is another one now: only what is known of it changes */
        file->device = real.st_dev;
        file->inode = real.st_ino;
    }
    if (there >= 0)
        close(there);
    errno = saved_errno;
}

/* A checkpoint that another thread is writing grows by more than a log. */
static bool is_log(struct written *file) {
    struct stat now;
    if (!file->beside.number || !atomic_load(&file->is_temporary) || fstat(file->descriptor, &now))
        return true;
    time_t since = time(NULL) - file->seen_at;
    if (file->size_seen >= 0 && since < IDLE_SECONDS)
        return false;
    bool has_grown = file->size_seen < 0 || now.st_size - file->size_seen >= LOG_BYTES;
    file->size_seen = now.st_size;
    file->seen_at = time(NULL);
    return !has_grown;
}

/* A backward is run: files that are still open are logs. */
static void publish_log(struct written *file, const void *unused) {
    (void)unused;
    if (is_log(file))
        written_publish(file);
}

void written_publish_logs(void) {
    if (atomic_load_explicit(&written_views, memory_order_relaxed) && files_place() >= FILES_MEET)
        written_each(publish_log, NULL);
}

/* Of a path at the folder or below it: what stands behind the folder. */
static const char *part_below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return !strncmp(path, folder, length) && (!path[length] || path[length] == '/') ? path + length : NULL;
}

static void move_below(struct written *file, const void *names) {
    const char *const *from_to = names, *below = part_below(file->path, from_to[0]);
    char moved[PATH_MAX];
    if (!strcmp(file->path, from_to[1]))
        file->path[0] = 0; /* it has lost its name to the other */
    if (below && snprintf(moved, sizeof moved, "%s%s", from_to[1], below) < PATH_MAX)
        strcpy(file->path, moved);
}

void written_move(const char *from, const char *to) {
    written_each(move_below, (const char *[]){from, to});
}

/* Below a folder, or all. */
static void publish(struct written *file, const void *folder) {
    if (!folder || part_below(file->path, folder))
        written_publish(file);
}

void written_publish_below(const char *folder) {
    if (atomic_load_explicit(&written_views, memory_order_relaxed))
        written_each(publish, folder);
}

void written_publish_all(void) {
    if (atomic_load_explicit(&written_views, memory_order_relaxed) && files_place() >= FILES_MEET)
        written_each(publish, NULL);
}
