/*
 * `accel-run config to-fsdp2`: a configuration file of Accelerate for FSDP of version 1 → version 2, as `accelerate to-fsdp2` does. The file is
 * Accelerate's before and after; accel-run only knows how to convert it.
 */
#ifndef ACCEL_RUN_FSDP2_H
#define ACCEL_RUN_FSDP2_H

#include <stddef.h>
#include <stdio.h>

#include "../../config/yaml.h"
#include "../problem.h"

/* Writes the text (path: for messages) to `out` with its fsdp_config converted, line by line, so that comments stay. Returns 0, or -1 with *problem:
   no fsdp_config, already version 2, or not written one key a line; nothing is written then. What is written has been read back. */
int fsdp2_convert(const char *text, const struct yaml *yaml, const char *path, FILE *out, struct problem *problem);

#endif
