/* What every benchmark in C needs: the clock, and an end for what cannot go on (comm_options.fail). */
#ifndef ACCEL_TESTS_BENCH_H
#define ACCEL_TESTS_BENCH_H

#include <stdio.h>
#include <time.h>
#include <unistd.h>

__attribute__((noreturn)) static void fail(const char *id, const char *what) {
    fprintf(stderr, "%s: %s\n", id, what);
    _exit(1);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif
