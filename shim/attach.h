/*
 * Before the claim: which processes meet the other ranks' already (shim/meeting.h), so that what they do with files is done once.
 *
 * Python cannot be told from a tool until it imports torch, and a program that prepares data never does. A rank's first process, that which accel-run has
 * started, is the program: it meets from the first file that it changes, and at the latest when it claims. Not so what a shell between, or the program itself,
 * starts: a script makes folders, takes locks and looks at files between its programs, once for each rank, which must find there what its own have done.
 */
#ifndef ACCEL_SHIM_ATTACH_H
#define ACCEL_SHIM_ATTACH_H

#include <stdbool.h>

/* Is this process one? The same answer on all ranks. Keeps errno. */
bool attach_may(void);

#endif
