#define _GNU_SOURCE
#include "rendezvous.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../clock.h"
#include "../hash.h"

enum { FIRST_NAP_MS = 1, LONGEST_NAP_MS = 20 };

static socklen_t address_of(const char *key, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "accel-run-join-%u-%016llx", (unsigned)geteuid(),
                     (unsigned long long)hash_text(HASH_BEGIN, key));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool is_own_user(int connection) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid() && peer.pid > 0;
}

/* Until the descriptor can be read. Returns whether it can. */
static bool await_readable(int descriptor, uint64_t deadline_ms) {
    for (;;) {
        uint64_t now = clock_ms(), left = now < deadline_ms ? deadline_ms - now : 0;
        struct pollfd ready = {descriptor, POLLIN, 0};
        int polled = poll(&ready, 1, left < INT_MAX ? (int)left : INT_MAX);
        if (polled > 0 || (polled == 0 && left < INT_MAX) || (polled < 0 && errno != EINTR))
            return polled > 0;
    }
}

int rendezvous_listen(const char *key) {
    struct sockaddr_un address;
    socklen_t length = address_of(key, &address);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (listener < 0)
        return -1;
    if (bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 256) == 0)
        return listener;
    int error = errno;
    close(listener);
    errno = error;
    return -1;
}

/* Takes one front in. */
static void hear_one(int listener, uint32_t world_size, uint64_t deadline_ms, struct rendezvous_hello *hellos, int *connections) {
    struct rendezvous_hello hello;
    int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0)
        return;
    bool is_one = is_own_user(connection) && await_readable(connection, deadline_ms) &&
                  recv(connection, &hello, sizeof hello, MSG_TRUNC) == (ssize_t)sizeof hello && hello.rank > 0 && hello.rank < world_size &&
                  connections[hello.rank] < 0;
    if (!is_one) {
        close(connection);
        return;
    }
    connections[hello.rank] = connection;
    hellos[hello.rank] = hello;
}

static uint32_t count_missing(const int *connections, uint32_t world_size) {
    uint32_t missing = 0;
    for (uint32_t rank = 1; rank < world_size; rank++)
        missing += connections[rank] < 0;
    return missing;
}

uint32_t rendezvous_hear(int listener, uint32_t world_size, uint64_t deadline_ms, struct rendezvous_hello *hellos, int *connections) {
    while (count_missing(connections, world_size) && await_readable(listener, deadline_ms))
        hear_one(listener, world_size, deadline_ms, hellos, connections);
    return count_missing(connections, world_size);
}

int rendezvous_answer(int connection, const struct rendezvous_answer *answer, const int *descriptors) {
    struct iovec part = {(void *)(uintptr_t)answer, sizeof *answer};
    union {
        char bytes[CMSG_SPACE(RENDEZVOUS_DESCRIPTORS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptors) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *entry = CMSG_FIRSTHDR(&message);
        *entry = (struct cmsghdr){CMSG_LEN(RENDEZVOUS_DESCRIPTORS * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(entry), descriptors, RENDEZVOUS_DESCRIPTORS * sizeof(int));
    }
    return sendmsg(connection, &message, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* Rank 0 may not be there yet. */
int rendezvous_greet(const char *key, const struct rendezvous_hello *hello, uint64_t deadline_ms) {
    struct sockaddr_un address;
    socklen_t length = address_of(key, &address);
    for (int nap = FIRST_NAP_MS;; nap = 2 * nap < LONGEST_NAP_MS ? 2 * nap : LONGEST_NAP_MS) {
        int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (connection < 0)
            return -1;
        if (connect(connection, (struct sockaddr *)&address, length) == 0 && is_own_user(connection) &&
            send(connection, hello, sizeof *hello, MSG_NOSIGNAL) == (ssize_t)sizeof *hello)
            return connection;
        close(connection);
        if (clock_ms() >= deadline_ms)
            return -1;
        poll(NULL, 0, nap);
    }
}

int rendezvous_await(int connection, uint64_t deadline_ms, struct rendezvous_answer *answer, int *descriptors) {
    struct iovec part = {answer, sizeof *answer};
    union {
        char bytes[CMSG_SPACE(RENDEZVOUS_DESCRIPTORS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    for (int i = 0; i < RENDEZVOUS_DESCRIPTORS; i++)
        descriptors[i] = -1;
    if (!await_readable(connection, deadline_ms) || recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof *answer)
        return -1;
    struct cmsghdr *entry = CMSG_FIRSTHDR(&message);
    if (entry && entry->cmsg_level == SOL_SOCKET && entry->cmsg_type == SCM_RIGHTS &&
        entry->cmsg_len == CMSG_LEN(RENDEZVOUS_DESCRIPTORS * sizeof(int)))
        memcpy(descriptors, CMSG_DATA(entry), RENDEZVOUS_DESCRIPTORS * sizeof(int));
    return 0;
}
