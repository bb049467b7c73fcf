/*
 * A process that is killed takes with it what it has printed and not written: up to 8 KiB of a log of losses that goes to a file or a pipe, which a program
 * that ends by itself writes at its end. So rank 0 writes it when the job is stopped. Nothing here waits for another thread, but a stream of the program's own
 * may: so the launcher has heard of the problem before, and gives it a moment (launcher/last_words.c). The only place of the shim that knows of the program's
 * stdout.
 */
#include "last_words.h"

#include <poll.h>
#include <stdio.h>

#include "python.h"
#include "resolve.h"
#include "shim.h"

enum { MOMENT_MS = 100 };

static void say_in_c(void) {
    if (ftrylockfile(stdout))
        return;
    fflush_unlocked(stdout);
    funlockfile(stdout);
}

/* std::cout has a buffer of its own after std::ios::sync_with_stdio(false); empty otherwise. */
static void say_in_cpp(void) {
    void *cout = resolve_data("libstdc++", "_ZSt4cout"),
         *(*flush)(void *) = (void *(*)(void *))resolve_function("libstdc++", "_ZNSo5flushEv");
    if (cout && flush)
        flush(cout);
}

/* Threads of Python may hold its lock and wait for what never comes; and an interpreter that has ended has emptied its buffers, and can run nothing. */
static void say_in_python(void) {
    const struct python_api *python = python_to_lock();
    if (!python || (shim_has_threads() && !python_holds_lock()))
        return;
    int state = python->lock();
    struct object *names = python_run("import sys\n"
                                      "for stream in (sys.stdout, sys.stderr):\n"
                                      "    try:\n"
                                      "        stream.flush()\n"
                                      "    except Exception:\n"
                                      "        pass\n",
                                      NULL, NULL);
    if (names)
        python->release(names);
    python->unlock(state);
}

void last_words_say(struct board *board) {
    static _Thread_local bool is_saying; /* a write of these words may meet a problem itself */
    if (!board || shim_rank() || is_saying || atomic_load(&board->last_words))
        return;
    is_saying = true;
    say_in_python();
    say_in_cpp();
    say_in_c();
    atomic_store(&board->last_words, 1);
}

void last_words_await(struct board *board) {
    bool is_here = board && (board->hosts < 2 || !board->host);
    for (int waited = 0; is_here && waited < MOMENT_MS && !atomic_load(&board->last_words); waited++)
        poll(NULL, 0, 1);
}
