#include "rivals.h"

static uint32_t kept(uint32_t count) {
    return count < RIVALS_KEPT ? count : RIVALS_KEPT;
}

static bool was_denied(const struct rivals *rivals, uint64_t program, uint32_t segment) {
    for (uint32_t i = 0; i < kept(rivals->denials); i++)
        if (rivals->denied[i].program == program && rivals->denied[i].segment == segment)
            return true;
    return false;
}

void rivals_grant(struct rivals *rivals, uint64_t program, uint32_t segment) {
    rivals->granted[rivals->grants++ % RIVALS_KEPT] = (struct rival){program, segment};
}

void rivals_deny(struct rivals *rivals, uint64_t program) {
    if (!rivals->grants)
        return;
    uint32_t segment = rivals->granted[(rivals->grants - 1) % RIVALS_KEPT].segment;
    if (!was_denied(rivals, program, segment))
        rivals->denied[rivals->denials++ % RIVALS_KEPT] = (struct rival){program, segment};
}

static bool are_exchanged(const struct rivals *one, const struct rival *ones, const struct rivals *other, const struct rival *others) {
    return ones->segment == others->segment && ones->program && others->program && ones->program != others->program &&
           (was_denied(one, others->program, ones->segment) || was_denied(other, ones->program, ones->segment));
}

bool rivals_are_exchanged(const struct rivals *one, const struct rivals *other) {
    for (uint32_t i = 0; i < kept(one->grants); i++)
        for (uint32_t j = 0; j < kept(other->grants); j++)
            if (are_exchanged(one, &one->granted[i], other, &other->granted[j]))
                return true;
    return false;
}
