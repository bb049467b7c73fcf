/*
 * How the claim socket is listened at: connections, strangers, messages as they come (claims_socket.c); what is said is for claims.c. Only these two
 * include this.
 */
#ifndef ACCEL_RUN_CLAIMS_SOCKET_H
#define ACCEL_RUN_CLAIMS_SOCKET_H

#include "claims.h"

struct message {
    struct protocol_header header;
    char payload[PROTOCOL_TEXT_MAX + 1]; /* room for a terminator */
};

/* claims_socket.c. passed: PROTOCOL_DESCRIPTORS descriptors or, when the last is not -1, PROTOCOL_DESCRIPTORS_MOST; or NULL. Returns 0, or -1 with errno. */
int claims_send(int descriptor, uint32_t type, const void *payload, size_t bytes, const int *passed);
void claims_close(struct claims_connection *connection);
/* Drops the stranger who has waited longest and said nothing; a rank claims as soon as it has connected. Returns false when there is none. */
bool claims_drop_stranger(struct claims *claims);

/* claims.c. */
void claims_handle(struct claims *claims, struct claims_connection *connection, struct message *message);
void claims_deny(struct claims_connection *connection, const char *reason);

#endif
