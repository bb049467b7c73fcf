// sources: shim/checksum.c
#include "unit.h"

#include "../../shim/checksum.h"

TEST("every byte of every length counts, and so does the length") {
    char bytes[200] = {0};
    for (size_t count = 0; count <= 130; count++) {
        uint64_t sum = checksum_bytes(1, bytes, count);
        EXPECT(sum != checksum_bytes(1, bytes, count + 1));
        EXPECT(sum != checksum_bytes(2, bytes, count));
        for (size_t i = 0; i < count; i++) {
            bytes[i] ^= 1;
            EXPECT(checksum_bytes(1, bytes, count) != sum);
            bytes[i] ^= 1;
        }
    }
}

TEST("equal bytes at other addresses have equal sums") {
    char bytes[300];
    for (int i = 0; i < 300; i++)
        bytes[i] = (char)(i % 97);
    for (int shift = 1; shift < 40; shift++) {
        char moved[340];
        memcpy(moved + shift, bytes, sizeof bytes);
        EXPECT(checksum_bytes(0, bytes, sizeof bytes) == checksum_bytes(0, moved + shift, sizeof bytes));
    }
}

TEST("two lanes cannot be exchanged") {
    uint64_t words[] = {1, 2, 3, 4}, other[] = {2, 1, 3, 4};
    EXPECT(checksum_bytes(0, words, sizeof words) != checksum_bytes(0, other, sizeof other));
}

TEST("bytes in pieces have the sum of those that lie together") {
    char bytes[200];
    for (int i = 0; i < 200; i++)
        bytes[i] = (char)(i % 97);
    for (size_t count = 0; count <= sizeof bytes; count += 7)
        for (size_t piece = 1; piece < 70; piece++) {
            struct checksum sum = checksum_begin(3);
            for (size_t at = 0; at < count; at += piece)
                checksum_add(&sum, bytes + at, count - at < piece ? count - at : piece);
            EXPECT(checksum_end(&sum) == checksum_bytes(3, bytes, count));
        }
}
