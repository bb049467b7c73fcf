/*
 * How the leaders find each other: each connects to the leaders of the hosts before its own, and is found by those after it. The sockets at which they listen
 * were made by the launchers, who have told each other the addresses: who comes early waits in the kernel's queue.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "barrier.h"
#include "clock.h"
#include "network.h"
#include "segment.h"

enum {
    MAGIC = 0x61726e32,
    SECRET_CHARS = 32,
    STRANGERS = 64, /* that have not said yet who they are; the oldest makes room */
    NAP_MS = 50,
    AGAIN_MS = 100,   /* between tries to connect */
    MOMENT_MS = 8000, /* for the launchers to say who has died: longer than --host-timeout is by default */
    TEXT = 1024,
};

/* What the one who connects says, and what it is answered. */
struct greeting {
    uint32_t magic, generation, host, world_size;
    char secret[SECRET_CHARS];
};

int network_describe(char *text, size_t room, uint32_t host) {
    const struct board_host *line = &segment.board->list[host];
    if (line->count == 1) {
        return snprintf(text, room, "host %u (%.*s, rank %u)", host, BOARD_HOST_CHARS - 1, line->name, line->first);
    }
    return snprintf(text, room, "host %u (%.*s, ranks %u to %u)", host, BOARD_HOST_CHARS - 1, line->name, line->first,
                    line->first + line->count - 1);
}

/* Not by nanosleep(), in which the program's handlers run (shim/signals.c). */
static void nap_ms(int milliseconds) {
    poll(NULL, 0, milliseconds);
}

void network_fail_gone(uint32_t host, const char *how) {
    char text[TEXT];
    for (int slept = 0; slept < MOMENT_MS; slept += NAP_MS) { /* not spent asleep: the deadline of a test may be shorter */
        barrier_look_up();
        if (segment_is_late()) {
            break;
        }
        nap_ms(NAP_MS);
    }
    int used = network_describe(text, sizeof text, host);
    snprintf(text + used, sizeof text - (size_t)used, " is gone: %s; rank %u was waiting in \"%s\"", how, segment.options.rank,
             segment.label);
    segment.options.fail("AR-HOST-GONE", text);
}

/* ---- waiting, until the deadline of comm_open() */

__attribute__((noreturn)) static void fail_connect(uint32_t host, const char *what) {
    char text[TEXT];
    int used = snprintf(text, sizeof text, "rank %u has no connection to ", segment.options.rank);
    used += network_describe(text + used, sizeof text - (size_t)used, host);
    snprintf(text + used, sizeof text - (size_t)used, " after %.1f s: %s", (double)segment.options.collective_timeout_ms / 1000, what);
    segment.options.fail("AR-HOST-CONNECT", text);
}

static void look_up(uint32_t host, const char *what) {
    barrier_look_up();
    if (segment_is_late()) {
        fail_connect(host, what);
    }
}

static struct greeting greeting_of(void) {
    struct greeting greeting = {MAGIC, segment.options.generation, segment.host, segment.options.world_size, {0}};
    memcpy(greeting.secret, segment.options.secret, strnlen(segment.options.secret, SECRET_CHARS));
    return greeting;
}

/* As long for a wrong first character as for a wrong last one. */
static int is_ours(const struct greeting *greeting) {
    struct greeting own = greeting_of();
    unsigned difference = greeting->magic ^ own.magic;
    difference |= (greeting->generation ^ own.generation) | (greeting->world_size ^ own.world_size);
    for (int i = 0; i < SECRET_CHARS; i++) {
        difference |= (unsigned)(unsigned char)(greeting->secret[i] ^ own.secret[i]);
    }
    return !difference && greeting->host < segment.hosts;
}

static void set_options(int descriptor) {
    int yes = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes); /* a message waits for no other */
    /* Hours may lie between two collectives, while data are prepared: a firewall between the hosts forgets a connection that is silent for some minutes.
       Whether a host is there is the launchers' to know. */
    int between = 30 /* seconds */, many = 127;
    setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &between, sizeof between);
    setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
    setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &many, sizeof many);
    setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
}

/* ---- to the hosts before this one */

static int connect_once(uint32_t host) {
    const struct board_host *line = &segment.board->list[host];
    struct sockaddr_storage address = {0};
    int error = 0;
    socklen_t size = sizeof error;
    memcpy(&address, line->address, sizeof line->address);
    int descriptor = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) {
        return -1;
    }
    struct pollfd ready = {descriptor, POLLOUT, 0};
    if (connect(descriptor, (struct sockaddr *)&address, line->address_bytes) && errno != EINPROGRESS) {
        close(descriptor);
        return -1;
    }
    while (poll(&ready, 1, NAP_MS) <= 0) {
        look_up(host, "it does not answer");
    }
    if (getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) || error) {
        close(descriptor);
        errno = error;
        return -1;
    }
    return descriptor;
}

/* 1: the answer is right; 0: it has closed; -1: it is not one of ours. */
static int exchange_greetings(int descriptor, uint32_t host) {
    struct greeting own = greeting_of(), answer;
    size_t got = 0;
    if (send(descriptor, &own, sizeof own, MSG_NOSIGNAL) != (ssize_t)sizeof own) {
        return 0;
    }
    while (got < sizeof answer) {
        struct pollfd ready = {descriptor, POLLIN, 0};
        poll(&ready, 1, NAP_MS);
        ssize_t n = recv(descriptor, (char *)&answer + got, sizeof answer - got, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            return 0;
        }
        got += n > 0 ? (size_t)n : 0;
        look_up(host, "its first rank has not come to this program's start");
    }
    return is_ours(&answer) && answer.host == host ? 1 : -1;
}

static struct own_descriptor connect_to(uint32_t host) {
    for (;;) {
        int descriptor = connect_once(host), outcome = descriptor < 0 ? 0 : exchange_greetings(descriptor, host);
        if (outcome == 1) {
            set_options(descriptor);
            return own_take(descriptor);
        }
        if (outcome < 0) {
            fail_connect(host, "something else answers at its address");
        }
        if (descriptor >= 0) {
            close(descriptor);
        }
        look_up(host, descriptor < 0 ? strerrordesc_np(errno) : "it closes every connection");
        nap_ms(AGAIN_MS);
    }
}

/* ---- from the hosts after it */

struct stranger {
    int descriptor; /* -1: free */
    uint32_t got;
    uint64_t age;
    struct greeting said;
};

static struct stranger strangers[STRANGERS];

static void stranger_drop(struct stranger *stranger) {
    close(stranger->descriptor);
    stranger->descriptor = -1;
}

static void take_stranger(int descriptor, uint64_t age) {
    struct stranger *place = &strangers[0];
    for (int i = 0; i < STRANGERS; i++) {
        if (strangers[i].descriptor < 0) {
            place = &strangers[i];
            break;
        }
        place = strangers[i].age < place->age ? &strangers[i] : place;
    }
    if (place->descriptor >= 0) {
        stranger_drop(place);
    }
    *place = (struct stranger){.descriptor = descriptor, .age = age};
}

/* Reads on; true when it was a host that was missing. */
static int hear_stranger(struct stranger *stranger, struct own_descriptor *peers) {
    ssize_t n = recv(stranger->descriptor, (char *)&stranger->said + stranger->got, sizeof stranger->said - stranger->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    stranger->got += n > 0 ? (uint32_t)n : 0;
    if (n > 0 && stranger->got < sizeof stranger->said) {
        return 0;
    }
    struct greeting own = greeting_of();
    if (n <= 0 || !is_ours(&stranger->said) || stranger->said.host <= segment.host || peers[stranger->said.host].number >= 0 ||
        send(stranger->descriptor, &own, sizeof own, MSG_NOSIGNAL) != (ssize_t)sizeof own) {
        stranger_drop(stranger);
        return 0;
    }
    set_options(stranger->descriptor);
    peers[stranger->said.host] = own_take(stranger->descriptor);
    stranger->descriptor = -1;
    return 1;
}

static void accept_all(struct own_descriptor *peers) {
    uint32_t missing = segment.hosts - segment.host - 1, late = segment.host + 1;
    uint64_t accepted = 0;
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i].descriptor = -1;
    }
    while (missing) {
        struct pollfd polled[STRANGERS + 1];
        for (int i = 0; i < STRANGERS; i++) {
            polled[i] = (struct pollfd){strangers[i].descriptor, POLLIN, 0};
        }
        polled[STRANGERS] = (struct pollfd){segment.options.listener, POLLIN, 0};
        poll(polled, STRANGERS + 1, NAP_MS);
        for (int i = 0; i < STRANGERS && missing; i++) {
            if (strangers[i].descriptor >= 0) {
                missing -= (uint32_t)hear_stranger(&strangers[i], peers);
            }
        }
        int descriptor = accept4(segment.options.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (descriptor >= 0) {
            take_stranger(descriptor, ++accepted);
        }
        while (late < segment.hosts && peers[late].number >= 0) {
            late++;
        }
        look_up(late < segment.hosts ? late : segment.host, "its first rank has not come to this program's start");
    }
    for (int i = 0; i < STRANGERS; i++) {
        if (strangers[i].descriptor >= 0) {
            stranger_drop(&strangers[i]);
        }
    }
}

void network_connect(struct own_descriptor *peers) {
    int saved_errno = errno;
    segment.label = "start";
    segment_wait_begins();
    for (uint32_t host = 0; host < segment.hosts; host++) {
        peers[host] = (struct own_descriptor){-1, 0, 0};
    }
    for (uint32_t host = 0; host < segment.host; host++) {
        peers[host] = connect_to(host);
    }
    accept_all(peers);
    close(segment.options.listener);
    segment.options.listener = -1;
    errno = saved_errno;
}
