/* Which GPUs can read each other's memory, as the driver's own tool has it. Pure. */
#ifndef ACCEL_RUN_GPU_PEERS_H
#define ACCEL_RUN_GPU_PEERS_H

#include <stdint.h>

struct gpu_peers {
    uint32_t pairs, reachable; /* of different GPUs, in one direction each */
    char first_fault[64];      /* "GPU0 from GPU1: CNS": the first pair that cannot, in the tool's words; "" none */
};

/* text: what `nvidia-smi topo -p2p r` prints, a line "GPU1 OK X OK" for each GPU. Returns 0, or -1 when it is not that. */
int gpu_peers_read(const char *text, struct gpu_peers *peers);

#endif
