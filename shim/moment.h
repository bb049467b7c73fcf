/*
 * Names that differ between ranks only by the moment or by the process: run-1764000000, log.4711, 2026-11-24_13-17-02. Pure but for moment_of_start();
 * allocates nothing.
 */
#ifndef ACCEL_SHIM_MOMENT_H
#define ACCEL_SHIM_MOMENT_H

#include <stddef.h>
#include <stdint.h>

/* processes: numbers that stand for the same on all ranks, those of all of them, so that each rank spells alike; 0: not known yet. Borrowed. */
struct moment {
    long long start, now; /* seconds since 1970: when the program has begun, and now */
    const int32_t *processes;
    size_t count;
    const char *const *hosts; /* names of hosts, likewise */
    size_t host_count;
};

/* out[strlen(text) + 1]: the text with one mark, the same for all ranks, in place of each number of these processes, each name of these hosts, and each time
   and date that is not far from the time between the start and now: seconds since 1970 and parts of them, YYYYMMDD, YYYY-MM-DD and Nov29, with HHMMSS,
   HH-MM or HH-MM-SS behind it (behind the last it must be). */
void moment_spell(const char *text, const struct moment *moment, char *out);

/* When this library came into the process, or into the one that it is forked from. */
long long moment_of_start(void);

#endif
