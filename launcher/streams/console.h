/*
 * What the launcher's own three descriptors are: open or closed, terminal, one and the same.
 */
#ifndef ACCEL_RUN_CONSOLE_H
#define ACCEL_RUN_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <termios.h>

/* A terminal is ready when it takes something, and waits inside of write() until it has taken all: its buffers grow by 256 bytes, and a line's end may become
   two (tty_buffer.c and n_tty.c of Linux 6). */
#define CONSOLE_PIECE_BYTES 128

struct console {
    bool is_open[3], is_terminal[3];
    bool is_regular[3]; /* file */
    bool is_null;       /* stdin is /dev/null */
    bool is_combined;   /* stdout and stderr are the same file, pipe or terminal: the order between them matters */
    int terminal;       /* a descriptor that is a terminal, or -1 */
    struct termios settings;
};

/* Fills, and puts /dev/null (closed on exec) where a descriptor is closed, so that nothing of ours ever gets the number 0, 1 or 2. */
void console_read(struct console *console);

/* A pseudo terminal of the same size and settings, but silent and unprocessed, because the real one echoes and processes already. Both ends
   are closed on exec; the master does not block. Returns 0 or -1 with errno. The caller owns both. */
int console_pty(const struct console *console, int *master, int *slave);

/* Writes to a pipe, a socket or a terminal what it takes now of at most PIPE_BUF bytes (a terminal: CONSOLE_PIECE_BYTES); its O_NONBLOCK is not ours to set,
   others share the open file. -1 with EAGAIN: nothing. A named pipe (mkfifo), any pipe before Linux 6.4 or so, and a terminal that another process fills at the
   same moment block still. */
ssize_t console_write_now(int descriptor, const char *bytes, size_t count);

/* Gives a pseudo terminal the real one's present size. */
void console_copy_size(const struct console *console, int master);

#endif
