/*
 * What accel-run itself writes to stderr: queued, and written when there is room.
 *
 * Rules
 *  - Never blocks: a reader that stopped reading (a pager, a terminal after Ctrl-S) must not stop the supervision of the ranks.
 *  - Lines of up to PIPE_BUF bytes are written whole, so that they stay whole beside other writers of the same file.
 *  - Bounded: beyond PRINTER_QUEUE_MAX bytes lines are dropped, and counted.
 */
#ifndef ACCEL_RUN_PRINTER_H
#define ACCEL_RUN_PRINTER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../loop.h"
#include "writer.h"

#define PRINTER_QUEUE_MAX (1u << 20)

struct printer {
    char *queue; /* owned */
    size_t begin, end, capacity;
    uint32_t dropped;     /* lines that did not fit */
    struct writer *files; /* borrowed; NULL: standard error is no file, or not known yet to be one */
    bool *line_is_open;   /* borrowed, may be NULL: rank 0 has printed half a line to the same place; it is ended by ours */
};

/* One or more lines; the last line end is added. */
void printer_line(struct printer *printer, const char *line, size_t bytes);
/* prefix, then the formatted text, as a line. */
void printer_vformat(struct printer *printer, const char *prefix, const char *format, va_list list) __attribute__((format(printf, 3, 0)));
void printer_format(struct printer *printer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Asks the loop to go on writing, when something waits. */
void printer_add(struct printer *printer, struct loop *loop);
bool printer_is_waiting(const struct printer *printer);
void printer_clear(struct printer *printer);

#endif
