/* The unwinder that the process has, where it has one. */
#ifndef ACCEL_SHIM_UNWIND_H
#define ACCEL_SHIM_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/* Gives each place of this thread's stack in code, from the caller's caller outwards, until visit returns false. None where there is no unwinder. */
void unwind_walk(bool (*visit)(uintptr_t code, void *context), void *context);

#endif
