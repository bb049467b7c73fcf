#define _GNU_SOURCE
#include "network.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "barrier.h"
#include "clock.h"
#include "segment.h"

enum {
    QUEUE_ENTRIES = 1024, /* for each direction of a connection: a collective queues one for each rank of a host at most, and a few more */
    VECTOR_ENTRIES = 16,  /* of them handed to the kernel at a time */
    TRIES = 64,           /* without anything moving, before the kernel is asked to wake us */
    NAP_MS = 50,
    TEXT = 1024,
};

struct entry {
    unsigned char *data;
    size_t bytes; /* still to go */
};

struct queue {
    struct entry entries[QUEUE_ENTRIES];
    uint64_t done, queued; /* entries; number n at n % QUEUE_ENTRIES */
};

struct peer {
    struct queue out, in;
};

/* Of this process. Mapped for as many hosts as there are, NULL on all but leaders. */
static struct own_descriptor *sockets;
static struct peer *peers;
static struct pollfd *polled;
static size_t mapped;

void network_open(void) {
    size_t each = sizeof *sockets + sizeof *peers + sizeof *polled;
    mapped = segment.hosts * each;
    unsigned char *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        segment.options.fail("AR-HOST-CONNECT", "no memory for the connections to the other hosts");
    }
    peers = (struct peer *)(void *)memory;
    sockets = (struct own_descriptor *)(void *)(memory + segment.hosts * sizeof *peers);
    polled = (struct pollfd *)(void *)(memory + segment.hosts * (sizeof *peers + sizeof *sockets));
    network_connect(sockets);
}

void network_forget(void) {
    for (uint32_t host = 0; peers && host < segment.hosts; host++) {
        own_close(&sockets[host]);
    }
    if (peers) {
        munmap(peers, mapped);
    }
    peers = NULL;
    sockets = NULL;
}

void network_check(void) {
    char text[TEXT];
    for (uint32_t host = 0; host < segment.hosts; host++) {
        if (host != segment.host && !own_is_there(&sockets[host])) {
            snprintf(text, sizeof text,
                     "the program has closed the connection of rank %u to host %u: does it close all descriptors it finds?",
                     segment.options.rank, host);
            segment.options.fail("AR-HOST-CONNECT", text);
        }
    }
}

static void queue_put(struct queue *queue, unsigned char *data, size_t bytes) {
    if (queue->queued - queue->done == QUEUE_ENTRIES) { /* both sides know from global facts how many come: this is never reached */
        segment.options.fail("AR-HOST-CONNECT", "more messages between hosts than accel-run foresees: this is a defect, please report it");
    }
    queue->entries[queue->queued++ % QUEUE_ENTRIES] = (struct entry){data, bytes};
}

void network_send(uint32_t host, const void *data, size_t bytes) {
    queue_put(&peers[host].out, (unsigned char *)(uintptr_t)data, bytes);
}

void network_receive(uint32_t host, void *data, size_t bytes) {
    queue_put(&peers[host].in, data, bytes);
}

uint64_t network_mark(void) {
    return peers[segment.host ? 0 : 1].in.queued;
}

/* The first entries of a queue that have bytes left; empty ones before them are done. */
static size_t queue_vector(struct queue *queue, struct iovec *vector) {
    size_t count = 0;
    while (queue->done < queue->queued && !queue->entries[queue->done % QUEUE_ENTRIES].bytes) {
        queue->done++;
    }
    for (uint64_t index = queue->done; index < queue->queued && count < VECTOR_ENTRIES; index++) {
        struct entry *entry = &queue->entries[index % QUEUE_ENTRIES];
        if (entry->bytes) {
            vector[count++] = (struct iovec){entry->data, entry->bytes};
        }
    }
    return count;
}

static void queue_advance(struct queue *queue, size_t bytes) {
    while (queue->done < queue->queued) {
        struct entry *entry = &queue->entries[queue->done % QUEUE_ENTRIES];
        size_t moved = bytes < entry->bytes ? bytes : entry->bytes;
        entry->data += moved;
        entry->bytes -= moved;
        bytes -= moved;
        if (entry->bytes) {
            return;
        }
        queue->done++;
    }
}

/* Moves what can be moved on one connection now, in one direction. Returns whether anything was. */
static int move_queue(uint32_t host, struct queue *queue, int is_out) {
    struct iovec vector[VECTOR_ENTRIES];
    int moved = 0;
    for (size_t count; (count = queue_vector(queue, vector));) {
        struct msghdr message = {.msg_iov = vector, .msg_iovlen = count};
        ssize_t bytes = is_out ? sendmsg(sockets[host].number, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
                               : recvmsg(sockets[host].number, &message, MSG_DONTWAIT);
        if (bytes < 0 && errno == EINTR) {
            continue;
        }
        if (bytes < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
            return moved;
        }
        if (bytes <= 0) {
            network_fail_gone(host, bytes ? strerrordesc_np(errno) : "it has closed the connection");
        }
        queue_advance(queue, (size_t)bytes);
        moved = 1;
    }
    return moved;
}

static int move_all(void) {
    int moved = 0;
    for (uint32_t host = 0; host < segment.hosts; host++) {
        if (host != segment.host) {
            moved |= move_queue(host, &peers[host].out, 1);
            moved |= move_queue(host, &peers[host].in, 0);
        }
    }
    return moved;
}

/* The first host of which fewer than `mark` receives are complete, or to which something is still to be sent; else hosts. */
static uint32_t first_late(uint64_t mark, int with_sends) {
    for (uint32_t host = 0; host < segment.hosts; host++) {
        if (host != segment.host && (peers[host].in.done < mark || (with_sends && (peers[host].out.done < peers[host].out.queued ||
                                                                                   peers[host].in.done < peers[host].in.queued)))) {
            return host;
        }
    }
    return segment.hosts;
}

/* Of the host's ranks the first that has not come, as far as this board has heard; its leader may wait for that one. */
static uint32_t late_rank(uint32_t host) {
    uint32_t leader = segment_leader(host);
    for (uint32_t rank = leader; rank < leader + segment.board->list[host].count; rank++) {
        if (atomic_load(&segment.board->ranks[rank].collective) < segment.sequence) {
            return rank;
        }
    }
    return leader;
}

__attribute__((noreturn)) static void fail_late(uint32_t host) {
    char text[TEXT];
    int used = network_describe(text, sizeof text, host);
    used += snprintf(text + used, sizeof text - (size_t)used, " has not come; ");
    used += barrier_describe(text + used, sizeof text - (size_t)used, late_rank(host));
    snprintf(text + used, sizeof text - (size_t)used, "rank %u has waited %.1f s in \"%s\" (collective %llu)", segment.options.rank,
             (double)segment.options.collective_timeout_ms / 1000, segment.label, (unsigned long long)segment.sequence);
    segment.options.fail("AR-COLLECTIVE-TIMEOUT", text);
}

/* Sleeps until a socket is ready, at most NAP_MS. */
static void nap(uint32_t late) {
    barrier_look_up();
    if (segment_is_late()) {
        fail_late(late);
    }
    for (uint32_t host = 0; host < segment.hosts; host++) {
        const struct peer *peer = &peers[host];
        short wanted = (short)((peer->in.done < peer->in.queued ? POLLIN : 0) | (peer->out.done < peer->out.queued ? POLLOUT : 0));
        polled[host] = (struct pollfd){wanted ? sockets[host].number : -1, wanted, 0};
    }
    poll(polled, segment.hosts, NAP_MS);
}

static void wait_for(uint64_t mark, int with_sends) {
    int saved_errno = errno;
    uint32_t late;
    int tries = 0;
    move_all();
    while ((late = first_late(mark, with_sends)) < segment.hosts) {
        if (move_all()) {
            tries = 0;
        } else if (++tries > TRIES) {
            if (tries == TRIES + 1) {
                segment_wait_begins();
            }
            nap(late);
        } else if (segment.last - segment.first > segment.options.cores) {
            sched_yield();
        }
    }
    errno = saved_errno;
}

void network_wait(uint64_t mark) {
    wait_for(mark, 0);
}

void network_finish(void) {
    wait_for(0, 1);
}
