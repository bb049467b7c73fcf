/*
 * Runs a helper program to its end and keeps what it printed: the dynamic loader, a Python interpreter, a compiler, accel-run itself.
 * Bounded: in time (then it is killed, and its process group with it) and in bytes (what is over is read and dropped).
 */
#ifndef ACCEL_RUN_CAPTURE_H
#define ACCEL_RUN_CAPTURE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAPTURE_BYTES (1 << 18)

struct capture_request {
    const char *path;       /* as exec wants it */
    char *const *arguments; /* NULL at the end */
    char *const *environment;
    const char *folder; /* to run in; NULL: ours */
    uint32_t milliseconds;
    const volatile sig_atomic_t *stop; /* not 0: as if the time were over. A signal must have set it. NULL: never */
};

struct capture {
    bool has_started, has_timed_out;
    int status;                                     /* exit code, or 128 + signal */
    char out[CAPTURE_BYTES], errors[CAPTURE_BYTES]; /* terminated */
};

/* Standard input is empty. Returns 0 when the program ran to its end by itself with status 0, else -1; *capture is filled in either case. */
int capture_run(const struct capture_request *request, struct capture *capture);

#endif
