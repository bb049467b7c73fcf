/*
 * Whether a stream of rank 0's that has ended holds all that it would have said there.
 */
#ifndef ACCEL_RUN_KNOWN_H
#define ACCEL_RUN_KNOWN_H

#include "streams.h"

/* Of one that has ended. */
enum output_hold known_hold(const struct streams *streams, int which, uint64_t now_ms);
/* Once known it stays so: what ends rank 0 later has not cut this stream short. Ends the streams of others that have ended before. */
void known_settle(struct streams *streams, int which, uint64_t now_ms);
/* Is there one of which it is not known? */
bool known_is_open(const struct streams *streams);

#endif
