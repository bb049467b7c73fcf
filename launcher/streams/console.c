#define _GNU_SOURCE
#include "console.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

void console_read(struct console *console) {
    struct stat status[3];
    memset(console, 0, sizeof *console);
    console->terminal = -1;
    for (int i = 0; i < 3; i++) {
        console->is_open[i] = fstat(i, &status[i]) == 0;
        if (!console->is_open[i]) {
            int fd = open("/dev/null", O_RDWR | O_CLOEXEC); /* the lowest free number: i */
            (void)fd;
            continue;
        }
        console->is_regular[i] = S_ISREG(status[i].st_mode);
        console->is_terminal[i] = isatty(i) && tcgetattr(i, &console->settings) == 0;
        if (console->is_terminal[i])
            console->terminal = i;
    }
    console->is_null = console->is_open[0] && S_ISCHR(status[0].st_mode) && status[0].st_rdev == makedev(1, 3);
    console->is_combined = console->is_open[1] && console->is_open[2] && status[1].st_dev == status[2].st_dev &&
                           status[1].st_ino == status[2].st_ino && status[1].st_rdev == status[2].st_rdev;
}

/* Where RWF_NOWAIT says that there is no room there is none. A file may say so for ever. */
static bool can_say_now(int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

ssize_t console_write_now(int descriptor, const char *bytes, size_t count) {
    struct iovec from = {(char *)bytes, count};
    struct pollfd sink = {descriptor, POLLOUT, 0};
    if (can_say_now(descriptor)) {
        ssize_t n = pwritev2(descriptor, &from, 1, -1, RWF_NOWAIT);
        if (n >= 0 || errno == EAGAIN || errno == EINTR)
            return n;
    }
    errno = EAGAIN;
    return poll(&sink, 1, 0) <= 0 ? -1 : write(descriptor, bytes, count);
}

void console_copy_size(const struct console *console, int master) {
    struct winsize size;
    if (console->terminal >= 0 && ioctl(console->terminal, TIOCGWINSZ, &size) == 0)
        ioctl(master, TIOCSWINSZ, &size);
}

int console_pty(const struct console *console, int *master, int *slave) {
    struct termios settings = console->settings;
    *master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (*master < 0)
        return -1;
    *slave = grantpt(*master) == 0 && unlockpt(*master) == 0 ? ioctl(*master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC) : -1;
    if (*slave < 0) {
        close(*master);
        return -1;
    }
    settings.c_lflag &= (tcflag_t) ~(ECHO | ECHONL);
    settings.c_oflag &= (tcflag_t)~OPOST;
    tcsetattr(*slave, TCSANOW, &settings);
    console_copy_size(console, *master);
    return 0;
}
