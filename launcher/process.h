/* Other processes, as /proc tells. */
#ifndef ACCEL_RUN_PROCESS_H
#define ACCEL_RUN_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Does /proc show the processes as we number them? That of another name space shows others under their numbers. */
bool process_are_shown(void);
/* Clock ticks since boot at which the process was started, 0: it is gone, or /proc does not tell. *parent and *state, one letter: as in /proc/PID/stat, or 0;
   NULL: not asked for. */
uint64_t process_started(pid_t pid, pid_t *parent, char *state);
/* A second ago, as process_started() counts: what was begun as something ended, of which we have just heard, counts as behind it. */
uint64_t process_a_moment_ago(void);
/* The state of the process that was started then, 'Z': it waits for its parent alone; 0: it is gone, whoever has its number now. started 0: as far as the
   number tells. */
char process_state(pid_t pid, uint64_t started);
/* Is it about to be a zombie, or one that nobody has reaped? Its files are closed before it is, and a device may take its time for that. */
bool process_is_exiting(pid_t pid);

#endif
