#include "rivals.h"

static uint32_t kept(uint32_t count) {
    return count < RIVALS_KEPT ? count : RIVALS_KEPT;
}

static bool has_asked(const struct rivals *rivals, uint64_t program) {
    for (uint32_t i = 0; i < kept(rivals->asks); i++)
        if (rivals->asked[i] == program)
            return true;
    return false;
}

void rivals_ask(struct rivals *rivals, uint64_t program) {
    if (program && !has_asked(rivals, program))
        rivals->asked[rivals->asks++ % RIVALS_KEPT] = program;
}

void rivals_grant(struct rivals *rivals, uint64_t program, uint32_t segment) {
    uint32_t place = rivals->grants++ % RIVALS_KEPT;
    rivals->granted[place].program = program;
    rivals->granted[place].segment = segment;
}

static bool are_exchanged(const struct rivals *one, uint64_t ones, const struct rivals *other, uint64_t others) {
    return ones && others && ones != others && (has_asked(one, others) || has_asked(other, ones));
}

bool rivals_are_exchanged(const struct rivals *one, const struct rivals *other) {
    for (uint32_t i = 0; i < kept(one->grants); i++)
        for (uint32_t j = 0; j < kept(other->grants); j++)
            if (one->granted[i].segment == other->granted[j].segment &&
                are_exchanged(one, one->granted[i].program, other, other->granted[j].program))
                return true;
    return false;
}
