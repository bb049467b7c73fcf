#define _GNU_SOURCE
#include "guard.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../config/board.h"
#include "../config/protocol.h"
#include "process.h"
#include "shared_names.h"

#define ENVIRONMENT_BYTES (1 << 20)
#define NAME "ranks-guard"    /* without the launcher's: it outlives 'pkill -9 accel-run', also with -f */
#define MOST_DESCRIPTORS 1024 /* of a process that has no limit of its own, where /proc does not list them */

/* Does the process carry NAME=value in its environment? */
static int carries(const char *pid, const char *variable, char *buffer) {
    char path[64];
    size_t length = strlen(variable) + 1; /* with its terminator */
    ssize_t count = 0, n;
    snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    while (count < ENVIRONMENT_BYTES && (n = read(fd, buffer + count, (size_t)(ENVIRONMENT_BYTES - count))) > 0)
        count += n;
    close(fd);
    return memmem(buffer, (size_t)count, variable, length) != NULL;
}

static void kill_carriers(const char *variable) {
    char *buffer = malloc(ENVIRONMENT_BYTES);
    DIR *processes = process_are_shown() ? opendir("/proc") : NULL;
    struct dirent *entry;
    while (buffer && processes && (entry = readdir(processes)))
        if (isdigit((unsigned char)entry->d_name[0]) && atoi(entry->d_name) != getpid() && carries(entry->d_name, variable, buffer))
            kill(atoi(entry->d_name), SIGKILL);
    if (processes)
        closedir(processes);
    free(buffer);
}

static void __attribute__((noreturn)) guard_run(int pipe, const char *name) {
    char variable[128];
    pid_t groups[BOARD_RANKS_MAX], group;
    int count = 0;
    ssize_t n;
    snprintf(variable, sizeof variable, PROTOCOL_ENV_SOCKET "=%s", name);
    while ((n = read(pipe, &group, sizeof group)) == (ssize_t)sizeof group || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        if (group == 0) { /* farewell */
            shared_names_remove(name);
            _exit(0);
        }
        if (count < BOARD_RANKS_MAX && group > 1)
            groups[count++] = group;
    }
    for (int i = 0; i < count; i++)
        kill(-groups[i], SIGKILL);
    kill_carriers(variable);
    shared_names_remove(name);
    _exit(0);
}

/* All but descriptor 0. Linux before 5.9, and some sandboxes, have no close_range. */
static void close_others(void) {
    if (!close_range(1, ~0u, 0))
        return;
    DIR *descriptors = opendir("/proc/self/fd");
    struct dirent *entry;
    while (descriptors && (entry = readdir(descriptors)))
        if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != dirfd(descriptors))
            close(atoi(entry->d_name));
    for (int i = 1; !descriptors && i < MOST_DESCRIPTORS; i++)
        close(i);
    if (descriptors)
        closedir(descriptors);
}

int guard_start(struct guard *guard, const char *name) {
    int ends[2];
    sigset_t all;
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    guard->pid = fork();
    if (guard->pid == 0) {
        /* Nothing may hit it, and it may hold nothing open that others wait to see closed. */
        setpgid(0, 0);
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        prctl(PR_SET_NAME, NAME);
        strncpy(program_invocation_name, NAME, strlen(program_invocation_name));
        close(ends[1]); /* the pipe ends when nobody can write into it: never, if this process could */
        dup2(ends[0], 0);
        close_others();
        guard_run(0, name);
    }
    close(ends[0]);
    if (guard->pid < 0) {
        close(ends[1]);
        return -1;
    }
    guard->pipe = ends[1];
    return 0;
}

void guard_add(struct guard *guard, pid_t group) {
    ssize_t written = write(guard->pipe, &group, sizeof group);
    (void)written; /* a guard that is gone cannot be told */
}

void guard_stop(struct guard *guard) {
    if (guard->pid <= 0)
        return;
    guard_add(guard, 0);
    close(guard->pipe);
    kill(guard->pid, SIGCONT); /* somebody may have stopped it: no signal would end that wait */
    waitpid(guard->pid, NULL, 0);
    guard->pid = 0;
}
