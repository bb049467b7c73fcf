/* Numbers that the program has computed, and that meet divided values: are they the same on all ranks? (numbers.c) */
#ifndef ACCEL_SHIM_TORCH_NUMBERS_H
#define ACCEL_SHIM_TORCH_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "types.h"

/* The self-check is over: numbers are the program's from now on. */
void numbers_begin(void);
/* Notes a number. Any thread; those of the program's main thread count. */
void numbers_meet(double number);
/* The same of a tensor of fractions on the host, which need not be dense; of others nothing is noted. */
void numbers_meet_tensor(struct tensor *tensor);
/* Of all since the last call, on the main thread; 0 on others. */
uint64_t numbers_take(void);
/* The ranks' parameters were seen to differ by rounding. On all ranks at one point of the program. */
void numbers_round_apart(void);
/* May equal computations have other last digits on another rank? Then bits of what was computed are not compared. Any thread; others
   than the main one know of several hosts only. */
bool numbers_may_be_apart(void);
/* Are words of two ranks further from each other than rounding makes them? */
bool numbers_are_far(uint64_t one, uint64_t other);

#endif
