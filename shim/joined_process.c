/* Is a process still the one that it was? */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "joined.h"
#include "process.h"

/* Not where /proc belongs to another pid namespace: under a number it has another process. */
static bool are_shown(void) {
    char self[32] = "";
    return syscall(SYS_readlinkat, AT_FDCWD, "/proc/self", self, sizeof self - 1) > 0 && atoi(self) == getpid();
}

/* Clock ticks since boot at which the process was started, and its state. 0: it is not seen, *state is 0: it is gone, or of another user whom /proc hides
   (hidepid), or this process has no descriptor left. */
static uint64_t look(int32_t pid, char *state) {
    char text[PROCESS_TEXT_BYTES];
    unsigned long long ticks = 0;
    *state = 0;
    const char *after = are_shown() ? process_look(pid, text) : NULL;
    if (!after || sscanf(after, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", state, &ticks) != 2)
        *state = 0;
    return *state ? ticks : 0;
}

uint64_t joined_process_self(void) {
    char state;
    return join_process(getpid(), look(getpid(), &state));
}

static char state_of(uint64_t process) {
    char state;
    uint32_t started = (uint32_t)process; /* 0: who has noted it did not see */
    uint64_t ticks = look(join_pid(process), &state);
    if (!state)
        return kill(join_pid(process), 0) && errno == ESRCH ? 0 : JOINED_UNSEEN;
    return state == 'Z' || state == 'X' || (started && started != (uint32_t)ticks) ? 0 : state;
}

char joined_process_state(uint64_t process) {
    int saved_errno = errno;
    char state = join_pid(process) > 0 ? state_of(process) : 0;
    errno = saved_errno;
    return state;
}

bool joined_process_is_alive(uint64_t process) {
    return joined_process_state(process) != 0;
}
