/*
 * The first host's files, seen from the ranks of other hosts: rank 0 writes there, so there lies what one process would see.
 *
 * Rules
 *  - The launchers carry question and answer (launcher/hosts/look.h); no other rank takes part, so nobody can be waited for in vain. Ranks of the first host
 *    never ask.
 *  - Called on the thread that meets (shim/meeting.h) alone: what rank 0 changes it changes in meetings, so between two of them the answer does not depend on
 *    when somebody asks.
 *  - An answer that does not come within the deadline of collectives stops the job (AR-FILE-HOSTS).
 *  - Takes no lock, allocates nothing, keeps errno.
 */
#ifndef ACCEL_SHIM_FIRST_HOST_H
#define ACCEL_SHIM_FIRST_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "../config/protocol.h"

/* At the claim. */
void first_host_begin(uint32_t timeout_ms);
/* True in a rank that is not on the first host, on the thread that meets (and not asking just now: a signal handler). */
bool first_host_is_away(void);
/* After the claim: this is the first host, or there is no other. Does not change. */
bool first_host_is_this(void);
/* Its name, and this host's, for messages. */
const char *first_host_name(void);
const char *first_host_own_name(void);

/* path: absolute. Returns 0 or an errno; *status is valid after 0, for STATUS and NAME. offset: the mode of ACCESS. */
int first_host_look(enum protocol_look_what what, const char *path, uint64_t offset, struct protocol_status *status);
/* READ, LIST, LINK: *data is borrowed until the next call; *bytes of it. status may be NULL. */
int first_host_fetch(enum protocol_look_what what, const char *path, uint64_t offset, struct protocol_status *status, const char **data,
                     uint32_t *bytes);

#endif
