/* The files of --log-dir. */
#ifndef ACCEL_RUN_LOGS_H
#define ACCEL_RUN_LOGS_H

#include <stdint.h>

#include "../problem.h"

/* The folder, and what is missing above it. Returns 0, or -1 with *problem. */
int logs_make_folder(const char *folder, struct problem *problem);

/* DIR/rank-R.out or .err, emptied; flags: O_WRONLY or O_RDWR, O_APPEND. Returns the descriptor, or -1 with *problem. */
int logs_open(const char *folder, uint32_t rank, const char *kind, int flags, struct problem *problem);

#endif
