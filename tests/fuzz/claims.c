// sources: launcher/claims.c launcher/rivals.c launcher/claims_socket.c launcher/process.c launcher/secret.c launcher/segment.c launcher/loop.c
/*
 * The launcher's end of the claim socket, fed by a peer that sends anything: no crash, no leak, no grant without the secret.
 *
 * Input: messages, each after a byte of flags and two bytes of length. Flag 1: the right secret is written into it where a claim has it; flag 2: the
 * header tells its true length; flag 4: from a second peer; flag 8: with a descriptor.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../launcher/claims.h"

enum { RANKS = 2, PEERS = 2 };

static bool secret_was_sent;

static void hear_log(void *context, uint32_t rank, char level, const char *text) {
    if (rank >= RANKS || strlen(text) > PROTOCOL_TEXT_MAX)
        abort();
}

static void hear_problem(void *context, uint32_t rank, const struct protocol_problem *problem) {
    if (!secret_was_sent || strlen(problem->id) >= sizeof problem->id || strlen(problem->what) >= sizeof problem->what ||
        strlen(problem->cure) >= sizeof problem->cure)
        abort();
}

static void hear_report(void *context, uint32_t rank, const char *text) {
    if (rank >= RANKS || strlen(text) > PROTOCOL_TEXT_MAX)
        abort();
}

static void hear_child(void *context, uint32_t rank) {
    (void)context;
    if (!secret_was_sent || rank >= RANKS)
        abort();
}

static void hear_child_writes(void *context, const struct protocol_problem *warning) {
    hear_problem(context, 0, warning);
}

static void hear_signalled(void *context, uint32_t rank, bool is_granted, int signal) {
    (void)context, (void)is_granted, (void)signal;
    if (rank >= RANKS)
        abort();
}

static void hear_look(void *context, uint32_t rank, const char *body, uint32_t bytes) {
    (void)context, (void)body, (void)bytes;
    if (rank >= RANKS)
        abort();
}

static void hear_meeting(void *context, uint32_t rank, const char *body, uint32_t bytes) {
    if (rank >= RANKS || bytes > PROTOCOL_TEXT_MAX)
        abort();
}

static void connect_peers(struct claims *claims, int *peers) {
    for (int i = 0; i < PEERS; i++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends))
            abort();
        peers[i] = ends[0];
        claims->connections[i] = (struct claims_connection){.descriptor = ends[1], .rank = -1, .pid = getpid(), .age = (uint64_t)i};
    }
    claims->count = PEERS;
}

static void send_with_descriptor(int peer, const char *message, size_t bytes) {
    int one = 0;
    char control[CMSG_SPACE(sizeof one)] __attribute__((aligned(8))) = {0};
    struct iovec part = {(void *)(uintptr_t)message, bytes};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *entry = CMSG_FIRSTHDR(&header);
    *entry = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof one)};
    memcpy(CMSG_DATA(entry), &one, sizeof one);
    sendmsg(peer, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_message(struct claims *claims, const int *peers, uint8_t flags, char *message, size_t bytes) {
    size_t secret = sizeof(struct protocol_header) + offsetof(struct protocol_claim, cookie);
    bool has_room = bytes >= secret + PROTOCOL_COOKIE_CHARS;
    if ((flags & 1) && has_room)
        memcpy(message + secret, claims->cookie, PROTOCOL_COOKIE_CHARS);
    secret_was_sent |= has_room && !memcmp(message + secret, claims->cookie, PROTOCOL_COOKIE_CHARS); /* the fuzzer has found it, too */
    if ((flags & 2) && bytes >= sizeof(struct protocol_header)) {
        uint32_t told = (uint32_t)(bytes - sizeof(struct protocol_header));
        memcpy(message + offsetof(struct protocol_header, bytes), &told, sizeof told);
    }
    int peer = peers[(flags & 4) != 0];
    if (flags & 8)
        send_with_descriptor(peer, message, bytes);
    else
        send(peer, message, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    claims_drain(claims);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char message[2 * PROTOCOL_TEXT_MAX];
    struct rank ranks[RANKS] = {0};
    struct claims claims = {.listener = -1,
                            .ranks = ranks,
                            .events = {.log = hear_log,
                                       .problem = hear_problem,
                                       .report = hear_report,
                                       .child = hear_child,
                                       .child_writes = hear_child_writes,
                                       .meeting = hear_meeting,
                                       .look = hear_look,
                                       .signalled = hear_signalled},
                            .local_size = RANKS,
                            .leader_listener = -1};
    int peers[PEERS];
    claims.segments.world_size = RANKS;
    claims.grant.world_size = RANKS;
    memset(claims.cookie, 'c', PROTOCOL_COOKIE_CHARS);
    if (pipe2(claims.lifeline, O_CLOEXEC))
        abort();
    claims.connections = calloc(CLAIMS_CONNECTIONS_MAX, sizeof *claims.connections);
    secret_was_sent = false;
    connect_peers(&claims, peers);
    while (size >= 3) {
        size_t bytes = (size_t)data[1] << 8 | data[2];
        uint8_t flags = data[0];
        data += 3;
        size -= 3;
        if (bytes > size)
            bytes = size;
        if (bytes > sizeof message)
            bytes = sizeof message;
        memcpy(message, data, bytes);
        send_message(&claims, peers, flags, message, bytes);
        data += bytes;
        size -= bytes;
    }
    if ((ranks[0].has_claimed || ranks[1].has_claimed) && !secret_was_sent)
        abort();
    for (int i = 0; i < PEERS; i++)
        close(peers[i]);
    claims_drain(&claims);
    claims_clear(&claims);
    return 0;
}
