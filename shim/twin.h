/*
 * One signal that comes more than once. Pure.
 */
#ifndef ACCEL_SHIM_TWIN_H
#define ACCEL_SHIM_TWIN_H

#include <stdbool.h>
#include <stdint.h>

/* What has come of one number, beginning with zeros. */
struct twin {
    bool is_known[2]; /* the last event: from somebody; from the launcher */
    int64_t first_ms;
    int32_t sender; /* who that somebody was */
    int64_t sent_ms;
};

struct twin_arrival {
    bool is_of_launcher;
    int32_t sender; /* the other process that has sent it; 0: nobody else, or not known */
    int64_t now_ms;
    bool is_once; /* twice at once by one sender is one */
};

/* Is this the other copy of one that has come a moment ago? Notes it. */
bool twin_take(struct twin *twin, const struct twin_arrival *arrival);

#endif
