#define _GNU_SOURCE
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../clock.h"

static int open_copy(struct input *input, struct input_sink *sink) {
    int ends[2];
    if (input->is_terminal) {
        int packets = 1; /* reports that the rank has thrown away what it had not read yet: see input_holds */
        return console_pty(input->console, &sink->sink, &sink->slave) ? -1 : ioctl(sink->sink, TIOCPKT, &packets);
    }
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    sink->slave = ends[0];
    sink->sink = ends[1];
    return 0;
}

/* A description of its own at the launcher's position; -1 when the file may not be opened again (then it is copied). */
static int open_again(int source) {
    char name[32];
    off_t position = lseek(source, 0, SEEK_CUR);
    snprintf(name, sizeof name, "/proc/self/fd/%d", source);
    int descriptor = position < 0 ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0 && lseek(descriptor, position, SEEK_SET) != position) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

static int open_all(struct input *input) {
    for (uint32_t rank = 0; rank < input->world_size; rank++) {
        struct input_sink *sink = &input->sinks[rank];
        if (input->is_copied ? open_copy(input, sink) : (rank && (sink->slave = open_again(input->source)) < 0))
            return -1;
    }
    return 0;
}

static void begin(struct input *input, int source, uint32_t world_size) {
    memset(input, 0, sizeof *input);
    input->source = source;
    input->world_size = world_size;
    input->sinks = calloc(world_size, sizeof *input->sinks);
    for (uint32_t rank = 0; input->sinks && rank < world_size; rank++)
        input->sinks[rank].sink = input->sinks[rank].slave = -1;
}

/* A file by descriptions of their own; a pipe, and a file that may not be opened again, by copying. */
static int connect_all(struct input *input, bool is_file, struct problem *problem) {
    input->is_file = is_file;
    if (input->sinks && is_file && open_all(input) == 0)
        return 0;
    input->is_copied = true;
    if (input->sinks && open_all(input) == 0)
        return 0;
    return problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "raise 'ulimit -n', or run fewer ranks", "cannot connect the ranks' input: %s",
                       strerror(errno));
}

/* The caller's standard input is the same pipe. Not known of another user's process. */
static bool is_callers(void) {
    char name[32];
    struct stat own, callers;
    snprintf(name, sizeof name, "/proc/%d/fd/0", (int)getppid());
    return !fstat(0, &own) && S_ISFIFO(own.st_mode) && !stat(name, &callers) && own.st_dev == callers.st_dev &&
           own.st_ino == callers.st_ino;
}

int input_open(struct input *input, const struct console *console, uint32_t world_size, struct problem *problem) {
    begin(input, 0, world_size);
    input->console = console;
    input->is_terminal = console->is_terminal[0];
    if (input->sinks && (!console->is_open[0] || console->is_null))
        return 0;
    if (world_size == 1 && !input->is_terminal && input->sinks)
        return 0;
    input->is_shared = is_callers();
    return connect_all(input, console->is_regular[0], problem);
}

int input_open_other(struct input *input, int source, bool is_file, uint32_t world_size, struct problem *problem) {
    begin(input, source, world_size);
    return connect_all(input, is_file, problem);
}

int input_descriptor(const struct input *input, uint32_t rank) {
    if (input->console && !input->console->is_open[0])
        return -1;
    return input->sinks[rank].slave >= 0 ? input->sinks[rank].slave : input->source;
}

void input_started(struct input *input, uint32_t rank) {
    struct input_sink *sink = &input->sinks[rank];
    if (sink->slave >= 0)
        close(sink->slave);
    sink->slave = -1;
}

static size_t bytes_in(int pipe) {
    int count = 0;
    return ioctl(pipe, FIONREAD, &count) ? 0 : (size_t)count;
}

/* What rank 0 has not read yet: it may have gone, or may still read on when our end is closed. */
static void keep_count(struct input *input, const struct input_sink *sink) {
    char name[32];
    if (!input->is_shared || sink != input->sinks || sink->sink < 0)
        return;
    input->lost = sink->end - sink->begin + bytes_in(sink->sink);
    snprintf(name, sizeof name, "/proc/self/fd/%d", sink->sink);
    if (input->has_ended && input->lost && !input->rest && (input->rest = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) < 0)
        input->rest = 0;
}

size_t input_taken(const struct input *input) {
    const struct input_sink *sink = input->sinks;
    if (!input->is_shared)
        return 0;
    if (sink && sink->sink >= 0)
        return sink->end - sink->begin + bytes_in(sink->sink);
    return input->rest ? bytes_in(input->rest) : input->lost;
}

static void sink_close(struct input *input, struct input_sink *sink) {
    keep_count(input, sink);
    close(sink->sink);
    sink->sink = -1;
    free(sink->queue);
    sink->queue = NULL;
    sink->begin = sink->end = sink->capacity = 0;
}

/* What may be written now. */
static size_t sink_sendable(const struct input_sink *sink) {
    return (sink->held_since_ms ? sink->held_from : sink->end) - sink->begin;
}

static void sink_flush(struct input *input, struct input_sink *sink) {
    while (sink->sink >= 0 && sink_sendable(sink)) {
        ssize_t n = write(sink->sink, sink->queue + sink->begin, sink_sendable(sink));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* nobody reads any more */
            sink_close(input, sink);
            return;
        }
        sink->begin += (size_t)n;
    }
    if (sink->begin < sink->end) /* held */
        return;
    sink->begin = sink->end = sink->held_from = 0;
    if (sink->sink >= 0 && input->has_ended && !input->is_terminal)
        sink_close(input, sink);
}

/* What has been written has room again: a queue that is never empty would grow for ever. */
static void sink_compact(struct input_sink *sink) {
    memmove(sink->queue, sink->queue + sink->begin, sink->end - sink->begin);
    sink->end -= sink->begin;
    sink->held_from -= sink->held_from < sink->begin ? sink->held_from : sink->begin;
    sink->begin = 0;
}

/* False: there is no memory. */
static bool sink_queue(struct input_sink *sink, const char *bytes, size_t count) {
    if (sink->end + count > sink->capacity && sink->begin > sink->end / 2) /* less is moved than was written since the last time */
        sink_compact(sink);
    if (sink->end + count > sink->capacity) {
        size_t capacity = 2 * (sink->end + count);
        char *queue = realloc(sink->queue, capacity);
        if (!queue)
            return false;
        sink->queue = queue;
        sink->capacity = capacity;
    }
    memcpy(sink->queue + sink->end, bytes, count);
    sink->end += count;
    return true;
}

static void sink_release(struct input *input, struct input_sink *sink) {
    sink->held_since_ms = 0;
    sink_flush(input, sink);
}

static void sink_has_thrown_away(struct input *input, struct input_sink *sink) {
    sink->thrown_away++;
    for (uint32_t rank = 1; sink == input->sinks && rank < input->world_size; rank++) {
        struct input_sink *other = &input->sinks[rank];
        if (other->sink < 0 || other->held_since_ms || other->thrown_away >= sink->thrown_away)
            continue;
        other->held_since_ms = clock_ms();
        other->held_from = other->end;
    }
    if (sink->held_since_ms && sink->thrown_away >= input->sinks[0].thrown_away)
        sink_release(input, sink);
}

/* What a rank's terminal has to say: that it has thrown input away, that nobody has it open any more, or what somebody writes to it, which nobody reads. */
static void terminal_ready(void *context, size_t index, short events) {
    struct input *input = context;
    struct input_sink *sink = &input->sinks[index];
    char packet[4096];
    if (sink->sink < 0)
        return;
    ssize_t n = read(sink->sink, packet, sizeof packet);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        sink_close(input, sink);
    else if (n > 0 && packet[0] & TIOCPKT_FLUSHREAD)
        sink_has_thrown_away(input, sink);
}

/* How long what is held still waits, in ms. */
static int sink_wait(const struct input_sink *sink, uint64_t now_ms) {
    uint64_t end_ms = sink->held_since_ms + INPUT_HOLD_MS;
    return end_ms > now_ms ? (int)(end_ms - now_ms) : 0;
}

static bool is_hung_up(const struct input *input) {
    return input->is_terminal && input->has_ended;
}

/* Has the rank read all? What lies in a terminal that is hung up is lost. */
static bool is_read(const struct input_sink *sink) {
    int slave = ioctl(sink->sink, TIOCGPTPEER, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    size_t left = slave < 0 ? 0 : bytes_in(slave);
    if (slave >= 0)
        close(slave);
    return !left && sink->begin == sink->end;
}

static void hang_up(struct input *input, uint64_t now_ms) {
    if (now_ms - input->looked_ms < INPUT_LOOK_MS)
        return;
    input->looked_ms = now_ms;
    for (uint32_t rank = 0; rank < input->world_size; rank++)
        if (input->sinks[rank].sink >= 0 && is_read(&input->sinks[rank]))
            sink_close(input, &input->sinks[rank]);
}

int input_holds(const struct input *input, uint64_t now_ms) {
    int left = -1;
    for (uint32_t rank = 0; input->sinks && rank < input->world_size; rank++) {
        const struct input_sink *sink = &input->sinks[rank];
        if (is_hung_up(input) && sink->sink >= 0 && (left < 0 || left > INPUT_LOOK_MS))
            left = INPUT_LOOK_MS;
        if (!sink->held_since_ms || sink->held_from == sink->end)
            continue;
        int wait = sink_wait(sink, now_ms);
        left = left < 0 || wait < left ? wait : left;
    }
    return left;
}

void input_settle(struct input *input, uint64_t now_ms) {
    for (uint32_t rank = 0; input->sinks && rank < input->world_size; rank++) {
        struct input_sink *sink = &input->sinks[rank];
        if (!sink->held_since_ms || sink_wait(sink, now_ms))
            continue;
        sink->thrown_away = input->sinks[0].thrown_away;
        sink_release(input, sink);
    }
    if (is_hung_up(input))
        hang_up(input, now_ms);
}

/* What is there now, at most count bytes: another reader of the pipe may have taken it since poll() said so, and O_NONBLOCK is not ours to set, as others share
   the open file. EAGAIN: nothing. A file is waited for: with RWF_NOWAIT nothing would fetch what is not in memory. */
static ssize_t read_now(const struct input *input, char *bytes, size_t count) {
    int source = input->source;
    struct iovec into = {bytes, count};
    struct pollfd again = {source, POLLIN, 0};
    if (input->is_file)
        return read(source, bytes, count);
    ssize_t n = recv(source, bytes, count, MSG_DONTWAIT);
    if (n >= 0 || errno != ENOTSOCK)
        return n;
    n = preadv2(source, &into, 1, -1, RWF_NOWAIT); /* of pipes since Linux 6.4 or so */
    if (n >= 0 || errno == EAGAIN || errno == EINTR)
        return n;
    errno = EAGAIN;
    return poll(&again, 1, 0) > 0 ? read(source, bytes, count) : -1;
}

static void source_ready(void *context, size_t index, short events) {
    struct input *input = context;
    char bytes[16384];
    ssize_t n = read_now(input, bytes, sizeof bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == 0 && input->is_terminal && !(events & POLLHUP)) { /* Ctrl-D: the pseudo terminals' end of file, which is not for ever either */
        bytes[0] = (char)input->console->settings.c_cc[VEOF];
        n = 1;
    }
    input->has_ended = n <= 0;
    input->looked_ms = clock_ms();
    for (uint32_t rank = 0; rank < input->world_size; rank++) {
        struct input_sink *sink = &input->sinks[rank];
        if (sink->sink < 0)
            continue;
        if (n > 0 && !sink_queue(sink, bytes, (size_t)n))
            input->has_gap = true;
        sink_flush(input, sink);
    }
}

static void sink_ready(void *context, size_t index, short events) {
    struct input *input = context;
    struct input_sink *sink = &input->sinks[index];
    if (sink->sink >= 0 && (events & POLLERR))
        sink_close(input, sink);
    else
        sink_flush(input, sink);
}

/* Somebody wants more, and nobody is too far behind. */
static bool wants_more(const struct input *input) {
    bool some = false;
    for (uint32_t rank = 0; rank < input->world_size; rank++) {
        const struct input_sink *sink = &input->sinks[rank];
        if (sink->sink < 0)
            continue;
        if (sink->end - sink->begin >= INPUT_QUEUE_MAX)
            return false;
        some |= sink->end - sink->begin < INPUT_QUEUE_LOW;
    }
    return some;
}

/* A background job must not read the terminal: the kernel would stop it, and a program alone that never reads would run (L11). One that is not ours to be
   controlled by stops nobody (setsid, su -c), nor one that has gone. */
static bool may_read(const struct input *input) {
    pid_t group = input->is_terminal ? tcgetpgrp(0) : getpgrp();
    return group < 0 ? errno == ENOTTY || errno == EIO : group == getpgrp();
}

static bool is_wanted(const struct input *input) {
    return !input->has_ended && !input->has_gap && wants_more(input);
}

bool input_is_shut_out(const struct input *input) {
    return input->is_copied && input->is_terminal && is_wanted(input) && !may_read(input);
}

void input_add(struct input *input, struct loop *loop) {
    if (!input->is_copied)
        return;
    for (uint32_t rank = 0; rank < input->world_size; rank++) {
        struct input_sink *sink = &input->sinks[rank];
        short events = sink_sendable(sink) ? POLLOUT : 0;
        if (input->is_terminal)
            loop_add(loop, sink->sink, POLLIN, terminal_ready, input, rank);
        if (events || !input->is_terminal) /* a pipe reports POLLERR when its reader goes */
            loop_add(loop, sink->sink, events, sink_ready, input, rank);
    }
    if (is_wanted(input) && may_read(input))
        loop_add(loop, input->source, POLLIN, source_ready, input, 0);
}

void input_copy_size(struct input *input) {
    for (uint32_t rank = 0; rank < input->world_size; rank++)
        if (input->sinks[rank].sink >= 0 && input->is_terminal)
            console_copy_size(input->console, input->sinks[rank].sink);
}

void input_clear(struct input *input) {
    for (uint32_t rank = 0; input->sinks && rank < input->world_size; rank++) {
        if (input->sinks[rank].sink >= 0)
            sink_close(input, &input->sinks[rank]);
        input_started(input, rank);
        free(input->sinks[rank].queue);
    }
    free(input->sinks);
    if (input->rest)
        close(input->rest);
    memset(input, 0, sizeof *input);
}
