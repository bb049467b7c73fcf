/* What is known of a process above us: what it runs, and what it was started with. Lists are words between spaces (engines.def). Pure. */
#ifndef ACCEL_RUN_ABOVE_H
#define ACCEL_RUN_ABOVE_H

#include "engines.h"

/* The next word of *list, which moves behind it: its start, *length; NULL at the end. */
const char *above_next_word(const char **list, size_t *length);
bool above_list_has(const char *list, const char *wanted, size_t wanted_length);

/* Does it run one of the names? Of an interpreter the script or module counts, too: python -m torch.distributed.run, python /usr/bin/torchrun. */
bool above_is_one_of(const struct engine_process *process, const char *names);
bool above_is_shell(const struct engine_process *process);
/* A shell that reads what somebody types: only options follow, and none of them is a command. */
bool above_is_typed_into(const struct engine_process *process);
/* Was it started with this variable? */
bool above_has(const struct engine_process *process, const char *name, size_t length);

#endif
