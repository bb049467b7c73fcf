#define _GNU_SOURCE
#include "console.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
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
