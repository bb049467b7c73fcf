/*
 * The ranks' stdout and stderr: pipes or pseudo terminals, rank 0's bytes to the launcher's own, everybody's bytes to the comparison and
 * the logs.
 *
 * Rules
 *  - Rank 0's bytes pass as they are, in their order, none is lost: while the launcher's reader is slow nothing more is read from rank 0,
 * which then waits as it would alone. No other rank is ever made to wait.
 *  - When the launcher's reader has gone (EPIPE), rank 0's end is closed: it gets SIGPIPE, as it would alone. Any other fault (a full disk) cannot be
 *    passed on through a pipe: the bytes are lost, counted and said, and the program goes on.
 *  - Files, of --log-dir above all, are written by writer.h. What a rank has said is in its log before more is read from it; logs may be pipes, too.
 *  - One rank, without a terminal and without --log-dir, gets the launcher's own descriptors (direct).
 *  - When the launcher's stdout and stderr are the same file, each rank has one stream for both, so that the order is kept; --log-dir
 * separates them.
 */
#ifndef ACCEL_RUN_STREAMS_H
#define ACCEL_RUN_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "console.h"
#include "../loop.h"
#include "output.h"
#include "../problem.h"
#include "writer.h"

#define STREAMS_TAIL_BYTES 4096
#define STREAMS_CHUNK_BYTES 65536

/* What is known of rank 0's end, and so of whether it has said all that it would have said. */
enum streams_zero {
    STREAMS_LIVES,    /* it has not ended */
    STREAMS_WHOLE,    /* by itself, or for another one's failure, whose last words say why */
    STREAMS_ANSWERED, /* well, as the user asked: unless in the midst of a line */
    STREAMS_DIED,     /* by a signal that nobody had asked it to end by */
    STREAMS_CUT,      /* otherwise */
};

struct stream {
    int source; /* owned: our end; -1: none or ended */
    int slave;  /* owned until the rank is started: its end */
    int log;    /* owned: file of --log-dir, -1: none */
    bool log_is_file;
    char *unlogged; /* owned: what the log has not taken yet, [unlogged_begin, unlogged_end); NULL: nothing */
    size_t unlogged_begin, unlogged_end;
    char *tail; /* owned: the last STREAMS_TAIL_BYTES bytes, a ring */
    uint64_t bytes;
};

/* What rank 0 has said and the launcher could not hand on yet. */
struct streams_pending {
    char *buffer; /* owned, STREAMS_CHUNK_BYTES */
    uint32_t begin, end;
};

struct streams {
    const struct console *console; /* borrowed */
    struct writer *files;          /* borrowed: of standard output and error, where they are files */
    struct writer logs;            /* a disk of their own may hang */
    uint32_t world_size;
    bool is_direct, is_combined;
    enum streams_zero zero;    /* as was said last */
    uint64_t ended_ms[2];      /* rank 0's streams, */
    bool is_whole[2];          /* which are known to be all that it would have said there */
    bool is_quiet;             /* rank 0 is on another host: nothing is handed on */
    struct stream *list;       /* owned: stdout of rank 0, stderr of rank 0, stdout of rank 1... */
    struct output *outputs[2]; /* owned: stdout (or both), stderr */
    struct streams_pending pending[2];
    bool line_is_open;   /* half a line has been written to stderr, or to what stdout and stderr share */
    uint64_t lost_bytes; /* of rank 0's output that could not be written; not counted on a terminal that is gone */
    int lost_error;      /* why; 0: none */
    int log_error;       /* why a file of --log-dir was given up; 0: none */
};

struct streams_request {
    const struct console *console;
    struct writer *files; /* of standard output and error */
    uint32_t world_size;
    const char *log_dir; /* "" none */
    uint32_t first;      /* number of the first rank here: not 0 on hosts but the first */
    output_show *show;   /* of lines that differ */
    void *context;
};

int streams_open(struct streams *streams, const struct streams_request *request, struct problem *problem);

/* What becomes 1 and 2 of the rank; -1 for closed. */
void streams_descriptors(const struct streams *streams, uint32_t rank, int *out, int *error);
/* The rank has its ends: ours of them are closed. */
void streams_started(struct streams *streams, uint32_t rank);

void streams_add(struct streams *streams, struct loop *loop);
/* Reads everything that is already there, without waiting. Returns true when all of it was also handed on. */
bool streams_drain(struct streams *streams);
/* Lines that differ are handed on once they have waited long enough (output.h); at the end all that were read. */
void streams_settle(struct streams *streams, enum streams_zero zero, uint64_t now_ms);
void streams_end(struct streams *streams, enum streams_zero zero, uint64_t now_ms);
/* Is there something that a log has not taken yet? */
bool streams_logs_wait(const struct streams *streams);
/* These logs end here. */
void streams_give_logs_up(struct streams *streams);
/*
 * Hands on what rank 0 has written up to now (one read takes all that a pipe holds): before a rank's message is shown, so that it does not
 * cut a line in two that came before it. Does not wait.
 */
void streams_catch_up(struct streams *streams);
/* Is rank 0 held up by who reads our output? */
bool streams_is_blocked(const struct streams *streams);
/* How many bytes rank 0 has printed, as far as they were read. */
uint64_t streams_printed(const struct streams *streams);
/* The last whole lines of a rank's stderr, each after `indent`, at most `lines`; text[size]. */
void streams_tail(const struct streams *streams, uint32_t rank, const char *indent, int lines, char *text, size_t size);
void streams_clear(struct streams *streams);

#endif
