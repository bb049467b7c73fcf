// sources: launcher/strays.c launcher/process.c launcher/rank.c launcher/program/interpret.c
/*
 * Processes that outlive their rank, on kernels that do not list a process's children.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <fcntl.h>
#include <signal.h>

#include "../../launcher/strays.h"

static const char *hidden = "no file";

/* In the place of libc's. */
FILE *fopen(const char *path, const char *mode) {
    int descriptor = strstr(path, hidden) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    return descriptor < 0 ? NULL : fdopen(descriptor, mode);
}

static pid_t start_child(void) {
    pid_t pid = fork();
    if (!pid)
        for (;;)
            pause();
    return pid;
}

static void expect_found(void) {
    struct rank rank = {.pid = start_child()};
    struct strays strays = {.ranks = &rank, .world_size = 1, .guard = start_child()};
    EXPECT(strays_reap(&strays) == 0);
    start_child();
    pid_t second = start_child();
    EXPECT(strays_reap(&strays) == 2);
    kill(second, SIGKILL);
    waitid(P_PID, (id_t)second, &(siginfo_t){0}, WEXITED | WNOWAIT);
    EXPECT(strays_reap(&strays) == 1 && waitpid(second, NULL, 0) < 0);
    strays_signal(&strays, SIGKILL);
    kill(rank.pid, SIGKILL);
    kill(strays.guard, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    EXPECT(strays_reap(&strays) == 0);
}

TEST("children that are neither ranks nor the guard are found and reaped") {
    expect_found();
}

TEST("... also where the kernel does not list a process's children") {
    hidden = "/children";
    expect_found();
}
