/*
 * Ctrl-C in a worker that a rank has forked. It comes to both at once, as to a plain program and its workers; but the rank keeps it until the ranks meet, and a
 * worker that has ended by then is one that "exited unexpectedly" to its loader. So its handler runs when the rank's has.
 */
#ifndef ACCEL_SHIM_SIGNALS_WORKER_H
#define ACCEL_SHIM_SIGNALS_WORKER_H

#include <stdbool.h>
#include <sys/types.h>

enum { SIGNALS_WORKER_NAP_NS = 50000000 };

/* Before the rank forks. */
void signals_worker_begin(void);
/* Of the rank: whether it has a handler of Ctrl-C that it keeps signals for; that it keeps one; that it runs the handler. */
void signals_worker_note_handler(bool has_handler);
void signals_worker_note_kept(void);
void signals_worker_note_run(void);
/* Whose worker this is. */
pid_t signals_worker_rank(void);
/* In a worker that has it: is its rank's handler still to run? To be asked again and again; is_new: it has just come, is_for_all: to the rank, too. A second
   one is not kept, nor, after a second, one that has not come to the rank, nor, in the end, any. */
bool signals_worker_waits(bool is_new, bool is_for_all);

#endif
