/* Open addressing, a power of two, keys never removed. */
#include "pairs.h"

#include <stdint.h>
#include <stdlib.h>

static struct pair *pairs_find(const struct pairs *pairs, const void *key) {
    size_t place = (size_t)(((uintptr_t)key * 0x9E3779B97F4A7C15ull) >> 32) & (pairs->size - 1);
    while (pairs->entries[place].key && pairs->entries[place].key != key)
        place = (place + 1) & (pairs->size - 1);
    return &pairs->entries[place];
}

static void pairs_grow(struct pairs *pairs) {
    struct pairs old = *pairs;
    pairs->size = old.size ? 2 * old.size : 1024;
    pairs->entries = calloc(pairs->size, sizeof *pairs->entries);
    for (size_t i = 0; i < old.size; i++)
        if (old.entries[i].key)
            *pairs_find(pairs, old.entries[i].key) = old.entries[i];
    free(old.entries);
}

void *pairs_put(struct pairs *pairs, void *key, void *value) {
    if (2 * pairs->used >= pairs->size)
        pairs_grow(pairs);
    struct pair *pair = pairs_find(pairs, key);
    void *had = pair->value;
    pairs->used += !pair->key;
    *pair = (struct pair){key, value};
    return had;
}

void *pairs_get(const struct pairs *pairs, const void *key) {
    return pairs->size ? pairs_find(pairs, key)->value : NULL;
}
