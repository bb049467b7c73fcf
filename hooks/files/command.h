/* Commands that the program runs (command.c). */
#ifndef ACCEL_HOOKS_FILES_COMMAND_H
#define ACCEL_HOOKS_FILES_COMMAND_H

#include "files.h"

/* When the process starts. */
void command_start(void);
/* Do the ranks meet for it? The same on all of them. */
bool command_is_met_for(const char *command);
/* As the program has written it, and as it is told with files as rank 0 calls them. unshown: what belongs to it, but not into messages; or "". Borrowed. */
struct command {
    const char *text, *unshown, *told, *told_unshown;
};
/* Comes to the meeting for it. Rank 0 returns when all have come. */
enum command_part {
    COMMAND_OWN,   /* each rank runs its own */
    COMMAND_FIRST, /* this is rank 0, which runs it, and ends with command_end() */
    COMMAND_LATER, /* the others: command_await() */
} command_begin(struct meeting *meeting, const struct command *command);
void command_end(struct meeting *meeting, int error, uint32_t status);
/* False: each runs its own after all. */
bool command_await(struct meeting *meeting);
/* This is rank 0, between both: what it does meanwhile the other ranks do not, so they do not meet. */
bool command_is_running(void);
/* Runs it on rank 0; the others wait. Returns its status, on all ranks, with errno. */
int command_run(const struct command *command, int (*run)(const char *command));

#endif
