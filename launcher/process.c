#define _GNU_SOURCE
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool process_are_shown(void) {
    char self[32] = "";
    return readlink("/proc/self", self, sizeof self - 1) > 0 && atoi(self) == getpid();
}

uint64_t process_started(pid_t pid, pid_t *parent, char *state) {
    char path[40], text[1024], letter = 0;
    unsigned long long started = 0;
    int above = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = process_are_shown() ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *after = strrchr(text, ')'); /* the name in brackets may hold anything */
    if (!after || sscanf(after + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &letter, &above,
                         &started) != 3)
        started = 0;
    if (parent)
        *parent = above;
    if (state)
        *state = letter;
    return started;
}

uint64_t process_a_moment_ago(void) {
    struct timespec now;
    long ticks = sysconf(_SC_CLK_TCK);
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)(now.tv_sec - 1) * (uint64_t)ticks + (uint64_t)(now.tv_nsec / (1000000000 / ticks));
}

char process_state(pid_t pid, uint64_t started) {
    char state;
    uint64_t now = process_started(pid, NULL, &state);
    if (!started && !now) /* no /proc */
        return kill(pid, 0) && errno == ESRCH ? 0 : '?';
    return (started && now != started) || state == 'X' ? 0 : state;
}

/* Its memory, and with it the file that it runs, goes first. */
bool process_is_exiting(pid_t pid) {
    char path[40], first;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    bool has_no_file = readlink(path, &first, 1) < 0 && errno == ENOENT;
    return has_no_file && process_started(pid, NULL, NULL);
}
