/*
 * Alarms. One that is kept (signals.c) comes before the main thread's next rest, to which that of each rank comes, or at its end if that is what ended it. It
 * is gone when the program sets its timer anew, or stops it.
 *
 * Python's handler leaves a mark, whose function goes when the rest is over: a rest that the alarm would have come before is not begun, and Python takes it up
 * again by itself where that function raises nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "shim.h"
#include "signals.h"

unsigned hook_alarm(unsigned seconds) {
    signals_forget_kept(SIGALRM);
    return ORIGINAL(alarm)(seconds);
}

int hook_setitimer(int which, const void *value, void *before) {
    if (which == ITIMER_REAL)
        signals_forget_kept(SIGALRM);
    return ORIGINAL(setitimer)(which, value, before);
}

static bool run_alarm(void) {
    int before = errno;
    bool is_python = getpid() == (pid_t)syscall(SYS_gettid) && signals_run_kept(SIGALRM);
    errno = before;
    return is_python;
}

static bool is_interrupted(const struct timespec *time, struct timespec *rest) {
    if (!run_alarm())
        return false;
    if (rest)
        *rest = *time;
    return true;
}

unsigned hook_sleep(unsigned seconds) {
    run_alarm();
    unsigned rest = ORIGINAL(sleep)(seconds);
    run_alarm();
    return rest;
}

int hook_usleep(unsigned microseconds) {
    run_alarm();
    int result = ORIGINAL(usleep)(microseconds);
    run_alarm();
    return result;
}

int hook_nanosleep(const void *time, void *rest) {
    if (is_interrupted(time, rest)) {
        errno = EINTR;
        return -1;
    }
    int result = ORIGINAL(nanosleep)(time, rest);
    run_alarm();
    return result;
}

int hook_clock_nanosleep(int clock, int flags, const void *time, void *rest) {
    if (is_interrupted(time, flags & TIMER_ABSTIME ? NULL : rest))
        return EINTR;
    int result = ORIGINAL(clock_nanosleep)(clock, flags, time, rest);
    run_alarm();
    return result;
}
