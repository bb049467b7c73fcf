/* Memory that processes of the job on this host share before any of them is a rank: zeros at first, with a name that goes when the job ends (shim_own_name). */
#ifndef ACCEL_SHIM_SHARED_TABLE_H
#define ACCEL_SHIM_SHARED_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shared_table {
    const char *begin; /* of its name, in /dev/shm */
    uint32_t rank;     /* whose it is */
    size_t bytes;
    _Atomic(void *) memory; /* NULL at first */
};

/* NULL: there is none: nobody has made it, no room, or not in a job that has a name. errno is kept. Any thread; allocates nothing. */
void *shared_table_of(struct shared_table *table, bool to_make);

#endif
