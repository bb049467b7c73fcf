/*
 * Files that the program writes through memory (np.memmap, torch.from_file), or only looks at: they are closed long before they are written, there or by
 * another descriptor. Nothing tells when rank 0 has written its own; so the other ranks' private copies stay, and are what is found under the name, until the
 * name gets another file, or the ranks meet because of a child, which may write to it, or to open another file, and the memory is gone.
 *
 * So it is with a file that a child was given as its output: it goes on when that is closed here, and when it has ended rank 0's may not have. Such a copy is
 * what is found until rank 0's file is as long.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alias.h"
#include "files.h"

enum { ABOVE = 256, KEPT_MOST = 512 }; /* descriptors that programs close in loops, and select(), are lower */

/* An allocator may call this one before the table is filled. */
void *hook_mmap(void *address, unsigned long bytes, int protection, int flags, int descriptor, long offset) {
    struct written *file = descriptor >= 0 && !(flags & MAP_ANONYMOUS) ? written_find(descriptor) : NULL;
    if (file)
        file->is_mapped = true;
    return NEXT(mmap) ? NEXT(mmap)(address, bytes, protection, flags, descriptor, offset)
                      : (void *)syscall(SYS_mmap, address, bytes, protection, flags, descriptor, offset);
}

void *hook_mmap64(void *address, unsigned long bytes, int protection, int flags, int descriptor, long offset) {
    return hook_mmap(address, bytes, protection, flags, descriptor, offset);
}

static void let_go(struct written *file) {
    if (!__atomic_exchange_n(&file->is_kept, false, __ATOMIC_ACQ_REL)) /* another thread has */
        return;
    int kept = file->descriptor;
    bool is_ours = written_is_open(file);
    written_drop(file);
    if (is_ours)
        close(kept);
}

/* The same copy, from when it was opened before. */
static void let_go_of_older(struct written *file, const void *newer) {
    const struct written *own = newer;
    if (file->is_kept && file != own && file->inode == own->inode && file->device == own->device)
        let_go(file);
}

struct kept {
    struct written *oldest;
    size_t count;
};

static void count_kept(struct written *file, const void *all) {
    struct kept *kept = *(struct kept *const *)all;
    if (!file->is_kept)
        return;
    kept->count++;
    if (!kept->oldest || file->size_seen < kept->oldest->size_seen)
        kept->oldest = file;
}

/* The table has places for others, too. */
static void make_room(void) {
    struct kept kept = {NULL, 0}, *its = &kept;
    written_each(count_kept, &its);
    if (kept.count >= KEPT_MOST)
        let_go(kept.oldest);
}

static _Atomic bool may_be_kept, is_settling;

/* Neither in memory nor in a child's hands. only_met: rank 0's threads may still write to theirs. */
static void let_go_of_idle(struct written *file, const void *only_met) {
    bool is_due = file->was_met || !*(const bool *)only_met;
    if (file->is_kept && is_due && !file->is_mapped && !given_is_perhaps(file))
        let_go(file);
}

static void let_all_idle_go(bool only_met) {
    written_each(let_go_of_idle, &only_met);
}

bool mapped_may_be_kept(void) {
    return atomic_load_explicit(&may_be_kept, memory_order_relaxed);
}

bool mapped_keep(struct written *file) {
    static _Atomic int64_t kept_ever;
    if (file->is_mapped && file->number)
        atomic_store(&may_be_kept, true);
    if (!(file->is_mapped || given_is_perhaps(file)) || !file->is_own || !file->path[0])
        return false;
    written_each(let_go_of_older, file);
    if (!atomic_load(&is_settling))
        let_all_idle_go(false);
    make_room();
    int kept = fcntl(file->descriptor, F_DUPFD_CLOEXEC, ABOVE);
    if (kept < 0)
        return false;
    written_keep(file, kept);
    file->size_seen = atomic_fetch_add(&kept_ever, 1); /* its age: it is no log */
    return true;
}

static void set_unmapped(struct written *file, const void *unused) {
    if (file->is_kept)
        file->is_mapped = false;
}

static void set_mapped(struct written *file, const void *inode) {
    if (file->is_kept && file->inode == *(const ino_t *)inode)
        file->is_mapped = true;
}

/* The device is not compared: of some file systems (btrfs) another one is told here. */
static bool note_mapped(dev_t device, ino_t inode, const void *unused) {
    written_each(set_mapped, &inode);
    return false;
}

void mapped_settle(bool only_met) {
    struct kept kept = {NULL, 0}, *its = &kept;
    if (!mapped_may_be_kept() || shim_rank() == 0)
        return;
    written_each(count_kept, &its);
    if (!kept.count)
        return;
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    atomic_store(&is_settling, true);
    written_each(set_unmapped, NULL);
    readers_any_mapped(note_mapped, NULL);
    let_all_idle_go(only_met);
    atomic_store(&is_settling, false);
    errno = saved_errno;
}

static void let_go_of_given(struct written *file, const void *unused) {
    if (file->is_kept && given_has(file))
        let_go(file);
}

void mapped_command_has_run(void) {
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    written_each(let_go_of_given, NULL);
    errno = saved_errno;
}

bool mapped_is_behind(struct written *file) {
    struct stat own, now;
    char buffer[PATH_MAX];
    if (!file->is_kept || file->is_mapped || atomic_load(&is_settling))
        return false;
    bool may_be_ahead = given_has(file) && !fstat(file->descriptor, &own);
    if (may_be_ahead && !away_stat_disk(alias_of(file->path, buffer), 0, &now) && now.st_size < own.st_size)
        return false;
    let_go(file);
    return true;
}

static void forget(struct written *file, const void *real) {
    if (file->is_kept && !strcmp(file->path, real))
        let_go(file);
}

void mapped_forget(const char *real) {
    int saved_errno = errno;
    SHIM_FILES_ASIDE;
    written_each(forget, real);
    errno = saved_errno;
}
