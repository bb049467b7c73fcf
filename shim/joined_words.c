/* What a rank without a launcher of ours says, and what others say of it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "checksum.h"
#include "comm/clock.h"
#include "joined.h"
#include "comm/own.h"

enum { HELD = 16, HELD_CHARS = 1100, HELD_MS = 1000, TAIL_BYTES = 3000, TAIL_LINES = 10, KEPT_BYTES = 64 << 10, TRIM_BYTES = 1 << 20 };

struct held {
    uint64_t hash, since_ms; /* hash 0: free */
    char text[HELD_CHARS];
};

static struct own_descriptor errors = {-1, 0, 0}; /* standard error as the launcher has made it */
static struct own_descriptor output = {-1, 0, 0}; /* where this rank's output goes, when it is a file in memory */
static struct held held[HELD];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- where to */

/*
 * The first process's descriptor as it has come down to us, unless somebody has closed it; else opened through /proc, which does not share its position: in a
 * regular file the others write over what is appended so.
 */
static int find_errors(void) {
    const struct join_rank *own = &joined_page()->ranks[joined_rank()];
    char path[64];
    struct stat there, here;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)join_pid(own->front), (int)own->errors);
    if (own->errors >= 0 && !syscall(SYS_newfstatat, AT_FDCWD, path, &there, 0) && !fstat(own->errors, &here) &&
        there.st_dev == here.st_dev && there.st_ino == here.st_ino)
        return fcntl(own->errors, F_DUPFD_CLOEXEC, 3);
    return joined_is_front() ? -1 : joined_open(own->front, own->errors, O_WRONLY | O_APPEND | O_NOCTTY);
}

static void open_errors(void) {
    int found = own_is_there(&errors) || !joined_page() ? -1 : find_errors();
    if (found >= 0)
        errors = own_take(found);
}

void joined_words_open(void) {
    const struct join_page *page = joined_page();
    open_errors();
    int found = joined_rank() ? joined_open(page->ranks[0].front, page->ranks[joined_rank()].last_words, O_RDWR) : -1;
    if (found >= 0 && fcntl(found, F_GET_SEALS) < 0) { /* a file of --log-dir: it is kept whole */
        syscall(SYS_close, found);
        found = -1;
    }
    if (found >= 0)
        output = own_take(found);
}

void joined_words_close(void) {
    own_close(&errors);
    own_close(&output);
}

static long mask(int how, const uint64_t *set, uint64_t *before) {
    return syscall(SYS_rt_sigprocmask, how, set, before, sizeof *set);
}

/* A reader that has gone, as the launcher may have, must not end this process before it has ended the others. */
static void write_without_signal(int to, const char *text, size_t bytes) {
    const uint64_t pipe = 1ull << (SIGPIPE - 1);
    const struct timespec now = {0, 0};
    uint64_t before = 0, pending = 0;
    ssize_t written;
    mask(SIG_BLOCK, &pipe, &before);
    syscall(SYS_rt_sigpending, &pending, sizeof pending);
    do
        written = write(to, text, bytes);
    while (written < 0 && errno == EINTR);
    if (written < 0 && errno == EPIPE && !(pending & pipe))
        syscall(SYS_rt_sigtimedwait, &pipe, NULL, &now, sizeof pipe);
    mask(SIG_SETMASK, &before, NULL);
}

void joined_words_print(const char *text, size_t bytes) {
    int saved_errno = errno;
    open_errors();
    write_without_signal(own_is_there(&errors) ? errors.number : STDERR_FILENO, text, bytes);
    errno = saved_errno;
}

/* ---- lines */

static uint64_t hash_of(const char *text) {
    return checksum_bytes(0, text, strlen(text)) | 1;
}

/* Notes that the text is said. Returns false when it was before. With a full table everything is said. */
static bool say_first(uint64_t hash) {
    _Atomic uint64_t *said = joined_page()->said;
    for (uint64_t i = 0; i < JOIN_SAID; i++) {
        _Atomic uint64_t *place = &said[(hash + i) % JOIN_SAID];
        uint64_t empty = 0;
        if (atomic_compare_exchange_strong(place, &empty, hash))
            return true;
        if (empty == hash)
            return false;
    }
    return true;
}

static void print_line(const char *who, char level, const char *text) {
    char line[HELD_CHARS + 64];
    int length = snprintf(line, sizeof line, "%s: %s%s\n", who, protocol_level_word(level, text), text);
    if (length >= (int)sizeof line) {
        length = sizeof line - 1;
        line[length - 1] = '\n';
    }
    joined_words_print(line, (size_t)length);
}

/* Rank 0 is about to say the same, most often: its line is the one that is shown. The level stands before the text. */
static bool hold(uint64_t hash, char level, const char *text) {
    for (int i = 0; i < HELD; i++)
        if (!held[i].hash) {
            held[i].hash = hash;
            held[i].since_ms = clock_ms();
            snprintf(held[i].text, sizeof held[i].text, "%c%s", level, text);
            return true;
        }
    return false;
}

static void settle(bool all) {
    char who[32];
    snprintf(who, sizeof who, "accel-run[rank %u]", joined_rank());
    for (int i = 0; i < HELD; i++) {
        if (!held[i].hash || (!all && clock_ms() - held[i].since_ms < HELD_MS))
            continue;
        if (say_first(held[i].hash))
            print_line(who, held[i].text[0], held[i].text + 1);
        held[i].hash = 0;
    }
}

void joined_words_settle(bool all) {
    if (!joined_rank() || !joined_page())
        return;
    pthread_mutex_lock(&mutex);
    settle(all);
    pthread_mutex_unlock(&mutex);
}

void joined_words_log(char level, const char *text) {
    uint64_t hash = hash_of(text);
    if (!joined_page())
        return;
    pthread_mutex_lock(&mutex);
    settle(false);
    if (!joined_rank()) {
        say_first(hash);
        print_line("accel-run", level, text);
    } else if (!hold(hash, level, text)) {
        settle(true);
        hold(hash, level, text);
    }
    pthread_mutex_unlock(&mutex);
}

/* ---- the end of a rank */

/* Where the last lines begin. */
static const char *last_lines(const char *text, size_t bytes) {
    const char *at = text + bytes;
    for (int lines = 0; at > text; at--)
        if (at[-1] == '\n' && at != text + bytes && ++lines == TAIL_LINES)
            break;
    return at;
}

/* What the rank has printed last, indented, at the end of text[size]. Returns the new length. */
static size_t add_tail(char *text, size_t used, size_t size, uint32_t rank) {
    const struct join_page *page = joined_page();
    char tail[TAIL_BYTES];
    struct stat status;
    int file = joined_open(page->ranks[0].front, page->ranks[rank].last_words, O_RDONLY);
    if (file < 0 && rank == joined_rank() && own_is_there(&output))
        file = fcntl(output.number, F_DUPFD_CLOEXEC, 3);
    off_t begin = file >= 0 && fstat(file, &status) == 0 && status.st_size > TAIL_BYTES ? status.st_size - TAIL_BYTES : 0;
    ssize_t n = file < 0 ? 0 : pread(file, tail, sizeof tail, begin);
    if (file >= 0)
        syscall(SYS_close, file);
    if (n <= 0)
        return used;
    used += (size_t)snprintf(text + used, size - used, "accel-run: last lines of rank %u:\n", rank);
    bool fresh = true;
    for (const char *c = last_lines(tail, (size_t)n); c < tail + n && used + 8 < size; c++) {
        used += fresh ? (size_t)snprintf(text + used, size - used, "    ") : 0;
        fresh = *c == '\n' || *c == '\r';
        text[used++] = *c == '\r' ? '\n' : *c;
    }
    if (!fresh)
        text[used++] = '\n';
    return used;
}

static size_t add_problem(char *text, size_t used, size_t size, const struct protocol_problem *problem) {
    return used + (size_t)snprintf(text + used, size - used, "accel-run: error %s: %s\n  what to do: %s\n", problem->id, problem->what,
                                   problem->cure);
}

void joined_words_problem(const struct protocol_problem *problem, int rank) {
    char text[sizeof *problem + TAIL_BYTES + 1024];
    size_t used = rank > 0 ? add_tail(text, 0, TAIL_BYTES + 512, (uint32_t)rank) : 0;
    joined_words_settle(true);
    joined_words_print(text, add_problem(text, used, sizeof text, problem));
}

void joined_words_of_child(const struct protocol_problem *problem) {
    char text[sizeof *problem + 64];
    joined_words_print(text, add_problem(text, 0, sizeof text, problem));
}

void joined_words_trim(void) {
    struct stat status;
    if (!own_is_there(&output) || fstat(output.number, &status) || status.st_blocks * 512 < TRIM_BYTES || status.st_size < TRIM_BYTES)
        return;
    syscall(SYS_fallocate, output.number, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)0,
            (status.st_size - KEPT_BYTES) & ~(off_t)4095);
}
