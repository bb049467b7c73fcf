/*
 * The rank's link where another launcher has started the ranks and no process of ours is there (config/join.h): claims, messages, and the eye on the others.
 * link.c calls it; nobody else does.
 *
 * Rules
 *  - What is printed goes to standard error as the other launcher has made it, whole lines in one write each, in accel-run's form; a problem once for the
 *    job: the rank that sets `stopped` says why.
 *  - A rank that ends, ends as it would without us; one that is stopped has exit code 125 (link.c). Who said why sees to it that the others end.
 *  - System calls of files are made directly: hooks/files has rows for libc's.
 */
#ifndef ACCEL_SHIM_JOINED_H
#define ACCEL_SHIM_JOINED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../config/join.h"

/* ---- joined.c */

/* Takes the values of the environment. Returns false when they are none. Called by the constructor. */
bool joined_snapshot(const char *value, const char *cookie, uint32_t rank);
bool joined_is_here(void);
/* 1: granted, *grant filled and *segment mapped; 0: another process is this rank; -1: *what says what went wrong. */
int joined_claim(struct protocol_grant *grant, void **segment, const char **what);
/* In a forked child of a rank. */
void joined_forget(void);
bool joined_has_parent(void); /* this is one */
/* The job is to end: its ranks see it where they wait, or at their next step. Says why, unless somebody has. This process does nothing more but end. */
void joined_stop_parent(const struct protocol_problem *problem);

struct join_page *joined_page(void); /* NULL before the claim, except in the process that the launcher has started */
uint32_t joined_rank(void);
uint32_t joined_generation(void);
bool joined_is_front(void); /* this process is the one that the launcher has started */
/* /proc/PID/fd/N of another process of the job; flags of open(2). Returns a descriptor or -1. */
int joined_open(uint64_t process, int32_t number, int flags);

/* ---- joined_process.c */

uint64_t joined_process_self(void);
/* As in /proc/PID/stat: 'R' runs, 'S' sleeps, 'T' and 't' stopped...; 0: it is gone, or a zombie; JOINED_UNSEEN: there is a process of that number, and no
   more is known. */
#define JOINED_UNSEEN '?'
char joined_process_state(uint64_t process);
bool joined_process_is_alive(uint64_t process);

/* ---- joined_words.c */

void joined_words_open(void); /* at the claim */
void joined_words_close(void);
/* Prints text in one write. */
void joined_words_print(const char *text, size_t bytes);
/* A line of level 'e', 'w' or 'i'; the same of several ranks once. Any thread. */
void joined_words_log(char level, const char *text);
/* Says what waits to be said by rank 0 first. all: now. */
void joined_words_settle(bool all);
/* "accel-run: error ID: what", with the last lines of a rank before it; rank -1: of none. */
void joined_words_problem(const struct protocol_problem *problem, int rank);
/* The same in a forked child, where a thread that is not there may hold the lock of the other words. */
void joined_words_of_child(const struct protocol_problem *problem);
/* What this rank has printed does not fill the memory. */
void joined_words_trim(void);

/* ---- joined_stall.c */

/* While waiting for rank late, now and then: names it when it makes no progress for --stall-timeout. */
void joined_stall_look(uint32_t late);
/* Says that the rank that this one has named goes on. */
void joined_stall_settle(void);

/* ---- joined_held.c */

/* While waiting: sees whether rank 0 is held up by what a plain program would wait for, too. */
void joined_held_look(void);

/* ---- joined_end.c */

/* Says why the job ends, unless somebody has. */
void joined_problem(const struct protocol_problem *problem);
/* The job ends: sees to it that the others do. When it returns, this process is to end with exit code 125. */
void joined_stop(void);
/* While waiting for rank late. Returns true when the job is being stopped. */
bool joined_look(uint32_t late);
/* At each step: the same for the launcher and the own first process, once a second. Where that has ended well, and this one goes on, it is the
   program's wish. */
bool joined_step(void);
/* The process ends: exit handlers call it, and _exit and abort. signal: 0, or of abort. */
void joined_ends(int status, int signal);
void joined_watch_end(void);

#endif
