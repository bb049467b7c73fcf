#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "clock.h"
#include "job.h"
#include "strays.h"

enum { TWICE_MS = 100 };

/* All that a program may have a handler for, which somebody sends it by its number; and those of real time. */
static const int handled[] = {SIGINT,  SIGTERM,   SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU,  SIGALRM,
                              SIGPROF, SIGVTALRM, SIGPWR, SIGIO,   SIGTSTP, SIGCONT, SIGWINCH, SIGCHLD};

/* nohup ignores SIGHUP, a shell's "&" ignores SIGINT and SIGQUIT, a script what its scheduler warns it by: the program alone would inherit that, so the ranks
   do, and so do we. But for SIGCHLD, without which nobody could wait for a child. */
static void find_ignored(sigset_t *ignored) {
    struct sigaction action;
    sigemptyset(ignored);
    for (int signal = 1; signal < NSIG; signal++)
        if (signal != SIGCHLD && sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            sigaddset(ignored, signal);
}

/* What is ignored stays so. */
static void handle_ending(void (*handler)(int)) {
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action;
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (sigaction(ending[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            signal(ending[i], handler);
}

void signals_end_process_1(void (*end)(int)) {
    if (getpid() == 1)
        handle_ending(end);
}

int signals_open(struct job *job) {
    sigset_t set;
    find_ignored(&job->ignored);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(handled) / sizeof(*handled); i++)
        if (sigismember(&job->ignored, handled[i]) == 0)
            sigaddset(&set, handled[i]);
    for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++)
        if (sigismember(&job->ignored, signal) == 0)
            sigaddset(&set, signal);
    signal(SIGCHLD, SIG_DFL); /* inherited SIG_IGN would reap for us */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error of the call that meets it, which says what it means */
    signal(SIGTTOU, SIG_IGN); /* messages from the background (L11) */
    sigprocmask(SIG_SETMASK, &set, NULL);
    handle_ending(SIG_DFL);
    job->signal_descriptor = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return job->signal_descriptor < 0 ? -1 : 0;
}

void signals_send(struct job *job, int signal) {
    for (uint32_t i = 0; i < job->local_size; i++)
        rank_signal(&job->ranks[i], signal);
}

/* One that somebody sends to the program by its number comes to no other process: a loader's worker would die of what the program has a handler for. So it
   goes to each rank's first process, which would be the program, and to the one behind scripts that trains. */
static void signal_programs(struct job *job, int signal) {
    for (uint32_t i = 0; i < job->local_size; i++)
        rank_signal_first(&job->ranks[i], signal);
    claims_signal_others(&job->claims, signal);
}

/* The terminal's go to all, as it sends them itself to all that is in the foreground. */
static void pass_on(struct job *job, int signal, bool is_of_process) {
    if (is_of_process)
        signal_programs(job, signal);
    else
        signals_send(job, signal);
}

/* The program has handled what was sent then, and trains on. One rank, which is the plain program, shows no steps. */
static bool has_gone_on(const struct job *job, uint64_t now_ms, uint64_t since_ms, bool has_progress) {
    return job->state == LIFECYCLE_INTERRUPTED && now_ms - since_ms >= job->config->grace_ms && (job->world_size == 1 || has_progress);
}

bool signals_ask_to_end(struct job *job, uint64_t now_ms) {
    if (job->state == LIFECYCLE_RUNNING)
        return false;
    if (!has_gone_on(job, now_ms, job->requested_ms, true)) /* however far the ranks are, which takes a look at each */
        return true;
    return !has_gone_on(job, now_ms, job->requested_ms, board_progress(job) > job->requested_at);
}

static void ask_to_end(struct job *job, int requests) {
    job->requests_to_end += requests;
    if (job->state > LIFECYCLE_INTERRUPTED)
        return;
    job->requested_ms = job_clock_ms(job);
    job->requested_at = board_progress(job);
}

/* Ranks are in groups of their own, so the terminal's Ctrl-C comes to us alone: each gets it once (L10). The impatient press again (L14).
 */
static void interrupt(struct job *job, bool ranks_have_it) {
    static const enum lifecycle_event events[] = {LIFECYCLE_INTERRUPT, LIFECYCLE_INTERRUPT_2, LIFECYCLE_INTERRUPT_3};
    uint64_t now_ms = job_clock_ms(job), progress = job->state <= LIFECYCLE_INTERRUPTED ? board_progress(job) : 0;
    /* Another one, hours later, is not the impatience of who waits for it to end. */
    if (job->interrupts && has_gone_on(job, now_ms, job->interrupted_ms, progress > job->interrupted_at))
        job->interrupts = 0;
    job->interrupted_ms = now_ms;
    job->interrupted_at = progress;
    int count = job->interrupts < 2 ? job->interrupts : 2;
    job->interrupts++;
    ask_to_end(job, 1);
    job->user_signal = SIGINT;
    if (count == 0 && !ranks_have_it)
        signals_send(job, SIGINT);
    supervise_event(job, events[count]);
}

static void go_on(struct job *job) {
    signals_send(job, SIGCONT);
    together_resume(job);
    board_forget_clocks(job);
}

/* The groups of the ranks are orphaned in the terminal's eyes: SIGTSTP would not stop them (L13). Us it stops as it stops the program alone: not where our own
   group is orphaned, or we are process 1, and nobody would ever let us go on. */
static void stop_everything(struct job *job) {
    sigset_t stop;
    uint64_t begin_ms = clock_ms();
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    together_pause(job);
    signals_send(job, SIGSTOP);
    kill(getpid(), SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    job->paused_ms += clock_ms() - begin_ms;
    go_on(job);
}

static void window_changed(struct job *job) {
    for (uint32_t i = 0; i < 2 * job->local_size; i++)
        if (job->streams.list[i].source >= 0)
            console_copy_size(&job->console, job->streams.list[i].source);
    input_copy_size(&job->input);
    signals_send(job, SIGWINCH);
}

/* What a user or a scheduler says to the program: it goes to the ranks of all hosts. Not what is about this process or its terminal. */
static bool is_message(int signal) {
    for (size_t i = 0; i < sizeof(handled) / sizeof(*handled); i++)
        if (handled[i] == signal)
            return signal != SIGTSTP && signal != SIGCONT && signal != SIGWINCH && signal != SIGCHLD;
    return signal >= SIGRTMIN && signal <= SIGRTMAX;
}

static void handle(struct job *job, int signal, bool is_of_process, bool ranks_have_it) {
    switch (signal) {
    case SIGINT:
        interrupt(job, ranks_have_it);
        break;
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT:
        job->user_signal = signal;
        ask_to_end(job, 2);
        if (!ranks_have_it)
            pass_on(job, signal, is_of_process);
        supervise_event(job, LIFECYCLE_INTERRUPT);
        break;
    case SIGTSTP:
        stop_everything(job);
        break;
    case SIGCONT:
        go_on(job);
        break;
    case SIGWINCH:
        window_changed(job);
        break;
    case SIGCHLD:
        strays_reap(&job->strays);
        break;
    default: /* no terminal sends these */
        if (!ranks_have_it)
            signal_programs(job, signal);
    }
}

/* timeout(1) sends its signal to its child, then to the group that this is in. */
static bool is_said_twice(struct job *job, const struct signalfd_siginfo *info) {
    struct asked before = job->asked, now = {(int)info->ssi_signo, info->ssi_pid, clock_ms()};
    if (now.signal == SIGINT || !rank_is_asked_to_end(now.signal)) /* Ctrl-C again is another wish */
        return false;
    job->asked = now;
    return now.pid && now.pid == before.pid && now.signal == before.signal && now.when_ms - before.when_ms < TWICE_MS;
}

/* Of a user, to this accel-run. */
static void take(struct job *job, int signal, bool is_of_process) {
    enum heard_as as = HEARD_NEW;
    if (is_message(signal)) {
        as = heard_take(&job->heard[signal], HEARD_HOST, job->hosts ? job->hosts->host : 0, clock_ms());
        together_signal(job, signal, false);
    }
    if (as != HEARD_BEFORE)
        handle(job, signal, is_of_process, as == HEARD_BY_RANKS);
}

static void signals_ready(void *context, size_t index, short events) {
    struct job *job = context;
    struct signalfd_siginfo info;
    while (read(job->signal_descriptor, &info, sizeof info) == (ssize_t)sizeof info)
        if (!is_said_twice(job, &info))
            take(job, (int)info.ssi_signo, info.ssi_code <= 0); /* above: of the kernel, for the terminal */
}

static bool is_ignored(const struct job *job, int signal) {
    return sigismember(&job->ignored, signal) == 1;
}

bool signals_of_host(struct job *job, uint32_t host, int signal) {
    if (!is_message(signal))
        return false;
    enum heard_as as = heard_take(&job->heard[signal], HEARD_HOST, host, clock_ms());
    if (as != HEARD_BEFORE && !is_ignored(job, signal))
        handle(job, signal, true, as == HEARD_BY_RANKS);
    return as != HEARD_BEFORE;
}

void signals_of_rank(struct job *job, uint32_t rank, bool is_granted, int signal) {
    if (!is_message(signal) || heard_take(&job->heard[signal], HEARD_RANK, rank, clock_ms()) != HEARD_NEW)
        return;
    claims_signal(&job->claims, (int)rank, is_granted, signal);
    together_signal(job, signal, true);
}

void signals_of_ranks(struct job *job, uint32_t host, int signal) {
    if (is_message(signal) && heard_take(&job->heard[signal], HEARD_RANKS_OF, host, clock_ms()) == HEARD_NEW)
        claims_signal(&job->claims, -1, true, signal);
}

void signals_add(struct job *job) {
    loop_add(&job->loop, job->signal_descriptor, POLLIN, signals_ready, job, 0);
}
