/* Who has sent a signal. */
#ifndef ACCEL_SHIM_SENDER_H
#define ACCEL_SHIM_SENDER_H

#include <stdbool.h>
#include <sys/types.h>

/* Is it a process that this one has not started, neither directly nor by another? Each rank has its own of those. True for one of another name space (0),
   false for one that is gone: a child that was waited for may have been it. In signal handlers, too; errno may change. */
bool sender_is_outside(pid_t pid);

#endif
