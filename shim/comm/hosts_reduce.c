/*
 * All-reduce over several hosts, chunk by chunk, five chunks on their way at a time:
 *
 *   step k      the ranks of a host add up chunk k, each its part, into the leader's ring
 *   step k + 1  the leader sends part h of the sum to host h, and receives the other hosts' sums of its own part
 *   step k + 2  it adds these up in the order of the hosts, and sends the result to all
 *   step k + 3  it has received all results
 *   step k + 4  the ranks copy the chunk to the program's memory
 *
 * Every step ends with a barrier of the host's ranks. What is sent moves on in the kernel while the ranks work on other chunks, so that the network is
 * busy all the time; each host sends and receives 2 (H - 1) / H of the bytes. A place in the ring is used again seven chunks later at the soonest (segment.h).
 */
#include "hosts.h"

#include <string.h>

#include "barrier.h"
#include "network.h"

enum { STEPS_SENT = 1, STEPS_ADDED = 2, STEPS_RECEIVED = 3, STEPS_COPIED = 4, CHUNKS_KEPT = 8 };

/* What a leader remembers of a reduction in progress. */
struct exchange {
    struct reduction *reduction;
    uint64_t sums[CHUNKS_KEPT], results[CHUNKS_KEPT]; /* network_mark() when these were to come, of chunk k at k % CHUNKS_KEPT */
};

/* Where the sum of a host's ranks is, and later the whole sum: in the ring of the host's leader, or where the program has it. */
static unsigned char *sum_of(const struct reduction *reduction, uint32_t host, size_t chunk) {
    if (host == segment.host && reduction->places[chunk % CHUNKS_KEPT]) {
        return reduction->places[chunk % CHUNKS_KEPT];
    }
    return segment_stage(segment_leader(host), reduction->sums[chunk % CHUNKS_KEPT]);
}

static void begin_chunk(struct reduction *reduction, size_t chunk) {
    reduction_stage(reduction, chunk);
    reduction->sums[chunk % CHUNKS_KEPT] = segment_claim(reduction->chunk);
}

/* A host's only rank has the host's sum already: a chunk that lies in one piece of the program's memory is sent from there, and received there. */
static int stays_in_place(struct reduction *reduction, size_t chunk) {
    size_t length = reduction_chunk_length(reduction, chunk);
    struct stream ahead = reduction->reduced;
    unsigned char *data = NULL, **place = &reduction->places[chunk % CHUNKS_KEPT];
    *place = NULL;
    if (segment.last - segment.first > 1 || stream_take(&ahead, length, &data) < length) {
        return 0;
    }
    *place = data;
    reduction->reduced = ahead;
    return 1;
}

/* This rank's part of the host's sum. */
static void add_ranks(struct reduction *reduction, size_t chunk) {
    if (stays_in_place(reduction, chunk)) {
        return;
    }
    uint32_t self = segment.options.rank, index = self - segment.first, ranks = segment.last - segment.first;
    size_t length = reduction_chunk_length(reduction, chunk), own = reduction_part(length, reduction->slot, index);
    size_t start = smaller(index * reduction->slot, length);
    const void *sources[BOARD_RANKS_MAX];
    stream_skip(&reduction->reduced, start);
    for (size_t done = 0, taken; done < own; done += taken) {
        unsigned char *data;
        taken = stream_take(&reduction->reduced, own - done, &data);
        unsigned char *result = sum_of(reduction, segment.host, chunk) + start + done;
        for (uint32_t rank = segment.first; rank < segment.last; rank++) {
            sources[rank - segment.first] = rank == self ? data : segment_stage(rank, reduction->turns[chunk % 3]) + start + done;
        }
        if (ranks == 1) {
            memcpy(result, data, taken);
        } else {
            reduction->kernel(result, NULL, sources, ranks, taken / reduction->element);
        }
    }
    stream_skip(&reduction->reduced, length - start - own);
}

/* Bytes [from, from + length) of a chunk are added up by this host. */
static size_t host_part(const struct reduction *reduction, size_t chunk, uint32_t host, size_t *from) {
    size_t length = reduction_chunk_length(reduction, chunk);
    size_t slot = (length / segment.hosts / COMM_CACHE_LINE + 1) * COMM_CACHE_LINE;
    *from = smaller(host * slot, length);
    return reduction_part(length, slot, host);
}

static void send_sums(struct exchange *exchange, size_t chunk) {
    struct reduction *reduction = exchange->reduction;
    size_t own_from, own = host_part(reduction, chunk, segment.host, &own_from);
    for (uint32_t host = 0; host < segment.hosts; host++) {
        size_t from, length = host_part(reduction, chunk, host, &from);
        if (host != segment.host) {
            network_send(host, sum_of(reduction, segment.host, chunk) + from, length);
            network_receive(host, sum_of(reduction, host, chunk) + own_from, own);
        }
    }
    exchange->sums[chunk % CHUNKS_KEPT] = network_mark();
}

static void add_hosts(struct exchange *exchange, size_t chunk) {
    struct reduction *reduction = exchange->reduction;
    const void *sources[BOARD_RANKS_MAX];
    size_t own_from, own = host_part(reduction, chunk, segment.host, &own_from);
    unsigned char *sum = sum_of(reduction, segment.host, chunk);
    network_wait(exchange->sums[chunk % CHUNKS_KEPT]);
    for (uint32_t host = 0; host < segment.hosts; host++) {
        sources[host] = sum_of(reduction, host, chunk) + own_from;
    }
    reduction->kernel(sum + own_from, NULL, sources, segment.hosts, own / reduction->element);
    for (uint32_t host = 0; host < segment.hosts; host++) {
        size_t from, length = host_part(reduction, chunk, host, &from);
        if (host != segment.host) { /* its part of our sum has been sent: it could not have added it up otherwise */
            network_send(host, sum + own_from, own);
            network_receive(host, sum + from, length);
        }
    }
    exchange->results[chunk % CHUNKS_KEPT] = network_mark();
}

static void lead(struct exchange *exchange, size_t step, size_t chunks) {
    if (step >= STEPS_SENT && step - STEPS_SENT < chunks) {
        send_sums(exchange, step - STEPS_SENT);
    }
    if (step >= STEPS_ADDED && step - STEPS_ADDED < chunks) {
        add_hosts(exchange, step - STEPS_ADDED);
    }
    if (step >= STEPS_RECEIVED) {
        network_wait(exchange->results[(step - STEPS_RECEIVED) % CHUNKS_KEPT]);
    }
    if (step + 1 == chunks + STEPS_RECEIVED) {
        network_finish();
    }
}

static void copy_result(struct reduction *reduction, size_t chunk) {
    size_t length = reduction_chunk_length(reduction, chunk);
    if (reduction->places[chunk % CHUNKS_KEPT]) {
        stream_skip(&reduction->finished, length);
    } else {
        stream_write(&reduction->finished, sum_of(reduction, segment.host, chunk), length);
    }
}

int hosts_reduce(struct reduction *reduction) {
    struct exchange exchange = {.reduction = reduction};
    size_t chunks = chunks_of(reduction->bytes, reduction->chunk);
    begin_chunk(reduction, 0);
    agree_pass(NULL);
    if (!agree_same_list()) {
        return 0;
    }
    for (size_t step = 0; step < chunks + STEPS_RECEIVED; step++) {
        if (step >= STEPS_COPIED) {
            copy_result(reduction, step - STEPS_COPIED);
        }
        if (step < chunks) {
            add_ranks(reduction, step);
        }
        if (step + 1 < chunks) {
            begin_chunk(reduction, step + 1);
        }
        if (segment_is_leader()) {
            lead(&exchange, step, chunks);
        }
        barrier_pass();
    }
    copy_result(reduction, chunks - 1);
    return 1;
}
