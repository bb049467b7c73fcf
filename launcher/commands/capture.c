#define _GNU_SOURCE
#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../clock.h"

enum { SLICE_MS = 100 }; /* a signal that comes just before poll is seen so late */

struct sink {
    int descriptor; /* -1: has ended */
    char *text;
    size_t used;
};

static int open_pipes(int pipes[2][2]) {
    if (pipe2(pipes[0], O_CLOEXEC))
        return -1;
    if (pipe2(pipes[1], O_CLOEXEC) == 0)
        return 0;
    close(pipes[0][0]);
    close(pipes[0][1]);
    return -1;
}

/* In a group of its own, so that what it starts can be ended with it; signals as at the start of a program. */
static int start(const struct capture_request *request, int pipes[2][2], pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipes[0][1], 1);
    posix_spawn_file_actions_adddup2(&actions, pipes[1][1], 2);
    if (request->folder)
        posix_spawn_file_actions_addchdir_np(&actions, request->folder);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawn(pid, request->path, &actions, &attributes, request->arguments, request->environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    errno = error;
    return error ? -1 : 0;
}

static void read_sink(struct sink *sink) {
    char dropped[4096];
    size_t room = CAPTURE_BYTES - 1 - sink->used;
    ssize_t n = read(sink->descriptor, room ? sink->text + sink->used : dropped, room ? room : sizeof dropped);
    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0) {
        close(sink->descriptor);
        sink->descriptor = -1;
    } else if (room) {
        sink->used += (size_t)n;
    }
}

static bool is_stopped(const volatile sig_atomic_t *stop) {
    return stop && *stop;
}

/* Until both streams have ended. Returns false when the deadline passed before. */
static bool read_all(struct sink sinks[2], uint64_t deadline_ms, const volatile sig_atomic_t *stop) {
    while (sinks[0].descriptor >= 0 || sinks[1].descriptor >= 0) {
        uint64_t now_ms = clock_ms();
        struct pollfd ready[2] = {{sinks[0].descriptor, POLLIN, 0}, {sinks[1].descriptor, POLLIN, 0}};
        if (is_stopped(stop) || now_ms >= deadline_ms || (poll(ready, 2, SLICE_MS) < 0 && errno != EINTR))
            return false;
        for (int i = 0; i < 2; i++)
            if (sinks[i].descriptor >= 0 && ready[i].revents > 0)
                read_sink(&sinks[i]);
    }
    return true;
}

/* A program may close its streams and stay: it is given until the deadline, too. */
static bool await_end(pid_t pid, uint64_t deadline_ms, int *status) {
    while (waitpid(pid, status, WNOHANG) != pid) {
        if (clock_ms() >= deadline_ms)
            return false;
        poll(NULL, 0, 2);
    }
    return true;
}

int capture_run(const struct capture_request *request, struct capture *capture) {
    int pipes[2][2], status = 0;
    pid_t pid;
    memset(capture, 0, sizeof *capture);
    signal(SIGCHLD, SIG_DFL); /* inherited SIG_IGN would reap for us */
    if (open_pipes(pipes))
        return -1;
    capture->has_started = start(request, pipes, &pid) == 0;
    close(pipes[0][1]);
    close(pipes[1][1]);
    struct sink sinks[2] = {{pipes[0][0], capture->out, 0}, {pipes[1][0], capture->errors, 0}};
    if (capture->has_started) {
        uint64_t deadline_ms = clock_ms() + request->milliseconds;
        capture->has_timed_out = !read_all(sinks, deadline_ms, request->stop) || !await_end(pid, deadline_ms, &status);
        if (capture->has_timed_out) {
            kill(-pid, SIGKILL);
            waitpid(pid, &status, 0);
        }
    }
    for (int i = 0; i < 2; i++)
        if (sinks[i].descriptor >= 0)
            close(sinks[i].descriptor);
    capture->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return capture->has_started && !capture->has_timed_out && capture->status == 0 ? 0 : -1;
}
