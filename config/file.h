/*
 * The keys of a configuration file → settings. A file may be ours (accel-run.yaml(5)), Accelerate's of any age, or both at once: a key is known by its
 * name. Unknown keys are warned of, wrong types and contradictions are faults with line and column.
 */
#ifndef ACCEL_RUN_CONFIG_FILE_H
#define ACCEL_RUN_CONFIG_FILE_H

#include "foreign.h"
#include "yaml.h"

/* path: how the file is named in messages; borrowed by *config for good, as are the texts of *yaml. Returns 0, or -1 with "PATH:LINE:COLUMN: what" in
   fault[CONFIG_FAULT_CHARS]. *foreign and *notes are added to; foreign_judge() comes after. */
int config_read_file(struct config *config, const struct yaml *yaml, const char *path, struct foreign *foreign, struct config_notes *notes,
                     char *fault);

#endif
