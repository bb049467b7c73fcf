#define _GNU_SOURCE
#include "printer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console.h"

/* Whole lines, as many as a pipe that is ready takes without blocking; a piece of a line that is longer. */
static size_t next_piece(const struct printer *printer) {
    size_t count = printer->end - printer->begin, most = isatty(STDERR_FILENO) ? CONSOLE_PIECE_BYTES : PIPE_BUF;
    if (count <= most)
        return count;
    const char *begin = printer->queue + printer->begin, *last = memrchr(begin, '\n', most);
    return last ? (size_t)(last - begin) + 1 : most;
}

/* Never blocks. */
static ssize_t write_piece(struct printer *printer) {
    const char *bytes = printer->queue + printer->begin;
    if (printer->files)
        return writer_write(printer->files, printer, STDERR_FILENO, bytes, next_piece(printer));
    return console_write_now(STDERR_FILENO, bytes, next_piece(printer));
}

static void flush(struct printer *printer) {
    while (printer->begin < printer->end) {
        ssize_t n = write_piece(printer);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) /* nobody reads, or there is no room: whom to tell? */
            break;
        printer->begin += (size_t)n;
    }
    printer->begin = printer->end = 0;
    if (printer->dropped) {
        uint32_t dropped = printer->dropped;
        printer->dropped = 0;
        printer_format(printer, "accel-run: %u of its lines were dropped: nobody read them", dropped);
    }
}

/* Room for so many more bytes at the end of the queue. */
static bool make_room(struct printer *printer, size_t bytes) {
    size_t waiting = printer->end - printer->begin;
    if (waiting + bytes > PRINTER_QUEUE_MAX)
        return false;
    if (printer->begin) {
        memmove(printer->queue, printer->queue + printer->begin, waiting);
        printer->begin = 0;
        printer->end = waiting;
    }
    if (waiting + bytes <= printer->capacity)
        return true;
    size_t capacity = 2 * (waiting + bytes);
    char *queue = realloc(printer->queue, capacity);
    if (!queue)
        return false;
    printer->queue = queue;
    printer->capacity = capacity;
    return true;
}

void printer_line(struct printer *printer, const char *line, size_t bytes) {
    bool is_open = printer->line_is_open && *printer->line_is_open && !printer_is_waiting(printer);
    if (!make_room(printer, bytes + 2)) {
        printer->dropped++;
        return;
    }
    char *to = printer->queue + printer->end;
    if (is_open)
        *to++ = '\n';
    if (printer->line_is_open)
        *printer->line_is_open = false;
    to = mempcpy(to, line, bytes);
    *to++ = '\n';
    printer->end = (size_t)(to - printer->queue);
    flush(printer);
}

void printer_vformat(struct printer *printer, const char *prefix, const char *format, va_list list) {
    char *text, *line;
    int n = vasprintf(&text, format, list);
    if (n < 0)
        return;
    n = asprintf(&line, "%s%s", prefix, text);
    free(text);
    if (n < 0)
        return;
    printer_line(printer, line, (size_t)n);
    free(line);
}

void printer_format(struct printer *printer, const char *format, ...) {
    va_list list;
    va_start(list, format);
    printer_vformat(printer, "", format, list);
    va_end(list);
}

static void stderr_ready(void *context, size_t index, short events) {
    flush(context);
}

void printer_add(struct printer *printer, struct loop *loop) {
    if (printer_is_waiting(printer) && printer->files)
        writer_add(printer->files, STDERR_FILENO, loop, stderr_ready, printer, 0);
    else if (printer_is_waiting(printer))
        loop_add(loop, STDERR_FILENO, POLLOUT, stderr_ready, printer, 0);
}

bool printer_is_waiting(const struct printer *printer) {
    return printer->begin < printer->end;
}

void printer_clear(struct printer *printer) {
    free(printer->queue);
    memset(printer, 0, sizeof *printer);
}
