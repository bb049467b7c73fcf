/*
 * argv → struct config. Reading stops at the program's name, or after "--": what follows belongs to the program. Flags of other launchers are
 * collected for foreign_judge().
 */
#ifndef ACCEL_RUN_OPTIONS_H
#define ACCEL_RUN_OPTIONS_H

#include "../config/config.h"
#include "../config/foreign.h"
#include "problem.h"

/* Fills *config with defaults < environment < command line; *foreign must be empty. Returns the index of the program's name in argv (argc when there
   is none), or -1 with *problem filled. */
int options_read(int argc, char *const *argv, char *const *environment, struct config *config, struct foreign *foreign,
                 struct problem *problem);

/* Does the command line ask for something that needs no program (help, version, settings)? */
bool options_need_no_program(const struct config *config);

#endif
