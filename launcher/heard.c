#include "heard.h"

#include <stdbool.h>
#include <string.h>

static bool has_any(const struct heard *heard, enum heard_side side) {
    for (int i = 0; i < BOARD_RANKS_MAX / 64; i++)
        if (heard->sides[side][i])
            return true;
    return false;
}

enum heard_as heard_take(struct heard *heard, enum heard_side side, uint32_t number, uint64_t now_ms) {
    uint64_t *word = &heard->sides[side][number / 64], bit = 1ull << number % 64;
    bool is_new = !heard->first_ms || now_ms - heard->first_ms > HEARD_MS || *word & bit;
    enum heard_as as = is_new ? HEARD_NEW : has_any(heard, HEARD_HOST) ? HEARD_BEFORE : HEARD_BY_RANKS;
    if (is_new) {
        memset(heard, 0, sizeof *heard);
        heard->first_ms = now_ms;
    }
    *word |= bit;
    return as;
}
