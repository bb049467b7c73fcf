/*
 * Descriptors of ours in somebody else's process. A program may close every descriptor it finds, and open others under the same numbers: before one is used or
 * closed, it is checked to be still ours.
 */
#ifndef ACCEL_SHIM_COMM_OWN_H
#define ACCEL_SHIM_COMM_OWN_H

#include <stdbool.h>
#include <sys/types.h>

/* A descriptor of ours, and the file that was behind it when it was opened. */
struct own_descriptor {
    int number; /* -1: none */
    dev_t device;
    ino_t file;
};

#define OWN_NONE ((struct own_descriptor){-1, 0, 0})

/* Takes the descriptor over, moved out of the way of programs that count descriptors. */
struct own_descriptor own_take(int low);
bool own_is_there(const struct own_descriptor *own);
void own_close(struct own_descriptor *own);

#endif
