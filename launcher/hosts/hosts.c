#define _GNU_SOURCE
#include "hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../clock.h"

/* Half of this waits for another launcher at most: it reads as soon as it lives. */
#define OUT_MAX (8u << 20)
#define IN_BYTES (sizeof(struct hosts_header) + HOSTS_MESSAGE_MAX)

void hosts_close(struct hosts_peer *peer) {
    if (peer->descriptor >= 0)
        close(peer->descriptor);
    free(peer->out);
    free(peer->in);
    *peer = (struct hosts_peer){
        .descriptor = -1, .is_paused = peer->is_paused, .is_done = peer->is_done, .is_lost = peer->is_lost, .code = peer->code};
}

static void gone(struct hosts *hosts, uint32_t host, const char *how) {
    bool was_done = hosts->peers[host].is_done;
    hosts_close(&hosts->peers[host]);
    if (!was_done)
        hosts->events.gone(hosts->events.context, host, how);
}

/* ---- writing */

static bool out_grow(struct hosts_peer *peer, size_t bytes) {
    if (peer->out_begin) {
        memmove(peer->out, peer->out + peer->out_begin, peer->out_end - peer->out_begin);
        peer->out_end -= peer->out_begin;
        peer->out_begin = 0;
    }
    if (peer->out_end + bytes <= peer->out_capacity)
        return true;
    size_t capacity = 2 * (peer->out_end + bytes);
    char *out = capacity <= OUT_MAX ? realloc(peer->out, capacity) : NULL;
    if (!out)
        return false;
    peer->out = out;
    peer->out_capacity = capacity;
    return true;
}

static void peer_flush(struct hosts_peer *peer) {
    while (peer->descriptor >= 0 && peer->out_begin < peer->out_end) {
        ssize_t n = send(peer->descriptor, peer->out + peer->out_begin, peer->out_end - peer->out_begin, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) /* full, or closed: reading tells */
            return;
        peer->out_begin += (size_t)n;
    }
}

void hosts_flush(struct hosts *hosts) {
    for (uint32_t host = 0; host < hosts->count; host++)
        peer_flush(&hosts->peers[host]);
}

void hosts_tell_peer(struct hosts_peer *peer, uint32_t type, const void *body, size_t bytes) {
    struct hosts_header header = {type, (uint32_t)bytes};
    if (peer->descriptor < 0)
        return;
    if (!out_grow(peer, sizeof header + bytes)) {
        peer->is_full = true;
        return;
    }
    memcpy(peer->out + peer->out_end, &header, sizeof header);
    if (bytes)
        memcpy(peer->out + peer->out_end + sizeof header, body, bytes);
    peer->out_end += sizeof header + bytes;
    peer_flush(peer);
}

void hosts_tell(struct hosts *hosts, uint32_t host, uint32_t type, const void *body, size_t bytes) {
    hosts_tell_peer(&hosts->peers[host], type, body, bytes);
}

void hosts_tell_all(struct hosts *hosts, int except, uint32_t type, const void *body, size_t bytes) {
    for (uint32_t host = 0; host < hosts->count; host++)
        if ((int)host != except)
            hosts_tell(hosts, host, type, body, bytes);
}

void hosts_tell_ready(struct hosts *hosts, uint32_t type, const void *body, size_t bytes) {
    for (uint32_t host = 0; host < hosts->count; host++) {
        struct hosts_peer *peer = &hosts->peers[host];
        peer_flush(peer);
        if (peer->out_begin == peer->out_end)
            hosts_tell_peer(peer, type, body, bytes);
    }
}

/* ---- reading */

/* Drops the message at the beginning of the buffer, which was handed out last. */
static void in_drop(struct hosts_peer *peer) {
    struct hosts_header header;
    if (peer->in_bytes < sizeof header)
        return;
    memcpy(&header, peer->in, sizeof header);
    if (peer->in_bytes < sizeof header + header.bytes)
        return;
    peer->in_bytes -= sizeof header + header.bytes;
    memmove(peer->in, peer->in + sizeof header + header.bytes, peer->in_bytes);
}

/* 1: a whole message is there; -1: it is longer than any of ours. */
static int in_look(const struct hosts_peer *peer, struct hosts_header *header, const char **body) {
    if (peer->in_bytes < sizeof *header)
        return 0;
    memcpy(header, peer->in, sizeof *header);
    if (header->bytes > HOSTS_MESSAGE_MAX)
        return -1;
    *body = peer->in + sizeof *header;
    return peer->in_bytes >= sizeof *header + header->bytes;
}

int hosts_read(struct hosts_peer *peer, struct hosts_header *header, const char **body) {
    if (!peer->in && !(peer->in = malloc(IN_BYTES)))
        return -1;
    in_drop(peer);
    int found;
    while (!(found = in_look(peer, header, body))) {
        ssize_t n = recv(peer->descriptor, peer->in + peer->in_bytes, IN_BYTES - peer->in_bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return -1;
        peer->in_bytes += (size_t)n;
    }
    return found;
}

static void peer_ready(void *context, size_t host, short events) {
    struct hosts *hosts = context;
    struct hosts_peer *peer = &hosts->peers[host];
    struct hosts_header header;
    const char *body;
    int found = 0;
    peer_flush(peer);
    while (peer->descriptor >= 0 && (found = hosts_read(peer, &header, &body)) > 0) {
        peer->heard_ms = clock_ms();
        peer->is_paused = header.type == HOSTS_PAUSE;
        hosts->events.message(hosts->events.context, (uint32_t)host, header.type, body, header.bytes);
    }
    if (peer->descriptor >= 0 && found < 0)
        gone(hosts, (uint32_t)host, "its accel-run has ended without a word");
}

void hosts_add(struct hosts *hosts, struct loop *loop) {
    for (uint32_t host = 0; host < hosts->count; host++) {
        const struct hosts_peer *peer = &hosts->peers[host];
        short wanted = (short)(POLLIN | (peer->out_begin < peer->out_end ? POLLOUT : 0));
        loop_add(loop, peer->descriptor, wanted, peer_ready, hosts, host);
    }
}

/* ---- time */

/* Until when nothing need be heard of it. */
static uint64_t patience_of(const struct hosts *hosts, const struct hosts_peer *peer) {
    uint64_t pause_ms = peer->is_paused && !hosts->ends_ms ? hosts->pause_ms : 0;
    uint64_t since_ms = peer->is_paused && hosts->ends_ms > peer->heard_ms ? hosts->ends_ms : peer->heard_ms;
    return since_ms + pause_ms + hosts->timeout_ms;
}

void hosts_on_time(struct hosts *hosts, uint64_t now_ms) {
    char how[96];
    for (uint32_t host = 0; host < hosts->count; host++) {
        const struct hosts_peer *peer = &hosts->peers[host];
        if (peer->descriptor >= 0 && peer->is_full) { /* not when it happens: the message that is being handled may be its own */
            snprintf(how, sizeof how, "it does not read what it is told: %zu bytes wait for it", peer->out_end - peer->out_begin);
            gone(hosts, host, how);
        }
        if (peer->descriptor < 0 || now_ms < patience_of(hosts, peer))
            continue;
        snprintf(how, sizeof how, "it %s for %.1f s",
                 peer->is_paused ? "is stopped (Ctrl-Z), and has not been heard" : "has not been heard",
                 (double)(now_ms - peer->heard_ms) / 1000);
        gone(hosts, host, how);
    }
}

void hosts_forget_clocks(struct hosts *hosts, uint64_t now_ms) {
    for (uint32_t host = 0; host < hosts->count; host++)
        hosts->peers[host].heard_ms = now_ms;
}

void hosts_clear(struct hosts *hosts) {
    for (uint32_t host = 0; hosts->peers && host < hosts->count; host++)
        hosts_close(&hosts->peers[host]);
    if (hosts->leader_listener >= 0)
        close(hosts->leader_listener);
    if (hosts->looks >= 0)
        close(hosts->looks);
    free(hosts->peers);
    hosts->peers = NULL;
    hosts->leader_listener = hosts->looks = -1;
}
