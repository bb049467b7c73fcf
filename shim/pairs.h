/* A table from one pointer to another. Looking up needs no lock (leaves and nodes are asked for dozens of times a step); writers take turns, which is their
   owner's business. */
#ifndef ACCEL_SHIM_PAIRS_H
#define ACCEL_SHIM_PAIRS_H

#include <stddef.h>

struct pairs_table;

struct pairs { /* zero: empty */
    struct pairs_table *_Atomic table;
};

/* NULL: not there. */
void *pairs_get(const struct pairs *pairs, const void *key);
/* A key once used stays as a place (its value may be NULL): addresses of objects are reused, so the table stays small. Returns the value it had. */
void *pairs_put(struct pairs *pairs, void *key, void *value);
/* Empty again; nobody may be reading it. */
void pairs_free(struct pairs *pairs);

#endif
