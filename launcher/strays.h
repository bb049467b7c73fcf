/*
 * Processes that outlive the rank that started them. The launcher is their subreaper: an orphan becomes our child, wherever it has put
 * itself (L8).
 */
#ifndef ACCEL_RUN_STRAYS_H
#define ACCEL_RUN_STRAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "rank.h"

#define STRAYS_EARLIER_MAX 64

/* What is not a stray: the ranks' own processes, the guard, and the children of a shell that became accel-run (exec): filters of its output, services. */
struct strays {
    struct rank *ranks; /* borrowed */
    uint32_t world_size;
    pid_t guard;
    pid_t earlier[STRAYS_EARLIER_MAX];
    int earlier_count;
};

/* Before the first child of ours is made. */
void strays_note_earlier(struct strays *strays);

/* Reaps orphans that have ended, and notes how ranks' programs have. Returns how many children are left that are neither ranks nor the guard. */
int strays_reap(const struct strays *strays);

/* One of them, or of what they have started, that is perhaps about to be the rank's next program: a script that has run the last one; or, where `may_load`, a
   Python, or one that has libtorch, that was not there before the last one ended. 0: none. */
pid_t strays_find_trainer(const struct strays *strays, const struct rank *rank, bool may_load);

/* Are all that are left helpers of libtorch's, which end two seconds after who needs them, and clean up after it then? */
bool strays_end_by_themselves(const struct strays *strays);

/* Is it a script that has run the rank's last program? */
bool strays_is_script(pid_t pid, const struct rank *rank);

/* Adds "name (pid)" to the list of names, at most size bytes. */
void strays_add_name(pid_t pid, char *names, size_t size);

/* "name (pid), name (pid)" of every stray that the signal is for and of every rank that has not ended, at most size bytes. */
void strays_names(const struct strays *strays, int signal, char *names, size_t size);

/* Sends the signal to every stray, but to those that end by themselves SIGKILL alone, and to what is left of every rank's group. */
void strays_signal(const struct strays *strays, int signal);

#endif
