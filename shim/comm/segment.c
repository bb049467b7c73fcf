/*
 * Attaching to the shared memory segment and forgetting it.
 */
#include "segment.h"

#include <string.h>

struct segment segment;

int comm_open(const struct comm_options *options, const char **problem) {
    const struct board *board = options->segment;
    *problem = NULL;
    if (segment.options.world_size) {
        *problem = "the communication segment is already open in this process";
    } else if (!options->world_size || options->world_size > BOARD_RANKS_MAX || options->rank >= options->world_size) {
        *problem = "rank or world size out of range";
    } else if (!board || ((uintptr_t)board & 4095) || options->segment_bytes < board_bytes() + board_comm_bytes(options->world_size)) {
        *problem = "the shared memory segment is smaller than this world size needs: launcher and shim are of different builds";
    } else if (board->magic != BOARD_MAGIC || board->world_size != options->world_size) {
        *problem = "the shared memory segment does not hold this job's board: launcher and shim are of different builds";
    } else if (!options->collective_timeout_ms || !options->fail) {
        *problem = "a collective timeout and a way to fail are needed";
    }
    if (*problem) {
        return -1;
    }
    segment.options = *options;
    segment.board = options->segment;
    segment.common = (struct segment_common *)((unsigned char *)options->segment + board_bytes());
    segment.controls = (unsigned char *)segment.common + BOARD_COMM_COMMON_BYTES;
    segment.rings = segment.controls + (size_t)options->world_size * BOARD_COMM_CONTROL_BYTES;
    return 0;
}

void comm_forget(void) {
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
