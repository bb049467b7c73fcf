/* Other processes, as /proc tells. */
#ifndef ACCEL_SHIM_PROCESS_H
#define ACCEL_SHIM_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#define PROCESS_TEXT_BYTES 1024

/* What /proc/PID/stat says behind the name, which may hold anything: a space, the state in one letter, the parent, and so on; within text. NULL: it is
   gone. By system calls of its own: hooks/files has rows for libc's. In signal handlers, too; errno may change. */
const char *process_look(pid_t pid, char text[PROCESS_TEXT_BYTES]);

/* Is the launcher whose socket has this name out of reach, however well it is: does this process have another network than that had, on the same machine? */
bool process_is_apart(const char *socket_name);

#endif
