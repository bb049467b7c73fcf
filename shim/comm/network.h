/*
 * The leaders of the hosts, connected each with each by TCP.
 *
 * Rules
 *  - What is to be sent and received is queued, and moves while somebody waits: nothing here blocks on one connection while another has something.
 *  - Bytes arrive in the order in which they were queued on the other side; both sides know from global facts what comes next.
 *  - Memory that is queued stays as it is, and is not looked at, until network_wait() or network_finish() says so.
 *  - Every wait has a deadline (segment.deadline_ns), which begins anew whenever something has moved, and looks at the board's abort word. A connection that
 *    closes does not return: the launchers have a moment to say who has died, then the host is named (AR-HOST-GONE).
 *  - Sockets are never blocking, and checked to be still ours at every collective (own.h).
 */
#ifndef ACCEL_SHIM_COMM_NETWORK_H
#define ACCEL_SHIM_COMM_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#include "own.h"

/* On a leader, in comm_open(): connects to all others, who prove that they know the job's secret. Strangers are dropped. */
void network_open(void);
/* In a forked child. */
void network_forget(void);

/* Ends the job when the program has closed one of the connections. At the beginning of a collective. */
void network_check(void);

void network_send(uint32_t host, const void *data, size_t bytes);
/* As many for each host: the number is what network_wait() counts in. */
void network_receive(uint32_t host, void *data, size_t bytes);
/* How many receives have been queued for each host so far. */
uint64_t network_mark(void);
/* Until the first `mark` receives of every host are complete. Sends go on meanwhile. */
void network_wait(uint64_t mark);
/* Until everything queued has been received and sent. */
void network_finish(void);

/* ---- network_connect.c */

/* The connections to all other hosts, into peers[hosts], -1 for the own one; in the order of the hosts. */
void network_connect(struct own_descriptor *peers);
/* One of our ranks, in a message: "host 1 (10.0.0.2, ranks 2 to 3)". */
int network_describe(char *text, size_t room, uint32_t host);
/* Ends the job. */
void network_fail_gone(uint32_t host, const char *how) __attribute__((noreturn));

#endif
