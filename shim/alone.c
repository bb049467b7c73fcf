#include "alone.h"

#include <string.h>

#include "beside_key.h"
#include "checksum.h"

static struct {
    uint32_t rank;
    uint64_t key, last; /* last 0: none */
} owed[ALONE_REMEMBERED];
static uint32_t owed_next;

void alone_owe(uint32_t rank, uint64_t key, uint64_t last) {
    uint32_t at = owed_next++ % ALONE_REMEMBERED;
    owed[at].rank = rank;
    owed[at].key = key;
    owed[at].last = last;
}

bool alone_was_owed(uint32_t rank, uint64_t key, uint64_t number, bool also_other) {
    for (uint32_t i = 0; i < ALONE_REMEMBERED; i++)
        if (owed[i].rank == rank && number <= owed[i].last && beside_key_is(key, owed[i].key, also_other)) {
            owed[i].last = 0;
            return true;
        }
    return false;
}
