#define _GNU_SOURCE
#include "sent.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "shim.h"

static _Thread_local uint8_t sends; /* how deep */

bool sent_is_own(void) {
    return sends;
}

uint8_t sent_begin(void) {
    uint8_t outer = sends;
    sends = 0;
    return outer;
}

void sent_end(uint8_t outer) {
    sends = outer;
}

static void send_end(uint8_t *outer) {
    sends = *outer;
}

static uint8_t send_begin(int number) {
    uint8_t outer = sends++;
    if (number == SIGABRT)
        files_client.is_aborted();
    return outer;
}

#define SENDING_SCOPE(number) __attribute__((cleanup(send_end), unused)) uint8_t outer_sends_ = send_begin(number)

int hook_raise(int number) {
    SENDING_SCOPE(number);
    return ORIGINAL(raise)(number);
}

/* Alone, or with its group: it has it before the call returns. */
static bool is_for_us(pid_t process) {
    return process == getpid() || process == 0 || process == -1 || process == -getpgrp();
}

int hook_kill(pid_t process, int number) {
    if (!is_for_us(process))
        return ORIGINAL(kill)(process, number);
    SENDING_SCOPE(number);
    return ORIGINAL(kill)(process, number);
}

int hook_killpg(pid_t group, int number) {
    if (!is_for_us(-group))
        return ORIGINAL(killpg)(group, number);
    SENDING_SCOPE(number);
    return ORIGINAL(killpg)(group, number);
}

int hook_sigqueue(pid_t process, int number, void *value) {
    if (process != getpid())
        return ORIGINAL(sigqueue)(process, number, value);
    SENDING_SCOPE(number);
    return ORIGINAL(sigqueue)(process, number, value);
}

int hook_pthread_kill(pthread_t to, int number) {
    if (!pthread_equal(to, pthread_self()))
        return ORIGINAL(pthread_kill)(to, number);
    SENDING_SCOPE(number);
    return ORIGINAL(pthread_kill)(to, number);
}

/* ---- nobody's meanwhile */

static const int of_terminal[2] = {SIGINT, SIGQUIT};

struct signals_before signals_ignore(void) {
    struct signals_before before;
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    for (int i = 0; i < 2; i++)
        ORIGINAL(sigaction)(of_terminal[i], &ignored, &before.actions[i]);
    return before;
}

void signals_restore(const struct signals_before *before) {
    for (int i = 0; i < 2; i++)
        ORIGINAL(sigaction)(of_terminal[i], &before->actions[i], NULL);
}
