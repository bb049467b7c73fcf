/* Is a process still the one that it was? */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "joined.h"
#include "process.h"

/* Clock ticks since boot at which the process was started, and its state; 0: it is gone, or a zombie. */
static uint64_t look(int32_t pid, char *state) {
    char text[PROCESS_TEXT_BYTES];
    unsigned long long ticks = 0;
    const char *after = process_look(pid, text);
    if (!after || sscanf(after, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", state, &ticks) != 2)
        return 0;
    return *state == 'Z' || *state == 'X' ? 0 : ticks;
}

uint64_t joined_process_self(void) {
    char state;
    return join_process(getpid(), look(getpid(), &state));
}

char joined_process_state(uint64_t process) {
    int saved_errno = errno;
    char state = 0;
    uint64_t ticks = look(join_pid(process), &state);
    errno = saved_errno;
    return ticks && (uint32_t)ticks == (uint32_t)process ? state : 0;
}

bool joined_process_is_alive(uint64_t process) {
    return joined_process_state(process) != 0;
}
