/* The rank's connection to its launcher: claim, messages, the board. */
#ifndef ACCEL_SHIM_LINK_H
#define ACCEL_SHIM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "../config/board.h"
#include "../config/protocol.h"

/* Reads the environment once. Called by the constructor: raw getenv, no allocation. Returns false when there is no launcher. */
bool link_snapshot(void);
/* This process is to check the exchange between ranks (PROTOCOL_ENV_EXCHANGE). */
bool link_must_exchange(void);
const char *link_cookie(void);
const char *link_job(void); /* the claim socket's name; NULL: none */
uint32_t link_slot(void);   /* from the environment; 0 without a launcher */
bool link_has_hosts(void);  /* likewise: the job has several */
/* Asks for the rank. 1: granted, *grant filled and the segment mapped; 0: denied or no launcher. One thread. */
int link_claim(struct protocol_grant *grant);
/* Before that, or without: this process meets those of the other ranks. True: *grant is filled and the segment mapped, which stays the rank's if it claims.
   False: there is no launcher, or another process is the rank. One thread. */
bool link_attach(struct protocol_grant *grant);
/* Has another process the rank that this one could claim? Asks the launcher. */
bool link_is_taken(void);
bool link_is_attached(void); /* this process has; not a child of it */
/* The launcher's process, of whom signals come to all ranks; -1: not known. Any thread, in signal handlers, too. */
pid_t link_launcher(void);
void *link_segment(void);
/* The socket at which the first rank of each of several hosts listens for the others'; -1: none. comm_open() takes it over. */
int link_listener(void);
struct board *link_board(void); /* NULL before the grant, or link_attach() */
/* In a forked child: forget the socket (the parent's), unmap nothing. */
void link_forget(void);
uint32_t shim_record_steps(void); /* kind.c: after how many steps `accel-run explain` ends */
/* While this rank waits for rank late: somebody must notice that it will never come. Does not return when the job is being stopped. */
void link_look(uint32_t late);
/* To the launcher, who tells the other hosts. path, second: "" for none. Keeps errno. */
void link_meeting(const struct protocol_meeting *meeting, const char *path, const char *second);
/* Of first_host.c: struct protocol_look and a path; struct protocol_looked and data, within a moment, or 0. */
bool link_send_look(const void *body, uint32_t bytes);
bool link_receive_look(void *body, size_t capacity);
/* On the process's connection. False: there is none, or it has ended. Keeps errno. */
bool link_send(uint32_t type, const void *body, uint32_t bytes);
/* In a child of a rank, whose connection is not its own: one for this message, which begins with a claim, filled in here. Nobody answers. False: not under a
   launcher, or it is gone. */
bool link_say_as_child(uint32_t type, struct protocol_claim *message, uint32_t bytes);
/* One line of the summary for the launcher. */
void link_report(const char *line);
/* Waits to be ended by the launcher; ends the process itself when the launcher is gone. */
void link_wait_for_end(void) __attribute__((noreturn));

#endif
