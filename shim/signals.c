/*
 * The program's handlers of signals run on all ranks at the same place of the program: a rank that is told to save and end (KeyboardInterrupt, SIGTERM of a
 * job scheduler) at another step than the others would save something else, or wait for ranks that are gone.
 *
 * A signal that comes is kept, and the ranks tell each other so with their next collective. When all have it, each runs its handler where it comes back to
 * the program from that collective. In Python the handler's function runs, and KeyboardInterrupt is raised, before the next instruction.
 *
 * Rules
 *  - In Python it is the main thread that is to meet the others: between another thread's collectives it is at any place. Where it does not, waiting for such a
 *    thread, the kernel wakes it when patience ends.
 *  - Where the program has blocked the signal on the thread that meets the others, the handler runs on the one to which it came, and the first goes on when it
 *    has run. What that other thread waits in (sigsuspend, pause) returns behind the handler in any case.
 *  - A signal is kept only while the next collective is near, at the pace of the last ones, and never longer: then the handler runs wherever the rank is, as
 *    it does before training, in other processes, and when the signal comes a second time.
 *  - What somebody outside the job sends to one rank alone (kill, with the number that the program has printed or written into a file) goes to all: the rank
 *    tells the launcher, which passes it on as it passes on its own.
 *  - What somebody sends to every process of the job (pkill, scancel --full) comes to a rank twice, from him and from the launcher, which passes its own on:
 *    that is one signal. So is what one sender sends twice at once (timeout, to its child and to the group).
 *  - What a thread sends to itself (raise) comes at once, at the same place on all ranks.
 *  - An alarm that is kept comes at the main thread's next rest at the latest, and is gone when the program sets its timer anew (alarms.c).
 *  - In a rank's forked worker Ctrl-C waits for the rank's own handler (signals_worker.h).
 *  - What the program has not asked for is left alone: no handler, no change.
 *  - The program is shown the handlers that it has set.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "link.h"
#include "python.h"
#include "sender.h"
#include "sent.h"
#include "shim.h"
#include "signals.h"
#include "signals_worker.h"
#include "twin.h"

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static struct handled {
    struct sigaction action; /* the program's */
    _Atomic bool is_ours;    /* the kernel knows arrive() in its place */
    _Atomic bool is_kept;    /* has come, and its handler has not run */
    bool is_of_main;         /* the handler is Python's, which leaves a mark for the main thread */
    siginfo_t info;          /* of that */
    _Atomic pid_t thread;    /* it came to this one */
    _Atomic int passed;      /* to that thread: enum passed */
    _Atomic bool is_marked;  /* a mark is on its way: pass_mark() */
    struct twin twin;
    bool has_timer, timer_is_of_main;
    timer_t timer; /* for the end of patience: sends the same signal */
} handled[NUMBERS];

static struct handled *handled_find(int number) {
    for (int i = 0; i < NUMBERS; i++)
        if (numbers[i] == number)
            return &handled[i];
    return NULL;
}

static bool is_handler(const struct sigaction *action) {
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN && action->sa_handler != SIG_ERR;
}

/* What is no handler must not get our marks: the process would end. A signal that is ignored is taken back. */
static void unmark(int number, struct handled *signal) {
    if (atomic_exchange(&signal->is_marked, false))
        ORIGINAL(sigaction)(number, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

static void forget_once(int number, struct handled *signal) {
    struct sigaction none = {.sa_handler = SIG_DFL};
    if (!(signal->action.sa_flags & (int)SA_RESETHAND))
        return;
    unmark(number, signal);
    atomic_store(&signal->is_ours, false);
    ORIGINAL(sigaction)(number, &none, NULL);
}

static _Atomic unsigned handlers_run;
static _Thread_local uint8_t are_handled; /* handlers that this thread is in, or has jumped out of */

unsigned signals_handled(void) {
    return atomic_load(&handlers_run);
}

static void run_handler(int number, struct handled *signal, siginfo_t *info, void *context) {
    struct sigaction action = signal->action;
    atomic_fetch_add(&handlers_run, 1);
    if (number == SIGINT)
        signals_worker_note_run();
    forget_once(number, signal);
    are_handled++;
    if (action.sa_flags & SA_SIGINFO)
        action.sa_sigaction(number, info, context);
    else
        action.sa_handler(number);
    are_handled--;
}

static pid_t own_thread(void) {
    return (pid_t)syscall(SYS_gettid);
}

/* Linux 6.4 and later give a timer's signal to whichever thread runs: the main thread, to which it came, would go on waiting for a lock, or in pause(). Another
   thread may have ended by then. */
static bool timer_start(struct handled *signal, int number, uint64_t after_ns) {
    bool is_of_main = atomic_load(&signal->thread) == getpid();
    struct sigevent event = {
        .sigev_notify = is_of_main ? SIGEV_THREAD_ID : SIGEV_SIGNAL, .sigev_signo = number, .sigev_value.sival_ptr = signal};
    event._sigev_un._tid = getpid();
    struct itimerspec time = {.it_value = {.tv_sec = (time_t)(after_ns / 1000000000), .tv_nsec = (long)(after_ns % 1000000000)}};
    if (signal->has_timer && signal->timer_is_of_main != is_of_main)
        signal->has_timer = timer_delete(signal->timer) != 0;
    if (!signal->has_timer) {
        signal->has_timer = !timer_create(CLOCK_MONOTONIC, &event, &signal->timer);
        signal->timer_is_of_main = is_of_main;
    }
    return signal->has_timer && !timer_settime(signal->timer, 0, &time, NULL);
}

/* A signal is run once. What a forked child has inherited is its parent's. */
static bool take(struct handled *signal) {
    if (!atomic_exchange(&signal->is_kept, false) || shim_is_worker())
        return false;
    comm_wish_no_more(1u << (signal - handled));
    timer_settime(signal->timer, 0, &(struct itimerspec){.it_value = {0, 0}}, NULL); /* where no handler is left it would end the process */
    return true;
}

/* Not one that has no timer: it would be kept for ever. */
static bool keep(int number, struct handled *signal, const siginfo_t *info) {
    uint64_t patience = shim_active() && !shim_is_worker() ? comm_patience_ns() : 0;
    if (!patience || atomic_load(&signal->is_kept))
        return false;
    atomic_store(&signal->thread, own_thread());
    if (!timer_start(signal, number, patience))
        return false;
    signal->info = *info;
    if (number == SIGINT)
        signals_worker_note_kept(); /* first: who takes it from another thread notes that it has run */
    atomic_store(&signal->is_kept, true);
    comm_wish(1u << (signal - handled), signal->is_of_main);
    return true;
}

/* By kill(), or by another process's sigqueue(): our own marks are of this one. */
static bool is_sent(const siginfo_t *info) {
    return info->si_code == SI_USER || (info->si_code == SI_QUEUE && info->si_pid != getpid());
}

/* What asks to end is one however fast it is handled; others are as long as the kernel would have one of the two, too: until the first is handled. Ctrl-C again
   is another wish. */
static bool is_twin(int number, struct handled *signal, const siginfo_t *info) {
    struct timespec now;
    bool is_of_user = is_sent(info), asks_to_end = number == SIGTERM || number == SIGHUP || number == SIGQUIT;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return twin_take(&signal->twin, &(struct twin_arrival){.is_of_launcher = is_of_user && info->si_pid == link_launcher(),
                                                           .sender = is_of_user && info->si_pid != getpid() ? info->si_pid : 0,
                                                           .now_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000,
                                                           .is_once = asks_to_end || (number != SIGINT && atomic_load(&signal->is_kept))});
}

/* A child's signal each rank has from its own child. */
static void tell_others(int number, const siginfo_t *info) {
    int32_t signal = number;
    if (is_sent(info) && !shim_is_worker() && info->si_pid != link_launcher() && sender_look(info->si_pid, getpid()) == SENDER_OUTSIDE)
        link_send(PROTOCOL_SIGNALLED, &signal, sizeof signal);
}

enum { HELD_NS = 500000000 };
static _Atomic bool are_held;

void signals_hold(bool is_held) {
    atomic_store(&are_held, is_held);
}

/* A handler that jumps out of itself leaves nothing behind. */
static void run_now(int number, struct handled *signal, siginfo_t *info, void *context) {
    uint8_t outer = sent_begin();
    take(signal);
    run_handler(number, signal, info, context);
    sent_end(outer);
}

/* ---- a handler on the thread to which its signal came */

enum passed { PASSED_NOT, PASSED, PASSED_RUNS };
enum { BEGIN_MS = 1000, END_MS = 10000, SETTLE_MS = 20 };

static void nap(void) {
    ORIGINAL(nanosleep)(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* The signal itself, marked as ours. thread 0: whichever may have it. False: that thread has ended. */
static bool pass_mark(int number, struct handled *signal, pid_t thread) {
    siginfo_t info = {.si_signo = number, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_value.sival_ptr = signal;
    atomic_store(&signal->is_marked, true);
    return thread ? !syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, number, &info)
                  : !syscall(SYS_rt_sigqueueinfo, getpid(), number, &info);
}

/* It may have been passed, or come only to end what this thread waits in. */
static void mark_came(int number, struct handled *signal, void *context) {
    int passed = PASSED;
    atomic_store(&signal->is_marked, false);
    if (!atomic_compare_exchange_strong(&signal->passed, &passed, PASSED_RUNS))
        return;
    if (take(signal))
        run_handler(number, signal, &signal->info, context);
    atomic_store(&signal->passed, PASSED_NOT);
}

/* The one that has it may block it for ever, or jump out of its handler. What it does then (a flag for the threads that train) is to be there on all ranks. */
static void wait_for_handler(struct handled *signal) {
    for (int i = 0; i < BEGIN_MS && atomic_load(&signal->passed) == PASSED; i++)
        nap();
    for (int i = 0; i < END_MS && atomic_load(&signal->passed) == PASSED_RUNS; i++)
        nap();
    for (int i = 0; i < SETTLE_MS; i++)
        nap();
}

static bool is_blocked_here(int number) {
    sigset_t blocked;
    return !pthread_sigmask(SIG_BLOCK, NULL, &blocked) && sigismember(&blocked, number) == 1;
}

static void pass_to_thread(int number, struct handled *signal) {
    pid_t thread = atomic_load(&signal->thread);
    atomic_store(&signal->passed, PASSED);
    if (!pass_mark(number, signal, thread))
        pass_mark(number, signal, 0);
    if (thread != own_thread()) /* else it comes when that unblocks it */
        wait_for_handler(signal);
}

static void wake_thread(int number, struct handled *signal) {
    pid_t thread = atomic_load(&signal->thread);
    if (thread == own_thread() || !atomic_load(&signal->is_ours) || !pass_mark(number, signal, thread))
        return;
    if (number == SIGALRM) /* comes again and again, for a line that shows how far all is: nobody waits for one */
        return;
    for (int i = 0; i < SETTLE_MS; i++)
        nap();
}

/* Ctrl-C in a rank's worker (signals_worker.h), to which it comes again by a timer. Not what the rank and its workers send; who is gone may be pkill. */
static bool is_early(int number, struct handled *signal, const siginfo_t *info, bool is_again) {
    if (number != SIGINT || !shim_is_worker())
        return false;
    if (!is_again && (info->si_code != SI_USER || sender_look(info->si_pid, signals_worker_rank()) == SENDER_OWN))
        return false;
    if (!signals_worker_waits(!is_again, info->si_code == SI_USER && info->si_pid == link_launcher()))
        return false;
    if (!is_again) {
        atomic_store(&signal->thread, own_thread());
        signal->info = *info;
    }
    return timer_start(signal, number, SIGNALS_WORKER_NAP_NS);
}

static void arrive(int number, siginfo_t *info, void *context) {
    struct handled *signal = handled_find(number);
    int before = errno;
    bool is_again = info->si_code == SI_TIMER && info->si_value.sival_ptr == signal;
    if (is_again && shim_is_worker()) {
        if (!is_early(number, signal, info, true))
            run_now(number, signal, &signal->info, context);
    } else if (is_again) {
        bool goes_on = number != SIGINT && atomic_load(&are_held) && timer_start(signal, number, HELD_NS);
        if (!goes_on && take(signal)) {
            run_handler(number, signal, &signal->info, context);
            wake_thread(number, signal);
        }
    } else if (info->si_code == SI_QUEUE && info->si_value.sival_ptr == signal) {
        mark_came(number, signal, context);
    } else if (sent_is_own()) {
        run_now(number, signal, info, context);
    } else if (!is_twin(number, signal, info)) {
        tell_others(number, info);
        if (!is_early(number, signal, info, false) && !keep(number, signal, info))
            run_now(number, signal, info, context);
    }
    errno = before;
}

/* As the kernel would: the handler's own mask holds meanwhile. */
static bool run_kept(int number, struct handled *signal) {
    ucontext_t context;
    sigset_t mask = signal->action.sa_mask, before;
    if (!take(signal))
        return false;
    if (!(signal->action.sa_flags & SA_NODEFER)) /* Python's faulthandler raises it again, for the handler before (chain=True) */
        sigaddset(&mask, number);
    pthread_sigmask(SIG_BLOCK, &mask, &before);
    getcontext(&context);
    run_handler(number, signal, &signal->info, &context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return true;
}

static void run_granted(int number, struct handled *signal) {
    if (!atomic_load(&signal->is_kept))
        return;
    if (is_blocked_here(number))
        pass_to_thread(number, signal);
    else if (run_kept(number, signal))
        wake_thread(number, signal);
}

void signals_run(uint32_t granted) {
    int before = errno;
    for (int i = 0; i < NUMBERS; i++)
        if (granted >> i & 1)
            run_granted(numbers[i], &handled[i]);
    errno = before;
}

void signals_forget_kept(int number) {
    take(handled_find(number));
}

bool signals_run_kept(int number) {
    struct handled *signal = handled_find(number);
    return run_kept(number, signal) && signal->is_of_main;
}

/* ---- what the program asks of the kernel */

/* The table's: not a child that shares its memory until it executes something, as Python's subprocess makes them (vfork). */
static pid_t owner;

/* Timers are not inherited. */
static void note_process(void) {
    owner = getpid();
    for (int i = 0; i < NUMBERS; i++)
        handled[i].has_timer = false;
}

__attribute__((constructor)) static void signals_start(void) {
    note_process();
    pthread_atfork(NULL, NULL, note_process);
}

static int set_action(int number, struct handled *signal, const struct sigaction *action) {
    struct sigaction ours = *action;
    bool is_ours = is_handler(action) && shim_may_train();
    if (run_kept(number, signal) && signal->is_of_main && !are_handled)
        python_handle_signals(); /* it came for the handler that goes now: Python's has left a mark only, and its function goes next */
    if (is_ours) {
        signal->action = *action;                  /* before it can come */
        signal->is_of_main = python_api() != NULL; /* not shim_has_python(): the interpreter sets its first ones before it has begun */
        ours.sa_sigaction = arrive;
        ours.sa_flags = (action->sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
    } else {
        unmark(number, signal);
    }
    int failed = ORIGINAL(sigaction)(number, &ours, NULL);
    atomic_store(&signal->is_ours, is_ours && !failed);
    if (number == SIGINT)
        signals_worker_note_handler(is_ours && !failed);
    return failed;
}

/* A C program that sets its handlers and then loads what trains. */
void signals_begin(void) {
    struct sigaction action;
    for (int i = 0; i < NUMBERS; i++)
        if (!atomic_load(&handled[i].is_ours) && !ORIGINAL(sigaction)(numbers[i], NULL, &action) && is_handler(&action))
            set_action(numbers[i], &handled[i], &action);
    signals_worker_begin();
    signals_worker_note_handler(atomic_load(&handled_find(SIGINT)->is_ours));
}

int hook_sigaction(int number, const struct sigaction *action, struct sigaction *before) {
    struct handled *signal = handled_find(number);
    if (!signal || owner != getpid())
        return ORIGINAL(sigaction)(number, action, before);
    struct sigaction old;
    if (atomic_load(&signal->is_ours))
        old = signal->action;
    else if (ORIGINAL(sigaction)(number, NULL, &old))
        return -1;
    int failed = action ? set_action(number, signal, action) : 0;
    if (!failed && before)
        *before = old;
    return failed;
}

/* The BSD one, as glibc's: the handler stays, interrupted calls go on. */
void *hook_signal(int number, void *handler) {
    struct sigaction action = {.sa_handler = (void (*)(int))handler, .sa_flags = SA_RESTART}, before;
    if (!handled_find(number) || owner != getpid())
        return ORIGINAL(signal)(number, handler);
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, number);
    return hook_sigaction(number, &action, &before) ? (void *)SIG_ERR : (void *)before.sa_handler;
}
