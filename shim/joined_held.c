/*
 * Rank 0 is held up by who reads the output, or by a disk that takes what it saves: a plain program would wait there, too, so no rank is late meanwhile.
 * Seen by the ranks that wait, where no launcher of ours looks (launcher/held.c does elsewhere, and says more of it).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "comm/clock.h"
#include "joined.h"
#include "link.h"

enum { PIECE_BYTES = 1 << 20 }; /* what is written between two deadlines at least */

/* As far as it can be seen: of a terminal, a socket or another user's pipe nothing is known. */
static bool is_unread(uint64_t process, int32_t number) {
    struct pollfd end = {joined_open(process, number, O_WRONLY | O_NONBLOCK | O_NOCTTY), POLLOUT, 0};
    struct stat file;
    bool is_full = end.fd >= 0 && !fstat(end.fd, &file) && S_ISFIFO(file.st_mode) && poll(&end, 1, 0) == 0;
    if (end.fd >= 0)
        syscall(SYS_close, end.fd);
    return is_full;
}

/* Inside a long write, too, as far as the pages of a disk's file are filled. */
static uint64_t bytes_written(uint64_t process) {
    char text[512];
    unsigned long long called = 0, filled = 0;
    snprintf(text, sizeof text, "/proc/%d/io", (int)join_pid(process));
    int file = (int)syscall(SYS_openat, AT_FDCWD, text, O_RDONLY | O_CLOEXEC, 0);
    long bytes = file < 0 ? -1 : syscall(SYS_read, file, text, sizeof text - 1);
    if (file >= 0)
        syscall(SYS_close, file);
    text[bytes > 0 ? bytes : 0] = 0;
    if (sscanf(text, "rchar: %*u wchar: %llu syscr: %*u syscw: %*u read_bytes: %*u write_bytes: %llu", &called, &filled) != 2)
        return 0;
    return called + filled;
}

void joined_held_look(void) {
    static _Atomic uint64_t seen; /* two threads may look: a piece is counted once at least */
    struct join_rank *zero = &joined_page()->ranks[0];
    struct board *board = link_board();
    uint64_t process = join_trainer(zero);
    char state = joined_process_state(process);
    if (!board || !joined_rank() || atomic_load(&board->ranks[0].waiting) || !state || state == 'T' || state == 't')
        return;
    uint64_t written = bytes_written(process), before = atomic_load(&seen);
    bool has_written = written >= before + PIECE_BYTES;
    if (has_written || written < before)
        atomic_store(&seen, written);
    if (has_written || is_unread(process, 1) || is_unread(process, 2))
        atomic_store(&board->held_ns, clock_ns());
}
