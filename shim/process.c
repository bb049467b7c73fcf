#define _GNU_SOURCE
#include "process.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *process_look(pid_t pid, char text[PROCESS_TEXT_BYTES]) {
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t n = fd < 0 ? -1 : syscall(SYS_read, fd, text, PROCESS_TEXT_BYTES - 1);
    if (fd >= 0)
        syscall(SYS_close, fd);
    if (n <= 0)
        return NULL;
    text[n] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end ? name_end + 1 : NULL;
}
