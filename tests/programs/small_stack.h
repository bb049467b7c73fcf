/* Runs work as programs do where there is little stack: in a handler of SIGSEGV on an alternate stack of 8 KiB, and on a thread with the least that there is. */
#pragma once

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

enum { PAGE = 4096, ALTERNATE = 8192, CANARY = 0x5a };

static void (*small_work)(void);
static char *small_page;

static void small_on_fault(int number) {
    small_work();
    mprotect(small_page, PAGE, PROT_READ | PROT_WRITE); /* the program goes on where it was */
}

static void *small_thread(void *unused) {
    small_work();
    return unused;
}

/* Below the stack lie bytes that nobody has to write, and a page that nobody can. */
static void small_handler(void) {
    size_t frame = getauxval(AT_MINSIGSTKSZ); /* what the kernel puts there first: 3 KiB with AVX-512, 11 with AMX */
    size_t bytes = ALTERNATE + (frame > 4096 ? (frame - 4096 + PAGE - 1) / PAGE * PAGE : 0);
    char *memory = (char *)mmap(NULL, 4 * PAGE + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = memory + 4 * PAGE, .ss_flags = 0, .ss_size = bytes}, before;
    struct sigaction action, old;
    memset(memory + PAGE, CANARY, 3 * PAGE);
    mprotect(memory, PAGE, PROT_NONE);
    memset(&action, 0, sizeof action);
    action.sa_handler = small_on_fault;
    action.sa_flags = SA_ONSTACK;
    small_page = (char *)mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&stack, &before);
    sigaction(SIGSEGV, &action, &old);
    *(volatile char *)small_page = 1;
    sigaction(SIGSEGV, &old, NULL);
    sigaltstack(&before, NULL);
    for (size_t i = PAGE; i < 4 * PAGE; i++)
        if (memory[i] != CANARY) {
            printf("%zu bytes below the handler's stack were written\n", 4 * PAGE - i);
            exit(1);
        }
}

/* libraries' memory of each thread is taken from it, too */
static void small_thread_run(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    size_t bytes = PTHREAD_STACK_MIN;
    pthread_attr_init(&attributes);
    while (pthread_attr_setstacksize(&attributes, bytes) || pthread_create(&thread, &attributes, small_thread, NULL))
        bytes += PAGE;
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

static inline void on_small_stacks(void (*work)(void)) {
    small_work = work;
    work(); /* every function that is called is found by now */
    small_handler();
    small_thread_run();
}
