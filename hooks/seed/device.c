/*
 * /dev/urandom and /dev/random, opened for reading: the program gets an unnamed file of agreed bytes instead. It holds 1 MiB and then ends.
 *
 * A row on open is reached by everything, allocators included (style.md P3: such hooks recurse), so these touch nothing unless the path is
 * one of the two: a comparison of five characters, then the next function, which the constructor has looked up; before that libc's own name
 * for it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seed.h"

enum { FILE_BYTES = 1 << 20, CHUNK_BYTES = 4096 };

/* libc exports this one under a second name, which nobody interposes. */
extern int __open64(const char *path, int flags, ...);

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
    errno = saved_errno;
    return file;
}

#define NEXT(name) ((__typeof__(&hook_##name))atomic_load_explicit(&hook_table[HOOK_##name].original, memory_order_relaxed))

int hook_open(const char *path, int flags, unsigned mode) {
    int file = is_random_device(path, flags) ? open_agreed(flags) : -1;
    if (file >= 0)
        return file;
    return NEXT(open) ? NEXT(open)(path, flags, mode) : __open64(path, flags, mode);
}

int hook_open64(const char *path, int flags, unsigned mode) {
    int file = is_random_device(path, flags) ? open_agreed(flags) : -1;
    if (file >= 0)
        return file;
    return NEXT(open64) ? NEXT(open64)(path, flags, mode) : __open64(path, flags, mode);
}

int hook_openat(int directory, const char *path, int flags, unsigned mode) {
    int file = is_random_device(path, flags) ? open_agreed(flags) : -1;
    if (file >= 0)
        return file;
    return NEXT(openat) ? NEXT(openat)(directory, path, flags, mode) : (int)syscall(SYS_openat, directory, path, flags, mode);
}

int hook_openat64(int directory, const char *path, int flags, unsigned mode) {
    int file = is_random_device(path, flags) ? open_agreed(flags) : -1;
    if (file >= 0)
        return file;
    return NEXT(openat64) ? NEXT(openat64)(directory, path, flags, mode) : (int)syscall(SYS_openat, directory, path, flags, mode);
}

/* libc's fopen opens by itself, unseen. */
static FILE *fopen_agreed(const char *path, const char *mode) {
    bool reads = mode && mode[0] == 'r' && !strchr(mode, '+');
    if (!reads || !is_random_device(path, O_RDONLY))
        return NULL;
    int file = open_agreed(strchr(mode, 'e') ? O_CLOEXEC : 0);
    if (file < 0)
        return NULL;
    FILE *stream = fdopen(file, mode);
    if (!stream)
        close(file);
    return stream;
}

void *hook_fopen(const char *path, const char *mode) {
    FILE *stream = fopen_agreed(path, mode);
    return stream ? stream : ORIGINAL(fopen)(path, mode);
}

void *hook_fopen64(const char *path, const char *mode) {
    FILE *stream = fopen_agreed(path, mode);
    return stream ? stream : ORIGINAL(fopen64)(path, mode);
}
