/* A table from one pointer to another. Not locked: its owner does that. */
#ifndef ACCEL_SHIM_PAIRS_H
#define ACCEL_SHIM_PAIRS_H

#include <stddef.h>

struct pair {
    void *key;
    void *value;
};

struct pairs { /* zero: empty */
    struct pair *entries;
    size_t size, used;
};

/* NULL: not there. */
void *pairs_get(const struct pairs *pairs, const void *key);
/* A key once used stays as a place (its value may be NULL): addresses of objects are reused, so the table stays small. Returns the value it had. */
void *pairs_put(struct pairs *pairs, void *key, void *value);

#endif
