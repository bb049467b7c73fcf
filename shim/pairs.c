/* Open addressing, a power of two, keys never removed. A table that was outgrown stays: somebody may be reading it. Together they take as much as the last. */
#include "pairs.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

enum { FIRST_SIZE = 64 }; /* a walk through a small graph makes one in each backward */

struct pair {
    void *_Atomic key;
    void *_Atomic value;
};

struct pairs_table {
    struct pairs_table *outgrown; /* keeps it reachable */
    size_t size, used;
    struct pair entries[];
};

/* The key's place, or the hole where it belongs. */
static struct pair *table_find(struct pairs_table *table, const void *key) {
    size_t place = (size_t)(((uintptr_t)key * 0x9E3779B97F4A7C15ull) >> 32) & (table->size - 1);
    for (void *met; (met = atomic_load_explicit(&table->entries[place].key, memory_order_acquire)) && met != key;)
        place = (place + 1) & (table->size - 1);
    return &table->entries[place];
}

/* The value stands before the key can be seen. Returns the value it had. */
static void *table_put(struct pairs_table *table, void *key, void *value) {
    struct pair *pair = table_find(table, key);
    void *had = atomic_exchange(&pair->value, value);
    table->used += !pair->key;
    atomic_store_explicit(&pair->key, key, memory_order_release);
    return had;
}

static struct pairs_table *table_grow(struct pairs_table *old) {
    size_t size = old ? 2 * old->size : FIRST_SIZE;
    struct pairs_table *table = calloc(1, sizeof *table + size * sizeof *table->entries);
    table->outgrown = old;
    table->size = size;
    for (size_t i = 0; old && i < old->size; i++)
        if (old->entries[i].key)
            table_put(table, old->entries[i].key, old->entries[i].value);
    return table;
}

void *pairs_put(struct pairs *pairs, void *key, void *value) {
    struct pairs_table *table = pairs->table;
    if (!table || 2 * table->used >= table->size)
        atomic_store_explicit(&pairs->table, table = table_grow(table), memory_order_release);
    return table_put(table, key, value);
}

void *pairs_get(const struct pairs *pairs, const void *key) {
    struct pairs_table *table = atomic_load_explicit(&pairs->table, memory_order_acquire);
    if (!table)
        return NULL;
    /* A hole may be another key's by now: its value first, then the key. */
    struct pair *pair = table_find(table, key);
    void *value = atomic_load_explicit(&pair->value, memory_order_acquire);
    return atomic_load_explicit(&pair->key, memory_order_acquire) == key ? value : NULL;
}

void pairs_free(struct pairs *pairs) {
    for (struct pairs_table *table = pairs->table, *outgrown; table; table = outgrown) {
        outgrown = table->outgrown;
        free(table);
    }
    pairs->table = NULL;
}
