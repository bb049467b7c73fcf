#define _GNU_SOURCE
#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../clock.h"
#include "known.h"
#include "logs.h"

/* A pipe that is ready takes this much without blocking. */
#define WRITE_BYTES 4096

static struct stream *stream_of(const struct streams *streams, uint32_t rank, int which) {
    return &streams->list[2 * rank + (uint32_t)which];
}

/* ---- making them */

static int make_pipe(struct stream *stream) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    stream->source = ends[0];
    stream->slave = ends[1];
    return 0;
}

static int make_stream(struct streams *streams, uint32_t rank, int which) {
    const struct console *console = streams->console;
    struct stream *stream = stream_of(streams, rank, which);
    if (!console->is_open[which + 1] || (which == 1 && streams->is_combined))
        return 0;
    stream->tail = calloc(1, STREAMS_TAIL_BYTES);
    if (!stream->tail)
        return -1;
    return console->is_terminal[which + 1] ? console_pty(console, &stream->source, &stream->slave) : make_pipe(stream);
}

static int make_log(struct stream *stream, const char *folder, uint32_t rank, const char *kind, struct problem *problem) {
    struct stat status;
    stream->log = logs_open(folder, rank, kind, O_WRONLY | O_NONBLOCK, problem); /* somebody may have made a pipe of it */
    stream->log_is_file = stream->log >= 0 && fstat(stream->log, &status) == 0 && S_ISREG(status.st_mode);
    return stream->log < 0 ? -1 : 0;
}

static int make_logs(struct streams *streams, const char *folder, uint32_t first, struct problem *problem) {
    if (logs_make_folder(folder, problem))
        return -1;
    for (uint32_t rank = 0; rank < streams->world_size; rank++)
        if (make_log(stream_of(streams, rank, 0), folder, first + rank, "out", problem) ||
            make_log(stream_of(streams, rank, 1), folder, first + rank, "err", problem))
            return -1;
    return 0;
}

static int make_all(struct streams *streams, const struct streams_request *request) {
    for (uint32_t i = 0; i < 2 * streams->world_size; i++)
        streams->list[i] = (struct stream){.source = -1, .slave = -1, .log = -1};
    for (uint32_t rank = 0; rank < streams->world_size && !streams->is_direct; rank++)
        for (int which = 0; which < 2; which++)
            if (make_stream(streams, rank, which))
                return -1;
    for (int which = 0; which < 2; which++) {
        streams->outputs[which] = output_new(streams->world_size, request->show, request->context);
        streams->pending[which].buffer = malloc(STREAMS_CHUNK_BYTES);
        if (!streams->outputs[which] || !streams->pending[which].buffer)
            return -1;
    }
    return 0;
}

int streams_open(struct streams *streams, const struct streams_request *request, struct problem *problem) {
    const struct console *console = request->console;
    bool logs = *request->log_dir;
    memset(streams, 0, sizeof *streams);
    streams->console = console;
    streams->files = request->files;
    streams->world_size = request->world_size;
    streams->is_quiet = request->first > 0;
    streams->is_direct = request->world_size == 1 && !streams->is_quiet && !logs && console->terminal < 0;
    streams->is_combined = console->is_combined && !logs;
    streams->list = calloc(2 * (size_t)request->world_size, sizeof *streams->list);
    if (!streams->list || make_all(streams, request))
        return problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "raise 'ulimit -n', or run fewer ranks",
                           "cannot connect the ranks' output: %s", strerror(errno));
    return logs ? make_logs(streams, request->log_dir, request->first, problem) : 0;
}

void streams_descriptors(const struct streams *streams, uint32_t rank, int *out, int *error) {
    if (streams->is_direct) {
        *out = streams->console->is_open[1] ? 1 : -1;
        *error = streams->console->is_open[2] ? 2 : -1;
        return;
    }
    *out = stream_of(streams, rank, 0)->slave;
    *error = streams->is_combined ? *out : stream_of(streams, rank, 1)->slave;
}

void streams_started(struct streams *streams, uint32_t rank) {
    for (int which = 0; which < 2; which++) {
        struct stream *stream = stream_of(streams, rank, which);
        if (stream->slave >= 0)
            close(stream->slave);
        stream->slave = -1;
    }
}

/* ---- moving bytes */

static bool is_pending(const struct streams *streams, int which) {
    return streams->pending[which].end > 0;
}

/* Rank 0 is not read while what it said waits, and nobody while it waits for the log. index: in the list. */
static bool may_read(const struct streams *streams, uint32_t index) {
    return streams->list[index].source >= 0 && !streams->list[index].unlogged && (index > 1 || !is_pending(streams, (int)index));
}

/* Knows whether rank 0 is read now, and not cut short: what it would have said then, nobody knows. */
static struct output *output_of(struct streams *streams, int which, uint64_t now_ms) {
    enum output_hold read = may_read(streams, (uint32_t)which) ? OUTPUT_KNOWN : OUTPUT_HELD;
    output_hold(streams->outputs[which], stream_of(streams, 0, which)->source < 0 ? known_hold(streams, which, now_ms) : read);
    return streams->outputs[which];
}

static void stream_end(struct streams *streams, uint32_t rank, int which) {
    struct stream *stream = stream_of(streams, rank, which);
    uint64_t now_ms = clock_ms();
    close(stream->source);
    stream->source = -1;
    if (!rank)
        streams->ended_ms[which] = now_ms;
    output_end(output_of(streams, which, now_ms), rank, now_ms);
}

static void end_log(struct streams *streams, struct stream *stream, int error) {
    streams->log_error = error;
    writer_forget(&streams->logs, stream);
    close(stream->log);
    stream->log = -1;
}

/* Writes as much as the log takes now. Returns how much is to be written still. */
static size_t log_now(struct streams *streams, struct stream *stream, const char *bytes, size_t count) {
    while (stream->log >= 0 && count) {
        ssize_t n =
            stream->log_is_file ? writer_write(&streams->logs, stream, stream->log, bytes, count) : write(stream->log, bytes, count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return count;
        if (n < 0) {
            end_log(streams, stream, errno);
            return 0;
        }
        bytes += n;
        count -= (size_t)n;
    }
    return 0;
}

static void write_log(struct streams *streams, struct stream *stream, const char *bytes, size_t count) {
    size_t left = log_now(streams, stream, bytes, count);
    if (!left)
        return;
    stream->unlogged = malloc(left);
    if (!stream->unlogged) {
        end_log(streams, stream, ENOMEM);
        return;
    }
    memcpy(stream->unlogged, bytes + count - left, left);
    stream->unlogged_begin = 0;
    stream->unlogged_end = left;
}

static void drop_unlogged(struct stream *stream) {
    free(stream->unlogged);
    stream->unlogged = NULL;
}

static void flush_log(struct streams *streams, struct stream *stream) {
    if (!stream->unlogged)
        return;
    size_t left = log_now(streams, stream, stream->unlogged + stream->unlogged_begin, stream->unlogged_end - stream->unlogged_begin);
    stream->unlogged_begin = stream->unlogged_end - left;
    if (!left)
        drop_unlogged(stream);
}

static void keep_tail(struct stream *stream, const char *bytes, size_t count) {
    size_t skip = count > STREAMS_TAIL_BYTES ? count - STREAMS_TAIL_BYTES : 0;
    stream->bytes += skip;
    for (size_t i = skip; i < count; i++)
        stream->tail[stream->bytes++ % STREAMS_TAIL_BYTES] = bytes[i];
}

/* What waited cannot be written. */
static void give_pending_up(struct streams *streams, int which, int error) {
    struct streams_pending *pending = &streams->pending[which];
    if (error == EPIPE) { /* the reader has gone */
        output_give_up(streams->outputs[which]);
        if (stream_of(streams, 0, which)->source >= 0)
            stream_end(streams, 0, which);
    } else if (!streams->console->is_terminal[which + 1]) {
        streams->lost_error = error;
        streams->lost_bytes += pending->end - pending->begin;
    }
    pending->begin = pending->end = 0;
}

/* As much as can be without blocking. */
static ssize_t write_pending(struct streams *streams, int which) {
    struct streams_pending *pending = &streams->pending[which];
    const char *bytes = pending->buffer + pending->begin;
    size_t count = pending->end - pending->begin, most = streams->console->is_terminal[which + 1] ? CONSOLE_PIECE_BYTES : WRITE_BYTES;
    if (streams->console->is_regular[which + 1])
        return writer_write(streams->files, pending, which + 1, bytes, count);
    return console_write_now(which + 1, bytes, count < most ? count : most);
}

/* Hands on what rank 0 said. Never blocks. */
static void flush_pending(struct streams *streams, int which) {
    struct streams_pending *pending = &streams->pending[which];
    while (pending->begin < pending->end) {
        ssize_t n = write_pending(streams, which);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            give_pending_up(streams, which, errno);
            return;
        }
        if (n > 0 && (which || streams->is_combined || (streams->console->is_terminal[1] && streams->console->is_terminal[2])))
            streams->line_is_open = pending->buffer[pending->begin + (size_t)n - 1] != '\n';
        pending->begin += (uint32_t)n;
    }
    pending->begin = pending->end = 0;
}

/* Reads once. Returns false when there is nothing more now. */
static bool read_stream(struct streams *streams, uint32_t rank, int which) {
    static char scratch[STREAMS_CHUNK_BYTES];
    struct stream *stream = stream_of(streams, rank, which);
    char *buffer = rank ? scratch : streams->pending[which].buffer;
    ssize_t n = read(stream->source, buffer, STREAMS_CHUNK_BYTES);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) { /* EIO: all ends of the pseudo terminal are closed */
        stream_end(streams, rank, which);
        return false;
    }
    write_log(streams, stream, buffer, (size_t)n);
    keep_tail(stream, buffer, (size_t)n);
    if (streams->world_size > 1)
        output_feed(output_of(streams, which, clock_ms()), rank, buffer, (size_t)n, clock_ms());
    if (rank == 0 && !streams->is_quiet) {
        streams->pending[which].end = (uint32_t)n;
        flush_pending(streams, which);
    }
    return true;
}

static void source_ready(void *context, size_t index, short events) {
    struct streams *streams = context;
    if (may_read(streams, (uint32_t)index))
        read_stream(streams, (uint32_t)index / 2, (int)(index % 2));
}

static void sink_ready(void *context, size_t index, short events) {
    flush_pending(context, (int)index);
}

static void log_ready(void *context, size_t index, short events) {
    struct streams *streams = context;
    flush_log(streams, &streams->list[index]);
}

static void add_logs(struct streams *streams, struct loop *loop) {
    for (uint32_t i = 0; i < 2 * streams->world_size; i++) {
        const struct stream *stream = &streams->list[i];
        if (stream->unlogged && stream->log_is_file)
            writer_add(&streams->logs, stream->log, loop, log_ready, streams, i);
        else if (stream->unlogged)
            loop_add(loop, stream->log, POLLOUT, log_ready, streams, i);
    }
}

void streams_add(struct streams *streams, struct loop *loop) {
    for (int which = 0; which < 2; which++)
        if (is_pending(streams, which) && streams->console->is_regular[which + 1])
            writer_add(streams->files, which + 1, loop, sink_ready, streams, (size_t)which);
        else if (is_pending(streams, which))
            loop_add(loop, which + 1, POLLOUT, sink_ready, streams, (size_t)which);
    add_logs(streams, loop);
    for (uint32_t i = 0; i < 2 * streams->world_size; i++)
        if (may_read(streams, i))
            loop_add(loop, streams->list[i].source, POLLIN, source_ready, streams, i);
}

bool streams_drain(struct streams *streams) {
    for (uint32_t i = 0; i < 2 * streams->world_size; i++)
        while (may_read(streams, i) && read_stream(streams, i / 2, (int)(i % 2)))
            ;
    return !is_pending(streams, 0) && !is_pending(streams, 1);
}

void streams_settle(struct streams *streams, enum streams_zero zero, uint64_t now_ms) {
    streams->zero = zero;
    for (int which = 0; which < 2; which++) {
        known_settle(streams, which, now_ms);
        output_settle(output_of(streams, which, now_ms), now_ms, 0);
    }
}

void streams_end(struct streams *streams, enum streams_zero zero, uint64_t now_ms) {
    streams_settle(streams, zero, now_ms);
    for (int which = 0; which < 2; which++) {
        for (uint32_t rank = 0; rank < streams->world_size; rank++)
            output_end(output_of(streams, which, now_ms), rank, now_ms);
        output_settle(streams->outputs[which], now_ms, 1);
    }
}

bool streams_logs_wait(const struct streams *streams) {
    for (uint32_t i = 0; i < 2 * streams->world_size; i++)
        if (streams->list[i].unlogged)
            return true;
    return false;
}

void streams_give_logs_up(struct streams *streams) {
    for (uint32_t i = 0; i < 2 * streams->world_size; i++)
        if (streams->list[i].unlogged) {
            end_log(streams, &streams->list[i], ETIME);
            drop_unlogged(&streams->list[i]);
        }
}

void streams_catch_up(struct streams *streams) {
    for (uint32_t i = 0; i < 2; i++)
        if (may_read(streams, i))
            read_stream(streams, 0, (int)i);
}

static bool is_full(int descriptor) {
    struct pollfd sink = {descriptor, POLLOUT, 0};
    return poll(&sink, 1, 0) == 0;
}

bool streams_is_blocked(const struct streams *streams) {
    if (streams->is_direct)
        return is_full(1) || is_full(2);
    return is_pending(streams, 0) || is_pending(streams, 1) || stream_of(streams, 0, 0)->unlogged || stream_of(streams, 0, 1)->unlogged;
}

uint64_t streams_printed(const struct streams *streams) {
    return stream_of(streams, 0, 0)->bytes + stream_of(streams, 0, 1)->bytes;
}

void streams_tail(const struct streams *streams, uint32_t rank, const char *indent, int lines, char *text, size_t size) {
    const struct stream *stream = stream_of(streams, rank, streams->is_combined ? 0 : 1);
    uint64_t begin = stream->bytes > STREAMS_TAIL_BYTES ? stream->bytes - STREAMS_TAIL_BYTES : 0, at = stream->bytes;
    size_t used = 0;
    text[0] = 0;
    if (!stream->tail || !stream->bytes)
        return;
    for (int found = 0; at > begin; at--)
        if (stream->tail[(at - 1) % STREAMS_TAIL_BYTES] == '\n' && at != stream->bytes && ++found == lines)
            break;
    for (bool fresh = true; at < stream->bytes && used + strlen(indent) + 2 < size; at++) {
        char c = stream->tail[at % STREAMS_TAIL_BYTES];
        if (fresh)
            used += (size_t)snprintf(text + used, size - used, "%s", indent);
        fresh = c == '\n';
        text[used++] = c == '\r' ? '\n' : c;
        text[used] = 0;
    }
    while (used && text[used - 1] == '\n')
        text[--used] = 0;
}

void streams_clear(struct streams *streams) {
    for (uint32_t i = 0; streams->list && i < 2 * streams->world_size; i++) {
        struct stream *stream = &streams->list[i];
        int owned[3] = {stream->source, stream->slave, stream->log};
        for (int k = 0; k < 3; k++)
            if (owned[k] >= 0)
                close(owned[k]);
        free(stream->tail);
        free(stream->unlogged);
    }
    for (int which = 0; which < 2; which++) {
        output_free(streams->outputs[which]);
        free(streams->pending[which].buffer);
    }
    free(streams->list);
    memset(streams, 0, sizeof *streams);
}
