#define _GNU_SOURCE
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

enum spawn_stage { SPAWN_DESCRIPTORS = 1, SPAWN_BIND, SPAWN_EXEC };

struct spawn_record {
    int32_t stage, error;
};

struct spawn_pipes {
    int gate_read, gate_write, errors_read, errors_write;
};

static void __attribute__((noreturn)) spawn_fail(int errors, enum spawn_stage stage) {
    struct spawn_record record = {stage, errno};
    ssize_t written = write(errors, &record, sizeof record);
    _exit(written < 0 ? EXIT_LAUNCHER : EXIT_NOT_FOUND);
}

/* Descriptors 0, 1, 2. The launcher keeps its own three open (on /dev/null if need be), so sources are either 3 and more, or already in
 * place. */
static int spawn_descriptors(const struct spawn_request *request) {
    const int *descriptors = request->descriptors;
    for (int i = 0; i < 3; i++) {
        if (descriptors[i] < 0)
            close(i);
        else if (descriptors[i] != i && dup2(descriptors[i], i) < 0)
            return -1;
    }
    for (size_t i = 0; i < request->other_count; i++)
        if (dup2(request->others[i].from, request->others[i].to) < 0)
            close(request->others[i].to); /* a number above the limit of open files: rather closed than shared */
    return 0;
}

static void spawn_signals(const sigset_t *ignored) {
    struct sigaction action;
    sigset_t none;
    memset(&action, 0, sizeof action);
    for (int i = 1; i < NSIG; i++) {
        action.sa_handler = sigismember(ignored, i) == 1 ? SIG_IGN : SIG_DFL;
        sigaction(i, &action, NULL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Away from the user's terminal, which has the launcher's group in the foreground: a rank that opens /dev/tty (getpass, pagers) and reads would be stopped
   there by SIGTTIN, for ever, and nobody would say so. Without a terminal there is no /dev/tty, and who wants one takes standard input, which is a terminal of
   the rank's own where the launcher's is one. */
static void spawn_leave_terminal(void) {
    int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (terminal < 0)
        return;
    ioctl(terminal, TIOCNOTTY);
    close(terminal);
}

/* The window: see the rules in spawn.h. */
static void __attribute__((noreturn)) spawn_child(const struct spawn_request *request, const struct spawn_pipes *pipes, pid_t launcher) {
    char byte;
    setpgid(0, 0);
    /* The death signal is the launcher's: it is tied to the thread that forked, which is the launcher's only one, and lost if the launcher
       died before this line, hence the comparison (L7). */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != launcher)
        _exit(EXIT_LAUNCHER);
    close(pipes->gate_write);
    close(pipes->errors_read);
    ssize_t n;
    while ((n = read(pipes->gate_read, &byte, 1)) < 0 && errno == EINTR)
        ;
    if (n != 1) /* the launcher gave up */
        _exit(EXIT_LAUNCHER);
    if (spawn_descriptors(request))
        spawn_fail(pipes->errors_write, SPAWN_DESCRIPTORS);
    spawn_leave_terminal();
    setrlimit(RLIMIT_NOFILE, request->open_files);
    if (request->cpus && sched_setaffinity(0, sizeof *request->cpus, (const cpu_set_t *)(const void *)request->cpus))
        spawn_fail(pipes->errors_write, SPAWN_BIND);
    spawn_signals(request->ignored);
    execve(request->path, request->arguments, request->environment);
    spawn_fail(pipes->errors_write, SPAWN_EXEC);
}

static int spawn_pipes(struct spawn_pipes *pipes) {
    int gate[2], errors[2];
    if (pipe2(gate, O_CLOEXEC))
        return -1;
    if (pipe2(errors, O_CLOEXEC)) {
        close(gate[0]);
        close(gate[1]);
        return -1;
    }
    *pipes = (struct spawn_pipes){gate[0], gate[1], errors[0], errors[1]};
    return 0;
}

int spawn_rank(const struct spawn_request *request, struct spawned *spawned, struct problem *problem) {
    struct spawn_pipes pipes;
    pid_t launcher = getpid();
    if (spawn_pipes(&pipes))
        return problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "raise 'ulimit -n'", "cannot make pipes for a rank: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0)
        spawn_child(request, &pipes, launcher);
    close(pipes.gate_read);
    close(pipes.errors_write);
    if (pid < 0) {
        close(pipes.gate_write);
        close(pipes.errors_read);
        return problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "raise 'ulimit -u', or run fewer ranks", "cannot start a process: %s",
                           strerror(errno));
    }
    setpgid(pid, pid); /* in both parent and child: whoever is later finds it done (L5) */
    *spawned = (struct spawned){pid, pipes.gate_write, pipes.errors_read};
    return 0;
}

int spawn_exec_problem(int error, const char *path, struct problem *problem) {
    if (error == ENOENT)
        return problem_set(problem, EXIT_NOT_FOUND, "AR-EXEC-NOT-FOUND", "check the program and what its first line names", "'%s': %s",
                           path, strerror(error));
    return problem_set(problem, EXIT_NOT_EXECUTABLE, "AR-EXEC", "can the program be started without accel-run?", "cannot execute '%s': %s",
                       path, strerror(error));
}

static int spawn_words(const struct spawn_record *record, const char *path, struct problem *problem) {
    if (record->stage == SPAWN_EXEC)
        return spawn_exec_problem(record->error, path, problem);
    if (record->stage == SPAWN_BIND)
        return problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "run with --bind none", "cannot bind a rank to its processors: %s",
                           strerror(record->error));
    return problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "report this", "cannot connect a rank's input and output: %s",
                       strerror(record->error));
}

int spawn_release(struct spawned *spawned, struct problem *problem) {
    /* A byte, not an end of file: ranks forked later hold a copy of this gate until they exec. */
    ssize_t written = write(spawned->gate, "g", 1);
    close(spawned->gate);
    return written == 1 ? 0 : problem_set(problem, EXIT_LAUNCHER, "AR-SPAWN", "try again", "a rank died before it started");
}

int spawn_await(struct spawned *spawned, const char *path, struct problem *problem) {
    struct spawn_record record;
    ssize_t n;
    do
        n = read(spawned->errors, &record, sizeof record);
    while (n < 0 && errno == EINTR);
    close(spawned->errors);
    return n == (ssize_t)sizeof record ? spawn_words(&record, path, problem) : 0;
}
