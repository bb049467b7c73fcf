#define _GNU_SOURCE
#include "claims_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "process.h"
#include "secret.h"

/* More than a socket's buffer holds: what a dead rank has left there is read to its end. */
#define MESSAGES_MAX 4096

/* "" where /proc does not tell. */
static void find_place(char *place, size_t size) {
    struct stat network;
    char boot[PROTOCOL_PLACE_BOOT + 1] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    bool is_known = fd >= 0 && read(fd, boot, PROTOCOL_PLACE_BOOT) == PROTOCOL_PLACE_BOOT && !stat("/proc/self/ns/net", &network);
    *place = 0;
    if (is_known)
        snprintf(place, size, "-" PROTOCOL_PLACE, boot, (unsigned long long)network.st_ino);
    if (fd >= 0)
        close(fd);
}

int claims_open(struct claims *claims) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char random[17], place[PROTOCOL_PLACE_CHARS + 10];
    claims->listener = claims->lifeline[0] = claims->lifeline[1] = -1;
    if (pipe2(claims->lifeline, O_CLOEXEC) || secret_make(random, 8) || secret_make(claims->cookie, PROTOCOL_COOKIE_CHARS / 2))
        return -1;
    find_place(place, sizeof place);
    int n = snprintf(claims->name, sizeof claims->name, "accel-run-%d-%s%s", (int)getpid(), random, place);
    memcpy(address.sun_path + 1, claims->name, (size_t)n);
    claims->connections = calloc(CLAIMS_CONNECTIONS_MAX, sizeof *claims->connections);
    claims->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (!claims->connections || claims->listener < 0)
        return -1;
    if (bind(claims->listener, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)))
        return -1;
    return listen(claims->listener, 256);
}

void claims_close(struct claims_connection *connection) {
    close(connection->descriptor);
    *connection = (struct claims_connection){.descriptor = -1, .rank = -1};
}

int claims_send(int descriptor, uint32_t type, const void *payload, size_t bytes, const int *passed) {
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

bool claims_drop_stranger(struct claims *claims) {
    struct claims_connection *oldest = NULL;
    for (uint32_t i = 0; i < claims->count; i++) {
        struct claims_connection *connection = &claims->connections[i];
        if (is_stranger(connection) && !connection->is_heard && (!oldest || connection->age < oldest->age) && is_silent(connection))
            oldest = connection;
    }
    if (oldest)
        claims_close(oldest);
    return oldest;
}

/* Reads one message. Returns false when there is none (or the connection has ended). */
static bool read_message(struct claims *claims, struct claims_connection *connection) {
    struct message message;
    ssize_t n = recv(connection->descriptor, &message, sizeof message - 1, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        if (connection->is_granted)
            claims->ranks[(uint32_t)connection->rank - claims->first].released = process_a_moment_ago();
        claims_close(connection);
        return false;
    }
    if ((size_t)n < sizeof message.header || (size_t)n > sizeof message - 1 || message.header.bytes != (size_t)n - sizeof message.header) {
        claims_deny(connection, "malformed message");
        return false;
    }
    connection->is_heard = true;
    claims_handle(claims, connection, &message);
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
    if (count_strangers(claims) >= CLAIMS_STRANGERS_MAX && !claims_drop_stranger(claims)) {
        claims->is_full = true;
        return false;
    }
    int descriptor = accept4(claims->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0 && (errno == EMFILE || errno == ENFILE)) {
        claims->is_full = !claims_drop_stranger(claims);
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
        *connection = (struct claims_connection){.descriptor = descriptor, .rank = -1, .pid = peer.pid, .age = claims->accepted++};
    else
        close(descriptor);
    return true;
}

static void listener_ready(void *context, size_t index, short events) {
    struct claims *claims = context;
    for (int i = 0; i < 64 && accept_one(claims); i++)
        ;
}

/* A script may run any number of programs: of those that all ranks have left no memory is kept. */
static bool is_over(const struct claims *claims, uint32_t segment) {
    for (uint32_t i = 0; i < claims->local_size; i++)
        if (claims->ranks[i].segments < segment + 2) /* it is in this one, or was last */
            return false;
    for (uint32_t i = 0; i < claims->count; i++) {
        const struct claims_connection *connection = &claims->connections[i];
        if (connection->descriptor >= 0 && connection->rank >= 0 && connection->segment == segment)
            return false;
    }
    return true;
}

void claims_add(struct claims *claims, struct loop *loop) {
    while (claims->segments.released < claims->segments.count && is_over(claims, claims->segments.released))
        segments_release(&claims->segments);
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
            claims_close(&claims->connections[i]);
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
