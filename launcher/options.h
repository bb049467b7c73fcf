/*
 * argv and environment → struct config. Reading stops at the program's name, or after "--": what follows belongs to the program.
 */
#ifndef ACCEL_RUN_OPTIONS_H
#define ACCEL_RUN_OPTIONS_H

#include "../config/config.h"
#include "problem.h"

/* Defaults < environment < command line. Returns the index of the program's name in argv (argc when there is none and --help or --version
   was given), or -1 with *problem filled. */
int options_read(int argc, char *const *argv, char *const *environment, struct config *config, struct problem *problem);

#endif
