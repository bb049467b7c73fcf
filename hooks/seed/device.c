/*
 * /dev/urandom and /dev/random, opened for reading: the program gets an unnamed file of agreed bytes instead. It holds 1 MiB and then ends.
 *
 * The rows of open and fopen are hooks/files'. They are reached by everything, allocators included (style.md P3: such hooks recurse), so
 * nothing is touched here unless the path is one of the two: a comparison of five characters.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "seed.h"

enum { FILE_BYTES = 1 << 20, CHUNK_BYTES = 4096 };

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

int seed_open_device(const char *path, int flags) {
    return is_random_device(path, flags) ? open_agreed(flags) : -1;
}
