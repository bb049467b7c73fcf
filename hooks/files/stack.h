/*
 * Rows of files are called where there are a few KiB of stack, too: in a handler on an alternate stack, by threads that were given little. What a process that
 * is no rank does with files needs no room for names, nor does a rank that reads a file of no concern.
 */
#ifndef ACCEL_HOOKS_FILES_STACK_H
#define ACCEL_HOOKS_FILES_STACK_H

#include <limits.h>

/* Room for a name, in the frame of who calls, and only when it is come to. */
#define FILES_ROOM ((char *)__builtin_alloca(PATH_MAX))
/* A function with such a frame, which a row comes to where it must: not a part of the row. */
#define FILES_DEEP __attribute__((noinline))

#endif
