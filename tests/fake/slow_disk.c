/*
 * A disk that is slow for rank 0 alone, as it is where one rank writes for all, or (SLOW_DISK_RANK) for another one. It is the program's, by LD_PRELOAD. With
 * SLOW_DISK_HANGS=yes what is written there never returns. With SLOW_DISK_LOG=NAME it is accel-run's own, and what that writes to a file whose name ends so
 * never returns.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LARGE = 1 << 20, MS_FOR_LARGE = 700 };

static void take_time(size_t bytes) {
    const char *rank = getenv("ACCEL_RUN_RANK"), *slow = getenv("SLOW_DISK_RANK");
    if (!rank || strcmp(rank, slow ? slow : "0") || bytes < LARGE)
        return;
    do
        poll(NULL, 0, MS_FOR_LARGE);
    while (getenv("SLOW_DISK_HANGS"));
}

static int is_dead_log(int descriptor) {
    char link[64], path[4096] = "";
    const char *name = getenv("ACCEL_RUN_RANK") ? NULL : getenv("SLOW_DISK_LOG");
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    if (!name || !*name || readlink(link, path, sizeof path - 1) < (ssize_t)strlen(name))
        return 0;
    return !strcmp(path + strlen(path) - strlen(name), name);
}

ssize_t write(int descriptor, const void *data, size_t bytes) {
    ssize_t (*next)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    while (is_dead_log(descriptor))
        pause();
    ssize_t written = next(descriptor, data, bytes);
    take_time(bytes);
    return written;
}

ssize_t writev(int descriptor, const struct iovec *pieces, int count) {
    ssize_t (*next)(int, const struct iovec *, int) = dlsym(RTLD_NEXT, "writev");
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    ssize_t written = next(descriptor, pieces, count);
    take_time(bytes);
    return written;
}
