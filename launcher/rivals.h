/*
 * Has one rank begun with what another one runs beside it? A script that starts trainings side by side (train 1 & train 2 & wait) runs on every rank, and
 * whichever of its programs comes first is the rank: not the same one everywhere, perhaps, and what they print would be another training's. Arguments that
 * differ are no sign of it ($RANDOM in a run's name): that a rank's program was asked for by another rank, too, which runs another one with it, is.
 */
#ifndef ACCEL_RUN_RIVALS_H
#define ACCEL_RUN_RIVALS_H

#include <stdbool.h>
#include <stdint.h>

enum { RIVALS_KEPT = 32 };

/* The latest ones, by protocol_claim.program, which is 0 where it is not known. */
struct rivals {
    uint64_t asked[RIVALS_KEPT]; /* to be this rank */
    struct {
        uint64_t program;
        uint32_t segment; /* those of one number train together */
    } granted[RIVALS_KEPT];
    uint32_t asks, grants;
};

void rivals_ask(struct rivals *rivals, uint64_t program);
void rivals_grant(struct rivals *rivals, uint64_t program, uint32_t segment);
bool rivals_are_exchanged(const struct rivals *one, const struct rivals *other);

#endif
