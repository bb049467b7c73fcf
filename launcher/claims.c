#define _GNU_SOURCE
#include "claims.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "secret.h"

/* More than a socket's buffer holds: what a dead rank has left there is read to its end. */
#define MESSAGES_MAX 4096

struct message {
    struct protocol_header header;
    char payload[PROTOCOL_TEXT_MAX + 1]; /* room for a terminator */
};

int claims_open(struct claims *claims) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char random[17];
    claims->listener = claims->lifeline[0] = claims->lifeline[1] = -1;
    if (pipe2(claims->lifeline, O_CLOEXEC) || secret_make(random, 8) || secret_make(claims->cookie, PROTOCOL_COOKIE_CHARS / 2))
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
    *connection = (struct claims_connection){.descriptor = -1, .rank = -1};
}

bool claims_is_granted(const struct claims *claims, uint32_t rank) {
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->connections[i].descriptor >= 0 && claims->connections[i].rank == (int)rank)
            return true;
    return false;
}

/* passed: PROTOCOL_DESCRIPTORS descriptors or, when the last is not -1, PROTOCOL_DESCRIPTORS_MOST; or NULL. */
static int send_message(int descriptor, uint32_t type, const void *payload, size_t bytes, const int *passed) {
    struct protocol_header header = {type, (uint32_t)bytes};
    struct iovec parts[2] = {{&header, sizeof header}, {(void *)(uintptr_t)payload, bytes}};
    union {
        char bytes[CMSG_SPACE(PROTOCOL_DESCRIPTORS_MOST * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (passed) {
        size_t count = passed[PROTOCOL_LISTENER] < 0 ? PROTOCOL_DESCRIPTORS : PROTOCOL_DESCRIPTORS_MOST;
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *entry = CMSG_FIRSTHDR(&message);
        entry->cmsg_level = SOL_SOCKET;
        entry->cmsg_type = SCM_RIGHTS;
        entry->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(entry), passed, count * sizeof(int));
    }
    return sendmsg(descriptor, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

void claims_tell(const struct claims *claims, uint32_t rank, uint32_t type, const void *payload, size_t bytes) {
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->connections[i].descriptor >= 0 && claims->connections[i].rank == (int)rank)
            send_message(claims->connections[i].descriptor, type, payload, bytes, NULL);
}

static void deny(struct claims_connection *connection, const char *reason) {
    send_message(connection->descriptor, PROTOCOL_DENY, reason, strlen(reason), NULL);
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

static bool is_stranger(const struct claims_connection *connection) {
    return connection->descriptor >= 0 && connection->rank < 0;
}

static uint32_t count_strangers(const struct claims *claims) {
    uint32_t strangers = 0;
    for (uint32_t i = 0; i < claims->count; i++)
        strangers += is_stranger(&claims->connections[i]);
    return strangers;
}

static bool is_silent(const struct claims_connection *connection) {
    char byte;
    return recv(connection->descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Drops the stranger who has waited longest and said nothing; a rank claims as soon as it has connected. Returns false when there is none. */
static bool drop_stranger(struct claims *claims) {
    struct claims_connection *oldest = NULL;
    for (uint32_t i = 0; i < claims->count; i++) {
        struct claims_connection *connection = &claims->connections[i];
        if (is_stranger(connection) && !connection->is_heard && (!oldest || connection->age < oldest->age) && is_silent(connection))
            oldest = connection;
    }
    if (oldest)
        connection_close(oldest);
    return oldest;
}

/* A read end opened anew, not a copy: whom the kernel tells of the launcher's death belongs to the open file. It outlives the connection, which a program
   that closes all its descriptors may end at any time. */
static int open_lifeline(const struct claims *claims) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", claims->lifeline[0]);
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* Sends the grant with its descriptors. Returns 0 or -1 with errno. */
static int send_grant(const struct claims *claims, int descriptor, const struct protocol_grant *message, int memfd) {
    int passed[PROTOCOL_DESCRIPTORS_MOST] = {[PROTOCOL_SEGMENT] = memfd,
                                             [PROTOCOL_LIFELINE] = open_lifeline(claims),
                                             [PROTOCOL_LISTENER] = message->rank == claims->first ? claims->leader_listener : -1};
    if (passed[PROTOCOL_LIFELINE] < 0)
        return -1;
    int status = send_message(descriptor, PROTOCOL_GRANT, message, sizeof *message, passed);
    close(passed[PROTOCOL_LIFELINE]);
    return status;
}

static void grant(struct claims *claims, struct claims_connection *connection, uint32_t number) {
    struct rank *rank = &claims->ranks[number - claims->first];
    struct segment *segment;
    while (!(segment = segments_get(&claims->segments, rank->generation)) && errno == EMFILE && drop_stranger(claims))
        ;
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
    message.generation = rank->generation;
    int status;
    while ((status = send_grant(claims, connection->descriptor, &message, segment->memfd)) && errno == EMFILE && drop_stranger(claims))
        ;
    if (status) {
        connection_close(connection);
        return;
    }
    connection->rank = (int)number;
    rank->has_claimed = true;
    rank->claimer = connection->pid;
    rank->generation++;
}

static bool is_local(const struct claims *claims, uint32_t rank) {
    return rank >= claims->first && rank - claims->first < claims->local_size;
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
    else if (!is_local(claims, claim.rank))
        deny(connection, "no such rank");
    else if (connection->rank >= 0 || claims_is_granted(claims, claim.rank))
        deny(connection, "another process is this rank");
    else
        grant(claims, connection, claim.rank);
}

static void handle_problem(struct claims *claims, uint32_t rank, const void *payload, size_t bytes) {
    struct protocol_problem problem;
    if (bytes != sizeof problem)
        return;
    memcpy(&problem, payload, sizeof problem);
    problem.id[sizeof problem.id - 1] = 0;
    problem.what[sizeof problem.what - 1] = 0;
    problem.cure[sizeof problem.cure - 1] = 0;
    claims->events.problem(claims->events.context, rank, &problem);
}

/* Of a child, which has the job's secret from its rank. */
static bool is_of_a_rank(const struct claims *claims, const struct protocol_claim *claim) {
    return claim->version == PROTOCOL_VERSION && cookie_is_right(claims, claim->cookie) && is_local(claims, claim->rank);
}

/* A forked child has no part in its parent's connection: it comes once, with the job's secret, to say why it cannot go on. */
static void handle_child(struct claims *claims, struct claims_connection *connection, const struct message *message) {
    struct protocol_child child;
    if (message->header.bytes != sizeof child) {
        deny(connection, "malformed message");
        return;
    }
    memcpy(&child, message->payload, sizeof child);
    if (is_of_a_rank(claims, &child.claim))
        handle_problem(claims, child.claim.rank, &child.problem, sizeof child.problem);
    connection_close(connection);
}

static void handle_child_trains(struct claims *claims, struct claims_connection *connection, const struct message *message) {
    struct protocol_claim claim;
    if (message->header.bytes != sizeof claim) {
        deny(connection, "malformed message");
        return;
    }
    memcpy(&claim, message->payload, sizeof claim);
    if (is_of_a_rank(claims, &claim))
        claims->events.child(claims->events.context, claim.rank);
    connection_close(connection);
}

static void handle_message(struct claims *claims, struct claims_connection *connection, struct message *message) {
    uint32_t bytes = message->header.bytes;
    message->payload[bytes] = 0;
    if (message->header.type == PROTOCOL_CLAIM) {
        handle_claim(claims, connection, message);
        return;
    }
    if (message->header.type == PROTOCOL_CHILD) {
        handle_child(claims, connection, message);
        return;
    }
    if (message->header.type == PROTOCOL_CHILD_TRAINS) {
        handle_child_trains(claims, connection, message);
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
        handle_problem(claims, rank, message->payload, bytes);
    else if (message->header.type == PROTOCOL_REPORT)
        claims->events.report(claims->events.context, rank, message->payload);
    else if (message->header.type == PROTOCOL_MEETING)
        claims->events.meeting(claims->events.context, rank, message->payload, bytes);
    else if (message->header.type == PROTOCOL_LOOK)
        claims->events.look(claims->events.context, rank, message->payload, bytes);
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
    connection->is_heard = true;
    handle_message(claims, connection, &message);
    connection->is_heard = false;
    return connection->descriptor >= 0;
}

static void read_messages(struct claims *claims, struct claims_connection *connection, int most) {
    for (int i = 0; i < most && connection->descriptor >= 0 && read_message(claims, connection); i++)
        ;
}

static void connection_ready(void *context, size_t index, short events) {
    struct claims *claims = context;
    read_messages(claims, &claims->connections[index], 64); /* then the others have their turn */
}

static struct claims_connection *free_slot(struct claims *claims) {
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->connections[i].descriptor < 0)
            return &claims->connections[i];
    return claims->count < CLAIMS_CONNECTIONS_MAX ? &claims->connections[claims->count++] : NULL;
}

/* Takes one connection in. Returns false when none waits. */
static bool accept_one(struct claims *claims) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (count_strangers(claims) >= CLAIMS_STRANGERS_MAX && !drop_stranger(claims)) {
        claims->is_full = true;
        return false;
    }
    int descriptor = accept4(claims->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0 && (errno == EMFILE || errno == ENFILE)) {
        claims->is_full = !drop_stranger(claims);
        return !claims->is_full;
    }
    if (descriptor < 0)
        return errno == ECONNABORTED || errno == EINTR;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.uid != geteuid()) {
        close(descriptor);
        return true;
    }
    struct claims_connection *connection = free_slot(claims);
    if (connection)
        *connection = (struct claims_connection){descriptor, -1, peer.pid, claims->accepted++, false};
    else
        close(descriptor);
    return true;
}

static void listener_ready(void *context, size_t index, short events) {
    struct claims *claims = context;
    for (int i = 0; i < 64 && accept_one(claims); i++)
        ;
}

void claims_add(struct claims *claims, struct loop *loop) {
    for (uint32_t i = 0; i < claims->count; i++)
        loop_add(loop, claims->connections[i].descriptor, POLLIN, connection_ready, claims, i);
    if (!claims->is_full)
        loop_add(loop, claims->listener, POLLIN, listener_ready, claims, 0);
    claims->is_full = false; /* until the next round, which something must have caused */
}

void claims_drain(struct claims *claims) {
    listener_ready(claims, 0, POLLIN);
    for (uint32_t i = 0; i < claims->count; i++)
        read_messages(claims, &claims->connections[i], MESSAGES_MAX);
}

void claims_clear(struct claims *claims) {
    for (uint32_t i = 0; i < claims->count; i++)
        if (claims->connections[i].descriptor >= 0)
            connection_close(&claims->connections[i]);
    int owned[] = {claims->listener, claims->lifeline[0], claims->lifeline[1]};
    for (size_t i = 0; i < sizeof(owned) / sizeof(*owned); i++)
        if (owned[i] >= 0)
            close(owned[i]);
    free(claims->connections);
    segments_clear(&claims->segments);
    claims->connections = NULL;
    claims->count = 0;
    claims->listener = -1;
}
