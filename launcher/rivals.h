/*
 * Has one rank begun with what another one runs beside it? A script that starts trainings side by side (train 1 & train 2 & wait) runs on every rank, and
 * whichever of its programs comes first is the rank: not the same one everywhere, perhaps, and what they print would be another training's. Arguments that
 * differ are no sign of it ($RANDOM in a run's name): that a rank's program was told, on another rank, that it is none there, while another one trained with
 * it, is.
 */
#ifndef ACCEL_RUN_RIVALS_H
#define ACCEL_RUN_RIVALS_H

#include <stdbool.h>
#include <stdint.h>

enum { RIVALS_KEPT = 32 };

struct rival {
    uint64_t program; /* protocol_claim.program; 0: not known */
    uint32_t segment; /* those of one number train together */
};

/* The latest that have been this rank, and that have been denied to be it meanwhile. */
struct rivals {
    struct rival granted[RIVALS_KEPT], denied[RIVALS_KEPT];
    uint32_t grants, denials;
};

void rivals_grant(struct rivals *rivals, uint64_t program, uint32_t segment);
void rivals_deny(struct rivals *rivals, uint64_t program);
bool rivals_are_exchanged(const struct rivals *one, const struct rivals *other);

#endif
