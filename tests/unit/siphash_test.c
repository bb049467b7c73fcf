// sources:
#include "unit.h"

#include <stdint.h>

#include "../../hooks/seed/siphash.h"

/* The vectors of the paper's appendix: key 00 01 .. 0f, message 00 01 02 .. */
static uint64_t hash_of(size_t words) {
    struct siphash_key key = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};
    unsigned char message[64];
    uint64_t aligned[8];
    for (int i = 0; i < 64; i++)
        message[i] = (unsigned char)i;
    memcpy(aligned, message, sizeof aligned);
    return siphash(key, aligned, words);
}

TEST("the published vectors come out") {
    EXPECT(hash_of(0) == 0x726fdb47dd0e0e31ull);
    EXPECT(hash_of(1) == 0x93f5f5799a932462ull);
    EXPECT(hash_of(2) == 0x3f2acc7f57c29bdbull);
}
