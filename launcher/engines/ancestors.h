/*
 * The processes above this one, as /proc shows them: what each was started with.
 */
#ifndef ACCEL_RUN_ANCESTORS_H
#define ACCEL_RUN_ANCESTORS_H

#include "engines.h"

#define ANCESTORS_MAX 32

struct ancestors {
    struct engine_process list[ANCESTORS_MAX]; /* the nearest first */
    uint32_t count;
    char *texts[2 * ANCESTORS_MAX]; /* owned: command lines and environments */
};

/* Never fails: what cannot be read is left out. The caller clears. */
void ancestors_read(struct ancestors *ancestors);
void ancestors_clear(struct ancestors *ancestors);

#endif
