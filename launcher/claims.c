#define _GNU_SOURCE
#include "claims.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct message {
    struct protocol_header header;
    char payload[PROTOCOL_TEXT_MAX + 1]; /* room for a terminator */
};

static int hexadecimal(char *text, size_t bytes) {
    unsigned char random[32];
    if (getrandom(random, bytes, 0) != (ssize_t)bytes)
        return -1;
    for (size_t i = 0; i < bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", random[i]);
    return 0;
}

int claims_open(struct claims *claims) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char random[17];
    claims->listener = -1;
    if (hexadecimal(random, 8) || hexadecimal(claims->cookie, PROTOCOL_COOKIE_CHARS / 2))
        return -1;
    int n = snprintf(claims->name, sizeof claims->name, "accel-run-%d-%s", (int)getpid(), random);
    memcpy(address.sun_path + 1, claims->name, (size_t)n);
    claims->connections = calloc(CLAIMS_CONNECTIONS_MAX, sizeof *claims->connections);
    claims->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (!claims->connections || claims->listener < 0)
        return -1;
    if (bind(claims->listener, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)))
        return -1;
    return listen(claims->listener, 256);
}

static void connection_close(struct claims_connection *connection) {
    close(connection->descriptor);
    *connection = (struct claims_connection){-1, -1, 0};
}

bool claims_is_granted(const struct claims *claims, uint32_t rank) {
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->connections[i].descriptor >= 0 && claims->connections[i].rank == (int)rank)
            return true;
    return false;
}

static int send_message(int descriptor, uint32_t type, const void *payload, size_t bytes, int memfd) {
    struct protocol_header header = {type, (uint32_t)bytes};
    struct iovec parts[2] = {{&header, sizeof header}, {(void *)(uintptr_t)payload, bytes}};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (memfd >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *entry = CMSG_FIRSTHDR(&message);
        entry->cmsg_level = SOL_SOCKET;
        entry->cmsg_type = SCM_RIGHTS;
        entry->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(entry), &memfd, sizeof memfd);
    }
    return sendmsg(descriptor, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

static void deny(struct claims_connection *connection, const char *reason) {
    send_message(connection->descriptor, PROTOCOL_DENY, reason, strlen(reason), -1);
    connection_close(connection);
}

/* As long for a wrong first character as for a wrong last one. */
static bool cookie_is_right(const struct claims *claims, const char *cookie) {
    unsigned difference = 0;
    for (int i = 0; i < PROTOCOL_COOKIE_CHARS; i++)
        difference |= (unsigned)(claims->cookie[i] ^ cookie[i]);
    return difference == 0;
}

/* A rank that was refused for our own reasons would train alone, a full copy beside the others (P45): the job ends instead. */
static void deny_and_stop(struct claims *claims, struct claims_connection *connection, uint32_t number,
                          const struct protocol_problem *problem) {
    deny(connection, problem->what);
    claims->events.problem(claims->events.context, number, problem);
}

static void grant(struct claims *claims, struct claims_connection *connection, uint32_t number) {
    struct rank *rank = &claims->ranks[number];
    struct segment *segment = segments_get(&claims->segments, rank->generation);
    if (!segment) {
        deny_and_stop(claims, connection, number,
                      &(struct protocol_problem){.id = "AR-SEGMENT",
                                                 .what = "the launcher cannot make the shared memory through which the ranks exchange",
                                                 .cure = "raise the limits of file size (ulimit -f) and memory, or use fewer ranks"});
        return;
    }
    struct protocol_grant message = claims->grant;
    message.rank = number;
    message.segment_bytes = segment->bytes;
    if (send_message(connection->descriptor, PROTOCOL_GRANT, &message, sizeof message, segment->memfd)) {
        connection_close(connection);
        return;
    }
    connection->rank = (int)number;
    rank->has_claimed = true;
    rank->claimer = connection->pid;
    rank->generation++;
}

static void handle_claim(struct claims *claims, struct claims_connection *connection, const struct message *message) {
    struct protocol_claim claim;
    if (message->header.bytes < sizeof claim.version) {
        deny(connection, "malformed claim");
        return;
    }
    memset(&claim, 0, sizeof claim);
    memcpy(&claim, message->payload, message->header.bytes < sizeof claim ? message->header.bytes : sizeof claim);
    bool is_of_the_job = message->header.bytes == sizeof claim && cookie_is_right(claims, claim.cookie);
    if (claim.version != PROTOCOL_VERSION && is_of_the_job)
        deny_and_stop(claims, connection, 0,
                      &(struct protocol_problem){.id = "AR-VERSION",
                                                 .what = "libaccelshim.so and accel-run are of different versions",
                                                 .cure = "install both from the same build (make install)"});
    else if (claim.version != PROTOCOL_VERSION)
        deny(connection, "the shim and accel-run are of different versions");
    else if (message->header.bytes != sizeof claim)
        deny(connection, "malformed claim");
    else if (!cookie_is_right(claims, claim.cookie))
        deny(connection, "wrong cookie");
    else if (claim.rank >= claims->grant.world_size)
        deny(connection, "no such rank");
    else if (connection->rank >= 0 || claims_is_granted(claims, claim.rank))
        deny(connection, "another process is this rank");
    else
        grant(claims, connection, claim.rank);
}

static void handle_problem(struct claims *claims, uint32_t rank, struct message *message) {
    struct protocol_problem problem;
    if (message->header.bytes != sizeof problem)
        return;
    memcpy(&problem, message->payload, sizeof problem);
    problem.id[sizeof problem.id - 1] = 0;
    problem.what[sizeof problem.what - 1] = 0;
    problem.cure[sizeof problem.cure - 1] = 0;
    claims->events.problem(claims->events.context, rank, &problem);
}

static void handle_message(struct claims *claims, struct claims_connection *connection, struct message *message) {
    uint32_t bytes = message->header.bytes;
    message->payload[bytes] = 0;
    if (message->header.type == PROTOCOL_CLAIM) {
        handle_claim(claims, connection, message);
        return;
    }
    if (connection->rank < 0) { /* only ranks are listened to */
        deny(connection, "claim first");
        return;
    }
    uint32_t rank = (uint32_t)connection->rank;
    if (message->header.type == PROTOCOL_LOG && bytes > 1)
        claims->events.log(claims->events.context, rank, message->payload[0], message->payload + 1);
    else if (message->header.type == PROTOCOL_PROBLEM)
        handle_problem(claims, rank, message);
    else if (message->header.type == PROTOCOL_REPORT)
        claims->events.report(claims->events.context, rank, message->payload);
}

/* Reads one message. Returns false when there is none (or the connection has ended). */
static bool read_message(struct claims *claims, struct claims_connection *connection) {
    struct message message;
    ssize_t n = recv(connection->descriptor, &message, sizeof message - 1, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        connection_close(connection);
        return false;
    }
    if ((size_t)n < sizeof message.header || (size_t)n > sizeof message - 1 || message.header.bytes != (size_t)n - sizeof message.header) {
        deny(connection, "malformed message");
        return false;
    }
    handle_message(claims, connection, &message);
    return connection->descriptor >= 0;
}

static void connection_ready(void *context, size_t index, short events) {
    struct claims *claims = context;
    struct claims_connection *connection = &claims->connections[index];
    for (int i = 0; i < 64 && connection->descriptor >= 0 && read_message(claims, connection); i++)
        ;
}

static struct claims_connection *free_slot(struct claims *claims) {
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->connections[i].descriptor < 0)
            return &claims->connections[i];
    return claims->count < CLAIMS_CONNECTIONS_MAX ? &claims->connections[claims->count++] : NULL;
}

static void listener_ready(void *context, size_t index, short events) {
    struct claims *claims = context;
    struct ucred peer;
    socklen_t size = sizeof peer;
    int descriptor = accept4(claims->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0)
        return;
    struct claims_connection *connection = free_slot(claims);
    if (!connection || getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.uid != geteuid()) {
        close(descriptor);
        return;
    }
    *connection = (struct claims_connection){descriptor, -1, peer.pid};
}

void claims_add(struct claims *claims, struct loop *loop) {
    for (uint32_t i = 0; i < claims->count; i++)
        loop_add(loop, claims->connections[i].descriptor, POLLIN, connection_ready, claims, i);
    loop_add(loop, claims->listener, POLLIN, listener_ready, claims, 0);
}

void claims_drain(struct claims *claims) {
    listener_ready(claims, 0, POLLIN);
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->connections[i].descriptor >= 0)
            connection_ready(claims, i, POLLIN);
}

void claims_clear(struct claims *claims) {
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->connections[i].descriptor >= 0)
            close(claims->connections[i].descriptor);
    if (claims->listener >= 0)
        close(claims->listener);
    free(claims->connections);
    segments_clear(&claims->segments);
    claims->connections = NULL;
    claims->count = 0;
    claims->listener = -1;
}
