#define _GNU_SOURCE
#include "writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { WRITER_BYTES = 65536 };

enum state { IDLE, BUSY, DONE };

/* All but `event` by whoever has the lock. */
struct writer_thread {
    pthread_mutex_t lock;
    pthread_cond_t is_wanted, is_done;
    enum state state;
    const void *owner; /* of the write in progress, or of its result; NULL: nobody asks for it */
    bool is_awaited;   /* the owner waits for is_done: `event` is for those who do not */
    int event;         /* owned */
    int descriptor;
    size_t count;
    ssize_t result;
    int error;
    char bytes[WRITER_BYTES];
};

static void *write_on(void *argument) {
    struct writer_thread *thread = argument;
    uint64_t one = 1;
    pthread_mutex_lock(&thread->lock);
    for (;;) {
        while (thread->state != BUSY)
            pthread_cond_wait(&thread->is_wanted, &thread->lock);
        pthread_mutex_unlock(&thread->lock);
        ssize_t result = write(thread->descriptor, thread->bytes, thread->count);
        int error = errno;
        pthread_mutex_lock(&thread->lock);
        thread->result = result;
        thread->error = error;
        thread->state = DONE;
        pthread_cond_signal(&thread->is_done);
        if (!thread->is_awaited && write(thread->event, &one, sizeof one) < 0)
            continue; /* it is full: who waits is woken */
    }
    return NULL;
}

static bool start(struct writer *writer) {
    pthread_t handle;
    sigset_t all, before;
    struct writer_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return false;
    thread->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->is_wanted, NULL);
    pthread_cond_init(&thread->is_done, NULL);
    sigfillset(&all); /* they are the supervisor's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_made = thread->event >= 0 && !pthread_create(&handle, NULL, write_on, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_made) {
        pthread_detach(handle);
        writer->thread = thread;
        return true;
    }
    if (thread->event >= 0)
        close(thread->event);
    free(thread);
    return false;
}

/* Waits a little. */
static void await(struct writer_thread *thread) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += WRITER_PATIENCE_MS * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    thread->is_awaited = true;
    while (thread->state == BUSY && !pthread_cond_clockwait(&thread->is_done, &thread->lock, CLOCK_MONOTONIC, &end))
        ;
    thread->is_awaited = false;
}

static ssize_t take_result(struct writer_thread *thread) {
    uint64_t count;
    if (read(thread->event, &count, sizeof count) < 0) /* it had not to be woken */
        count = 0;
    thread->state = IDLE;
    errno = thread->error;
    return thread->result;
}

static ssize_t write_locked(struct writer_thread *thread, const void *owner, int descriptor, const char *bytes, size_t count) {
    if (thread->state == DONE && thread->owner == owner)
        return take_result(thread);
    if (thread->state == DONE && !thread->owner)
        take_result(thread);
    if (thread->state == IDLE) {
        thread->owner = owner;
        thread->descriptor = descriptor;
        thread->count = count < WRITER_BYTES ? count : WRITER_BYTES;
        memcpy(thread->bytes, bytes, thread->count);
        thread->state = BUSY;
        pthread_cond_signal(&thread->is_wanted);
        await(thread);
        if (thread->state == DONE)
            return take_result(thread);
    }
    errno = EAGAIN;
    return -1;
}

ssize_t writer_write(struct writer *writer, const void *owner, int descriptor, const char *bytes, size_t count) {
    if (!writer->thread && !start(writer))
        return write(descriptor, bytes, count);
    pthread_mutex_lock(&writer->thread->lock);
    ssize_t n = write_locked(writer->thread, owner, descriptor, bytes, count);
    int error = errno;
    pthread_mutex_unlock(&writer->thread->lock);
    errno = error;
    return n;
}

void writer_forget(struct writer *writer, const void *owner) {
    struct writer_thread *thread = writer->thread;
    if (!thread)
        return;
    pthread_mutex_lock(&thread->lock);
    if (thread->owner == owner)
        thread->owner = NULL;
    pthread_mutex_unlock(&thread->lock);
}

void writer_add(struct writer *writer, int descriptor, struct loop *loop, loop_ready *ready, void *context, size_t index) {
    bool is_free = true;
    if (writer->thread) {
        pthread_mutex_lock(&writer->thread->lock);
        is_free = writer->thread->state == IDLE || (writer->thread->state == DONE && !writer->thread->owner);
        pthread_mutex_unlock(&writer->thread->lock);
    }
    if (is_free) /* a file is always ready */
        loop_add(loop, descriptor, POLLOUT, ready, context, index);
    else
        loop_add(loop, writer->thread->event, POLLIN, ready, context, index);
}
