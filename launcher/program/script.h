/*
 * Programs named as torchrun and accelerate launch name them: `train.py`, which no kernel can execute, and `-m pkg.train`. Python is put before them.
 *
 * A file whose name ends in .py and that may be executed, with a first line that says by whom, is a program like any other. Which Python: python3 of PATH,
 * else python, as an active environment has them first there. torchrun takes its own interpreter, which we have not.
 */
#ifndef ACCEL_RUN_SCRIPT_H
#define ACCEL_RUN_SCRIPT_H

#include "../../config/config.h"
#include "../../config/notes.h"
#include "../problem.h"

/* Takes *arguments, the program's name first, NULL at the end, and leaves them or puts a longer list in their place, which lives as long as the process.
   search: PATH. A file that Python was put before is noted. Returns 0, or -1 with *problem. */
int script_take(char *const **arguments, const struct config *config, const char *search, struct config_notes *notes,
                struct problem *problem);

#endif
