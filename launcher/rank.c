#include "rank.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool rank_is_asked_to_end(int signal) {
    return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

/* A stopped process does not hear that it should end: it is continued, as by a shell's kill and by systemd. */
int rank_signal(const struct rank *rank, int signal) {
    if (rank->pid <= 1) {
        errno = ESRCH;
        return -1;
    }
    int status = kill(-rank->pid, signal);
    if (!status && rank_is_asked_to_end(signal))
        kill(-rank->pid, SIGCONT);
    return status;
}

void rank_signal_first(const struct rank *rank, int signal) {
    if (rank->pid > 1 && !kill(rank->pid, signal) && rank_is_asked_to_end(signal))
        kill(-rank->pid, SIGCONT);
}

void rank_store_end(struct rank *rank) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    if (waitid(P_PID, (id_t)rank->pid, &info, WEXITED | WNOWAIT | WNOHANG) || info.si_pid != rank->pid)
        return;
    rank->has_ended = true;
    if (info.si_code == CLD_EXITED)
        rank->exit_code = info.si_status;
    else
        rank->signal = info.si_status;
    close(rank->pidfd);
    rank->pidfd = -1;
}
