/* Who has sent a signal. */
#ifndef ACCEL_SHIM_SENDER_H
#define ACCEL_SHIM_SENDER_H

#include <sys/types.h>

enum sender { SENDER_OWN, SENDER_OUTSIDE, SENDER_GONE };

/* Is it root, or a process that root has started, directly or by another? Each rank has its own of those. One of another name space (0) is outside; one that is
   gone may have been either: a child that was waited for, pkill. In signal handlers, too; errno may change. */
enum sender sender_look(pid_t pid, pid_t root);

#endif
