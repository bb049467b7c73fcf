/*
 * /dev/urandom and /dev/random, opened for reading: the program gets an unnamed file of agreed bytes instead. It holds 1 MiB and then ends.
 *
 * Not for read(), which draws: Pythons built for a libc before 2.25 keep one descriptor for as long as they live, which their forked workers share, and take
 * from it for each worker, each of its batches, each uuid4(). A file would come to its end, and who reads where in it is a race between processes.
 *
 * The rows of open and fopen are hooks/files'. They and read() are reached by everything, allocators included (style.md P3: such hooks recurse), so
 * nothing is touched here unless the path is one of the two, a comparison of five characters, or one of them has been opened.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seed.h"

enum { FILE_BYTES = 1 << 20, CHUNK_BYTES = 4096, FILES_KNOWN = 64, READ_MOST = 1 << 20 };

/* Those that are open, or have been: the number may be another file's since, which that one's inode says. */
struct device_file {
    _Atomic uint32_t number; /* the descriptor plus one; 0: free */
    _Atomic uint64_t inode;  /* of memory without a name, so that no two have the same */
};
static struct device_file known[FILES_KNOWN];
static _Atomic uint32_t used; /* entries, from the first on */

/* 0: none. Not by fstat(), which is a row of hooks/files. */
static uint64_t inode_of(int descriptor) {
    struct stat now;
    return syscall(SYS_fstat, descriptor, &now) ? 0 : now.st_ino;
}

static bool is_still(const struct device_file *device) {
    uint32_t number = atomic_load(&device->number);
    return number && inode_of((int)number - 1) == atomic_load(&device->inode);
}

/* Where there is no room for it it is a file like any other. */
static void note(int descriptor) {
    uint32_t number = (uint32_t)descriptor + 1;
    for (uint32_t i = 0; i < FILES_KNOWN; i++) {
        uint32_t before = atomic_load(&known[i].number);
        if ((before && before != number && is_still(&known[i])) || !atomic_compare_exchange_strong(&known[i].number, &before, number))
            continue;
        atomic_store(&known[i].inode, inode_of(descriptor));
        uint32_t others = atomic_load(&used);
        while (others <= i && !atomic_compare_exchange_weak(&used, &others, i + 1)) {
        }
        return;
    }
}

static bool is_known(int descriptor) {
    for (uint32_t i = 0; i < atomic_load_explicit(&used, memory_order_relaxed); i++)
        if (atomic_load_explicit(&known[i].number, memory_order_relaxed) == (uint32_t)descriptor + 1 && is_still(&known[i]))
            return true;
    return false;
}

static bool is_random_device(const char *path, int flags) {
    if (!path || strncmp(path, "/dev/", 5) || (flags & O_ACCMODE) != O_RDONLY)
        return false;
    return (!strcmp(path + 5, "urandom") || !strcmp(path + 5, "random")) && seed_is_agreed();
}

/* The file of one draw; -1 when there is none to be had (then open itself is likely to fail, too). errno is kept. */
static int open_agreed(int flags) {
    int saved_errno = errno;
    int file = memfd_create("urandom", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
    if (file < 0)
        return errno = saved_errno, -1;
    char chunk[CHUNK_BYTES];
    for (int done = 0; done < FILE_BYTES; done += CHUNK_BYTES) {
        seed_draw(SEED_DEVICE_FILE, chunk, sizeof chunk);
        if (write(file, chunk, sizeof chunk) != CHUNK_BYTES) {
            close(file);
            return errno = saved_errno, -1;
        }
    }
    lseek(file, 0, SEEK_SET);
    note(file);
    errno = saved_errno;
    return file;
}

int seed_open_device(const char *path, int flags) {
    return is_random_device(path, flags) ? open_agreed(flags) : -1;
}

long hook_read(int descriptor, void *bytes, size_t count) {
    if (__builtin_expect(!is_known(descriptor), 1))
        return NEXT(read) ? NEXT(read)(descriptor, bytes, count) : syscall(SYS_read, descriptor, bytes, count);
    size_t drawn = count < READ_MOST ? count : READ_MOST;
    seed_draw(SEED_DEVICE_FILE, bytes, drawn);
    return (long)drawn;
}

long hook_read_chk(int descriptor, void *bytes, size_t count, size_t room) {
    return count <= room ? hook_read(descriptor, bytes, count) : ORIGINAL(read_chk)(descriptor, bytes, count, room);
}
