#define _GNU_SOURCE
#include "sender.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process.h"

enum { GENERATIONS_MOST = 64, PARENT_AT = 3 /* behind " S " */ };

/* -1: it is gone. */
static pid_t parent_of(pid_t pid) {
    char text[PROCESS_TEXT_BYTES];
    const char *after = process_look(pid, text);
    return after && strlen(after) > PARENT_AT ? (pid_t)strtol(after + PARENT_AT, NULL, 10) : -1;
}

enum sender sender_look(pid_t pid, pid_t root) {
    for (int i = 0; i < GENERATIONS_MOST && pid > 1 && pid != root; i++)
        pid = parent_of(pid);
    return pid == root ? SENDER_OWN : pid == 0 || pid == 1 ? SENDER_OUTSIDE : SENDER_GONE;
}
