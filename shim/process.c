#define _GNU_SOURCE
#include "process.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../config/protocol.h"

/* Returns its length, 0 where it cannot be read. */
static size_t read_text(const char *path, char *text, size_t size) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t n = fd < 0 ? -1 : syscall(SYS_read, fd, text, size - 1);
    if (fd >= 0)
        syscall(SYS_close, fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

const char *process_look(pid_t pid, char text[PROCESS_TEXT_BYTES]) {
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!read_text(path, text, PROCESS_TEXT_BYTES))
        return NULL;
    const char *name_end = strrchr(text, ')');
    return name_end ? name_end + 1 : NULL;
}

/* One that has no /proc to ask is in a sandbox. Of another machine, or after a new start, the launcher is gone: a batch system carries variables there. */
bool process_is_apart(const char *socket_name) {
    char boot[64], network[64] = "", own[PROTOCOL_PLACE_CHARS + 10];
    unsigned long long number = 0;
    const char *place = strrchr(socket_name, '-');
    if (!place || strlen(place + 1) != PROTOCOL_PLACE_CHARS)
        return false;
    read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    long length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/ns/net", network, sizeof network - 1);
    if (!*boot || length < 0 || sscanf(network, "net:[%llu]", &number) != 1)
        return true;
    snprintf(own, sizeof own, PROTOCOL_PLACE, boot, number);
    return !strncmp(own, place + 1, PROTOCOL_PLACE_BOOT) && strcmp(own, place + 1) != 0;
}
