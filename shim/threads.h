/*
 * Which thread of the program is which: the same word on all ranks, so that a sum of one thread meets the other ranks' sums of that thread, in whatever order
 * the threads come.
 *
 * Rules
 *  - A thread is known by the one that has made it, by the code that it runs and by its number among those. The main thread's word is 0.
 *  - What Python gives to threads (tasks of concurrent.futures and of multiprocessing.pool.ThreadPool, threading.Thread, items of queue.Queue) is known by
 *    the thread that has submitted it, by what it is and by its number among those, whichever thread does it (tasks.c): the order in which it is submitted may
 *    be that in which others have ended.
 *  - Which thread takes what from a queue of C++ is not known (docs/limits.md).
 */
#ifndef ACCEL_SHIM_THREADS_H
#define ACCEL_SHIM_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pairs.h"

extern _Atomic uint8_t threads_are_several; /* somebody has made a second one */

extern _Atomic uint64_t
    threads_keep_python; /* what this pthread_t makes keeps a state of the interpreter (shim/torch/begin.c); 0: nothing */

/* Is there one besides the main thread now? Not helpers of kernels. */
bool threads_are_living(void);

/* Any thread. */
uint64_t threads_own(void);
bool threads_is_main(void);
bool threads_is_in_task(void); /* what was given to a thread, of a pool or a queue */
/* Of a thread of the program, by its pthread_t, which a later thread may have again: the word that it began with, and what its function was given (of a
   std::thread, the object that holds its function). Word 0: not known. Any thread. */
struct threads_birth {
    uint64_t word;
    void *argument;
    bool has_ended; /* its function has returned */
};
struct threads_birth threads_birth(uint64_t thread);
bool threads_are_told_apart(void); /* false: no thread has a word */
/* This thread goes by another word from now on; by one that it went by before: what it has gone by since is done. Returns the one before. */
uint64_t threads_go_by(uint64_t word);
/* For a new thread, or a task, that a thread with the word `maker` makes of a kind: this one, or another for which it does. */
uint64_t threads_word_of_new(uint64_t maker, uint64_t kind);

/* What a file keeps for each word, zeros at first: a decision of one thread must not hang on how far the others have come. Freed when the thread, or the task,
   is done. */
struct threads_kept {
    void *of_main;
    size_t bytes;
    void (*end)(void *memory); /* what is within; may be NULL */
};
void *threads_own_kept(const struct threads_kept *kept);

#endif
