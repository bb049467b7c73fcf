/*
 * What the program sends to itself: its handler runs before the call returns, at the same place on all ranks.
 */
#ifndef ACCEL_SHIM_SENT_H
#define ACCEL_SHIM_SENT_H

#include <stdbool.h>
#include <stdint.h>

/* Is this thread sending a signal to itself, or to this process? */
bool sent_is_own(void);
/* A handler runs, in which nothing has been sent yet; the result is for its end. One that jumps out of itself leaves nothing behind. */
uint8_t sent_begin(void);
void sent_end(uint8_t outer);

#endif
