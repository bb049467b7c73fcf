// sources: launcher/guard.c launcher/process.c launcher/shared_names.c launcher/tree.c
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "../../launcher/guard.h"

/* As kernels are that do not know the call. */
static int take_away(int call) {
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
}

/* Has nobody the other end open any more? A guard that keeps it is killed: it would keep this test's output, too. */
static void expect_closed(int end, pid_t guard) {
    char byte;
    bool is_closed = poll(&(struct pollfd){end, POLLIN, 0}, 1, 5000) == 1 && read(end, &byte, 1) == 0;
    EXPECT(is_closed);
    if (!is_closed)
        kill(guard, SIGKILL);
}

/* A launcher is killed: does its guard, which becomes our child then, end by itself? */
static void expect_end(void) {
    struct guard guard = {0};
    int ends[2], status;
    EXPECT(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 && pipe(ends) == 0);
    pid_t launcher = fork();
    if (launcher == 0) {
        guard_start(&guard, "guard-test");
        EXPECT(write(ends[1], &guard.pid, sizeof guard.pid) == sizeof guard.pid);
        raise(SIGKILL);
    }
    close(ends[1]);
    EXPECT(read(ends[0], &guard.pid, sizeof guard.pid) == sizeof guard.pid);
    EXPECT(waitpid(launcher, &status, 0) == launcher && WIFSIGNALED(status));
    expect_closed(ends[0], guard.pid);
    EXPECT(waitpid(guard.pid, &status, 0) == guard.pid && WIFEXITED(status));
}

TEST("the guard of a launcher that was killed ends") {
    expect_end();
}

TEST("... also where there is no close_range") {
    EXPECT(take_away(SYS_close_range) == 0);
    expect_end();
}

TEST("... and what somebody waits to see closed it has not open while the launcher lives") {
    struct guard guard;
    int ends[2];
    EXPECT(take_away(SYS_close_range) == 0);
    EXPECT(pipe(ends) == 0 && guard_start(&guard, "guard-test") == 0);
    close(ends[1]);
    expect_closed(ends[0], guard.pid);
    guard_stop(&guard);
}

TEST("a guard that somebody has stopped is no one to wait for") {
    struct guard guard = {0};
    siginfo_t info;
    EXPECT(guard_start(&guard, "guard-test") == 0);
    EXPECT(kill(guard.pid, SIGSTOP) == 0 && waitid(P_PID, (id_t)guard.pid, &info, WSTOPPED | WNOWAIT) == 0);
    guard_stop(&guard);
    EXPECT(guard.pid == 0);
}
