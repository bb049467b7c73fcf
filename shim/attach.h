/*
 * Before the claim: which processes meet the other ranks' already (shim/meeting.h), so that what they do with files is done once.
 *
 * Python cannot be told from a tool until it imports torch, and a program that prepares data never does. It meets from the first file that it
 * changes. Not so what a rank or another Python program has started (a loader's worker, a tool that compiles): that works for its parent
 * alone, by its parent's clock; nor what flock(1) lets run on one rank at a time; nor a tool that has Python within (perf, gdb). Shells may stand
 * between it and the launcher.
 */
#ifndef ACCEL_SHIM_ATTACH_H
#define ACCEL_SHIM_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

/* True: this process meets; *program is the same for what is the same program in all ranks. Reads /proc. Keeps errno. */
bool attach_may(uint64_t *program);

#endif
