/*
 * Attaching to the shared memory segment and forgetting it.
 */
#include "segment.h"

#include <string.h>

#include "network.h"

struct segment segment;
const _Atomic uint64_t *_Atomic clock_held;

/* Are the board's hosts those of one job, one after the other, with this rank on this host? */
static int hosts_fit(const struct board *board, uint32_t rank) {
    uint32_t next = 0;
    if (board->hosts <= 1) {
        return 1;
    }
    if (board->hosts > BOARD_RANKS_MAX || board->host >= board->hosts) {
        return 0;
    }
    for (uint32_t host = 0; host < board->hosts; host++) {
        if (board->list[host].first != next || !board->list[host].count) {
            return 0;
        }
        next += board->list[host].count;
    }
    const struct board_host *own = &board->list[board->host];
    return next == board->world_size && rank >= own->first && rank - own->first < own->count;
}

int comm_open(const struct comm_options *options, const char **problem) {
    const struct board *board = options->segment;
    *problem = NULL;
    if (segment.options.world_size) {
        *problem = "the communication segment is already open in this process";
    } else if (!options->world_size || options->world_size > BOARD_RANKS_MAX || options->rank >= options->world_size) {
        *problem = "rank or world size out of range";
    } else if (!board || ((uintptr_t)board & 4095) || options->segment_bytes < board_segment_bytes(options->world_size)) {
        *problem = "the shared memory segment is smaller than this world size needs: launcher and shim are of different builds";
    } else if (board->magic != BOARD_MAGIC || board->world_size != options->world_size) {
        *problem = "the shared memory segment does not hold this job's board: launcher and shim are of different builds";
    } else if (!hosts_fit(board, options->rank)) {
        *problem = "the shared memory segment lists hosts that do not make up this job: launcher and shim are of different builds";
    } else if (!options->collective_timeout_ms || !options->fail) {
        *problem = "a collective timeout and a way to fail are needed";
    }
    if (*problem) {
        return -1;
    }
    segment.options = *options;
    segment.board = options->segment;
    segment.common = (struct segment_common *)((unsigned char *)options->segment + board_bytes(options->world_size));
    segment.controls = (unsigned char *)segment.common + BOARD_COMM_COMMON_BYTES;
    segment.rings = segment.controls + (size_t)options->world_size * BOARD_COMM_CONTROL_BYTES;
    segment.hosts = board->hosts > 1 ? board->hosts : 1;
    segment.host = segment.hosts > 1 ? board->host : 0;
    segment.first = segment.hosts > 1 ? board->list[segment.host].first : 0;
    atomic_store(&clock_held, &segment.board->held_ns);
    segment.last = segment.hosts > 1 ? segment.first + board->list[segment.host].count : options->world_size;
    if (segment_is_spread() && segment_is_leader()) {
        network_open();
    }
    return 0;
}

void comm_forget(void) {
    network_forget();
    atomic_store(&clock_held, NULL);
    memset(&segment, 0, sizeof segment);
}

uint32_t comm_rank(void) {
    return segment.options.rank;
}

uint32_t comm_world_size(void) {
    return segment.options.world_size;
}

struct comm_statistics comm_statistics(void) {
    return segment.statistics;
}
