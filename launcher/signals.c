#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "job.h"
#include "strays.h"

static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGCHLD};

/* nohup ignores SIGHUP, a shell's "&" ignores SIGINT and SIGQUIT: the program alone would inherit that, so the ranks do, and so do we. */
static void find_ignored(sigset_t *ignored) {
    static const int kept[] = {SIGHUP, SIGINT, SIGQUIT};
    struct sigaction action;
    sigemptyset(ignored);
    for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
        if (sigaction(kept[i], NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            sigaddset(ignored, kept[i]);
}

int signals_open(struct job *job) {
    sigset_t set;
    find_ignored(&job->ignored);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(handled) / sizeof(*handled); i++)
        if (sigismember(&job->ignored, handled[i]) == 0)
            sigaddset(&set, handled[i]);
    signal(SIGCHLD, SIG_DFL); /* inherited SIG_IGN would reap for us */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error of the call that meets it, which says what it means */
    signal(SIGTTOU, SIG_IGN); /* messages from the background (L11) */
    sigprocmask(SIG_SETMASK, &set, NULL);
    job->signal_descriptor = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return job->signal_descriptor < 0 ? -1 : 0;
}

static void signal_all(struct job *job, int signal) {
    for (uint32_t i = 0; i < job->local_size; i++)
        rank_signal(&job->ranks[i], signal);
}

/* Ranks are in groups of their own, so the terminal's Ctrl-C comes to us alone: each gets it once (L10). The impatient press again (L14).
 */
static void interrupt(struct job *job) {
    static const enum lifecycle_event events[] = {LIFECYCLE_INTERRUPT, LIFECYCLE_INTERRUPT_2, LIFECYCLE_INTERRUPT_3};
    int count = job->interrupts < 2 ? job->interrupts : 2;
    job->interrupts++;
    job->requests_to_end++;
    job->user_signal = SIGINT;
    if (count == 0)
        signal_all(job, SIGINT);
    supervise_event(job, events[count]);
}

/* The groups of the ranks are orphaned in the terminal's eyes: SIGTSTP would not stop them (L13). */
static void stop_everything(struct job *job) {
    together_pause(job);
    signal_all(job, SIGSTOP);
    kill(getpid(), SIGSTOP);
}

static void window_changed(struct job *job) {
    for (uint32_t i = 0; i < 2 * job->local_size; i++)
        if (job->streams.list[i].source >= 0)
            console_copy_size(&job->console, job->streams.list[i].source);
    input_copy_size(&job->input);
    signal_all(job, SIGWINCH);
}

static void reap_orphans(struct job *job) {
    struct strays strays = {job->ranks, job->local_size, job->guard.pid};
    strays_reap(&strays);
}

static bool asks_to_end(int signal) {
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

static void handle(struct job *job, int signal) {
    switch (signal) {
    case SIGINT:
        interrupt(job);
        break;
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT:
        job->user_signal = signal;
        job->requests_to_end += 2;
        signal_all(job, signal);
        supervise_event(job, LIFECYCLE_INTERRUPT);
        break;
    case SIGTSTP:
        stop_everything(job);
        break;
    case SIGCONT:
        signal_all(job, SIGCONT);
        together_resume(job);
        board_forget_clocks(job);
        break;
    case SIGWINCH:
        window_changed(job);
        break;
    case SIGCHLD:
        reap_orphans(job);
        break;
    default:
        signal_all(job, signal);
    }
}

static void signals_ready(void *context, size_t index, short events) {
    struct job *job = context;
    struct signalfd_siginfo info;
    while (read(job->signal_descriptor, &info, sizeof info) == (ssize_t)sizeof info) {
        if (asks_to_end((int)info.ssi_signo))
            together_signal(job, (int)info.ssi_signo);
        handle(job, (int)info.ssi_signo);
    }
}

void signals_relayed(struct job *job, int signal) {
    if (sigismember(&job->ignored, signal) == 0)
        handle(job, signal);
}

void signals_add(struct job *job) {
    loop_add(&job->loop, job->signal_descriptor, POLLIN, signals_ready, job, 0);
}
