/*
 * Commands that the program has a shell run (system(), Python's os.system()): once, as in one process. Rank 0 runs it when all ranks have come, and they
 * go on together, with its status, when it has ended: nobody looks at what a command is still making, or makes it a second time. Of what is the rank's own
 * (its scratch files, its number as a process) every rank runs its own, and where standard input has something to read, of which each rank has a copy. So do
 * processes that are no rank yet: their commands may be what trains.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

static bool has_own_number(const char *text) {
    char number[16];
    size_t length = (size_t)snprintf(number, sizeof number, "%d", getpid());
    for (const char *at = text; (at = strstr(at, number)); at += length)
        if ((at == text || !isdigit((unsigned char)at[-1])) && !isdigit((unsigned char)at[length]))
            return true;
    return false;
}

static bool environment_has_scratch(void) {
    for (char **entry = environ; entry && *entry; entry++)
        if (scratch_is_named_in(*entry))
            return true;
    return false;
}

static bool is_in_scratch(void) {
    char folder[PATH_MAX];
    return getcwd(folder, sizeof folder) && scratch_has(folder);
}

/* The same on all ranks: each has its scratch files where the others have theirs. */
static bool is_ranks_own(const char *command) {
    return has_own_number(command) || scratch_is_named_in(command) || environment_has_scratch() || is_in_scratch();
}

bool command_is_of_all(const char *command) {
    if (!command || atomic_load_explicit(&shim_kind_now, memory_order_relaxed) != SHIM_RANK || files_place() != FILES_MEET)
        return false;
    return !is_ranks_own(command);
}

/* Each rank has a copy of standard input: what a command reads of it is to be gone from all. */
static bool input_waits(void) {
    struct stat input;
    int waiting = 0;
    if (fstat(STDIN_FILENO, &input))
        return false;
    if (S_ISREG(input.st_mode))
        return lseek(STDIN_FILENO, 0, SEEK_CUR) < input.st_size;
    return !ioctl(STDIN_FILENO, FIONREAD, &waiting) && waiting > 0;
}

static _Atomic bool is_running; /* on rank 0 */
enum { EACH_RUNS = -1 };        /* instead of an errno */

bool command_is_running(void) {
    return atomic_load_explicit(&is_running, memory_order_relaxed);
}

enum command_part command_begin(struct meeting *meeting, const char *command) {
    meeting_come(meeting, MEETING_COMMAND, command, NULL);
    if (shim_rank())
        return COMMAND_LATER;
    written_publish_all();
    if (input_waits()) {
        meeting_answer(meeting, EACH_RUNS, 0);
        return COMMAND_OWN;
    }
    atomic_store(&is_running, true);
    return COMMAND_FIRST;
}

void command_end(struct meeting *meeting, int error, uint32_t status) {
    atomic_store(&is_running, false);
    meeting_answer(meeting, error, status);
}

bool command_await(struct meeting *meeting) {
    meeting_await(meeting);
    return meeting->error != EACH_RUNS;
}

int command_run(const char *command, int (*run)(const char *command)) {
    struct meeting meeting;
    enum command_part part = command_begin(&meeting, command);
    if (part == COMMAND_LATER && command_await(&meeting)) {
        errno = meeting.error;
        return (int)meeting.answer;
    }
    int status = run(command);
    if (part == COMMAND_FIRST)
        command_end(&meeting, errno, (uint32_t)status);
    return status;
}
