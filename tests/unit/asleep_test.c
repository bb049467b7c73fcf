// sources: shim/asleep.c shim/checksum.c
#define _GNU_SOURCE
#include "../../shim/asleep.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>

#include "unit.h"

static pthread_mutex_t taken = PTHREAD_MUTEX_INITIALIZER;
static int pipes[2];
static _Atomic pid_t other;

/* The system call that another thread sleeps in; 0, which is read(), while it runs. */
static long call_of(pid_t thread) {
    char path[64], text[256] = "";
    long call = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    FILE *file = fopen(path, "r");
    if (file && fgets(text, sizeof text, file))
        sscanf(text, "%ld", &call);
    if (file)
        fclose(file);
    return call;
}

/* Starts a thread, and returns when it sleeps in that call. */
static pthread_t sleeper(void *(*start)(void *), void *argument, long call) {
    pthread_t thread;
    other = 0;
    pthread_create(&thread, NULL, start, argument);
    while (!other || call_of(other) != call)
        sched_yield();
    return thread;
}

static void *lock(void *argument) {
    other = (pid_t)syscall(SYS_gettid);
    pthread_mutex_lock(&taken);
    pthread_mutex_unlock(&taken);
    return argument;
}

static void *lock_for_a_time(void *argument) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 50;
    other = (pid_t)syscall(SYS_gettid);
    if (!pthread_mutex_timedlock(&taken, &end))
        pthread_mutex_unlock(&taken);
    return argument;
}

static void *join(void *thread) {
    other = (pid_t)syscall(SYS_gettid);
    pthread_join(*(pthread_t *)thread, NULL);
    return thread;
}

static void *wait_for_bytes(void *argument) {
    struct pollfd poll_one = {.fd = pipes[0], .events = POLLIN};
    other = (pid_t)syscall(SYS_gettid);
    poll(&poll_one, 1, -1);
    return argument;
}

static void *run(void *argument) {
    other = (pid_t)syscall(SYS_gettid);
    while (other)
        ;
    return argument;
}

static void *lock_as_one_who_waits(void *argument) {
    int place = asleep_wait();
    lock_for_a_time(argument);
    asleep_wait_no_more(place);
    return argument;
}

/* A joined thread may be seen for a moment longer. */
static uint64_t mark_when_asleep(void) {
    uint64_t mark;
    while (!asleep_look(&mark))
        sched_yield();
    return mark;
}

TEST("one thread alone is asleep, but for itself") {
    uint64_t mark;
    EXPECT(asleep_look(&mark));
}

TEST("who waits for a lock, and who waits for that thread's end, is asleep until it has run") {
    uint64_t mark, again;
    pthread_mutex_lock(&taken);
    pthread_t locks = sleeper(lock, NULL, SYS_futex), joins = sleeper(join, &locks, SYS_futex);
    EXPECT(asleep_look(&mark) && asleep_look(&again) && mark == again);
    pthread_mutex_unlock(&taken);
    pthread_join(joins, NULL);
    EXPECT(mark != mark_when_asleep());
}

TEST("who waits for a time, or for bytes, is not asleep, nor is who computes") {
    uint64_t mark;
    pthread_mutex_lock(&taken);
    pthread_t thread = sleeper(lock_for_a_time, NULL, SYS_futex);
    EXPECT(!asleep_look(&mark));
    pthread_mutex_unlock(&taken);
    pthread_join(thread, NULL);
    EXPECT(!pipe(pipes));
    thread = sleeper(wait_for_bytes, NULL, SYS_poll);
    EXPECT(!asleep_look(&mark));
    EXPECT(write(pipes[1], "x", 1) == 1);
    pthread_join(thread, NULL);
    other = 0;
    pthread_create(&thread, NULL, run, NULL);
    while (!other)
        sched_yield();
    EXPECT(!asleep_look(&mark));
    other = 0;
    pthread_join(thread, NULL);
}

TEST("who says that it waits for other ranks may nap") {
    pthread_mutex_lock(&taken);
    pthread_t thread = sleeper(lock_as_one_who_waits, NULL, SYS_futex);
    mark_when_asleep();
    pthread_mutex_unlock(&taken);
    pthread_join(thread, NULL);
}

TEST("with more waiting threads than there are places nobody is asleep") {
    uint64_t mark;
    int places[70];
    for (int i = 0; i < 70; i++)
        places[i] = asleep_wait();
    EXPECT(!asleep_look(&mark));
    for (int i = 0; i < 70; i++)
        asleep_wait_no_more(places[i]);
    EXPECT(asleep_look(&mark)); /* alone */
}
