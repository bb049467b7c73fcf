/* Other processes, as /proc tells. */
#ifndef ACCEL_RUN_PROCESS_H
#define ACCEL_RUN_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/* Clock ticks since boot at which the process was started, 0: it is gone, or /proc does not tell. *parent and *state, one letter: as in /proc/PID/stat, or 0;
   NULL: not asked for. */
uint64_t process_started(pid_t pid, pid_t *parent, char *state);

#endif
