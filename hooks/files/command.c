/*
 * Commands that the program has a shell run (system(), Python's os.system()): once, as in one process. Rank 0 runs it when all ranks have come, and they
 * go on together, with its status, when it has ended: nobody looks at what a command is still making, or makes it a second time.
 *
 * Every rank runs its own where the command has to do with what is the rank's own: its scratch files, descriptors, its number as a process or another name that
 * differs between the ranks; and where standard input has something to read, of which each rank has a copy. Rank 0 decides. Nothing is said of processes that
 * are no rank yet: their commands may be what trains.
 *
 * A rank but 0 may call a file by a name of its own, or by rank 0's (of a link, a listing, another command), and the one may have the letters of the other. So
 * it comes with both, the command as it is written and as rank 0 calls the files in it (alias.c): either may be rank 0's.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"

enum { SUM = 16, SHOWN = 180, ROOM = SHOWN + 2 * SUM + 5 }; /* characters of a command: the board has room for 240 (BOARD_MEETING_CHARS) */

/* As the process was given them: what standard descriptors are, and where the variables lie. */
static struct {
    struct stat streams[3];
    const char *first_variable, *behind_variables;
} given;

void command_start(void) {
    for (int i = 0; i < 3; i++)
        if (fstat(i, &given.streams[i]))
            given.streams[i] = (struct stat){0};
    for (char **entry = environ; entry && *entry; entry++) {
        given.first_variable = given.first_variable ? given.first_variable : *entry;
        given.behind_variables = *entry + strlen(*entry) + 1;
    }
}

static bool is_redirected(void) {
    struct stat now;
    for (int i = 0; i < 3; i++)
        if (!fstat(i, &now) && (now.st_ino != given.streams[i].st_ino || now.st_dev != given.streams[i].st_dev))
            return true;
    return false;
}

/* A descriptor of the program's (">&5", "/dev/fd/5"), or the process itself. */
static bool names_process(const char *command) {
    for (const char *at = command; (at = strchr(at, '&')); at++)
        if (at > command && strchr("<>", at[-1]) && isdigit((unsigned char)at[1]) && (at[1] > '2' || isdigit((unsigned char)at[2])))
            return true;
    return strstr(command, "/fd/") || strstr(command, "PPID");
}

static bool is_in_scratch(void) {
    char folder[PATH_MAX];
    return getcwd(folder, sizeof folder) && scratch_has(folder);
}

/* Of the variables that the program has set: not where it was told of the ranks. Of libiomp's there is one with the process's number. */
static bool look_at_environment(uint64_t *sum) {
    for (char **entry = environ; entry && *entry; entry++) {
        if (scratch_is_named_in(*entry))
            return true;
        if ((*entry < given.first_variable || *entry >= given.behind_variables) && strncmp(*entry, "__KMP", 5))
            *sum = checksum_bytes(*sum, *entry, strlen(*entry));
    }
    return false;
}

static bool is_ranks_own(const char *command, uint64_t *sum) {
    *sum = checksum_bytes(*sum, command, strlen(command));
    return scratch_is_named_in(command) || names_process(command);
}

static uint64_t sum_of(const char *text, const char *unshown) {
    uint64_t sum = 0;
    if (is_ranks_own(text, &sum) || is_ranks_own(unshown, &sum) || is_redirected() || is_in_scratch() || look_at_environment(&sum))
        sum = shim_rank() + 1; /* no two are the same */
    return sum;
}

/* What the ranks compare, in the way of a name: its beginning is shown when they part. It begins with no path, which other hosts would spell otherwise. */
static void describe(const struct command *command, char *text) {
    snprintf(text, ROOM, "(%0*" PRIx64 " %0*" PRIx64 ") %.*s", SUM, sum_of(command->text, command->unshown), SUM,
             sum_of(command->told, command->told_unshown), SHOWN, command->told);
}

/* Of the first rank both sums are one. */
static bool is_same(const char *rank_0s, const char *other) {
    return !strncmp(other + 1, rank_0s + 1, SUM) || !strncmp(other + 2 + SUM, rank_0s + 1, SUM);
}

bool command_is_met_for(const char *command) {
    return command && atomic_load_explicit(&shim_kind_now, memory_order_relaxed) == SHIM_RANK && files_place() == FILES_MEET;
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

enum command_part command_begin(struct meeting *meeting, const struct command *command) {
    char text[ROOM];
    describe(command, text);
    meeting_come(meeting, MEETING_COMMAND, text, NULL);
    meeting->paths[0] = "";
    if (shim_rank())
        return COMMAND_LATER;
    written_publish_all();
    if (!meeting_is_of_one_name(is_same) || input_waits()) {
        meeting->paths[0] = text;
        meeting_answer(meeting, EACH_RUNS, 0);
        return COMMAND_OWN;
    }
    atomic_store(&is_running, true);
    shim_acts_for_all(true);
    return COMMAND_FIRST;
}

void command_end(struct meeting *meeting, int error, uint32_t status) {
    atomic_store(&is_running, false);
    shim_acts_for_all(false);
    meeting_answer(meeting, error, status);
}

bool command_await(struct meeting *meeting) {
    meeting_await(meeting);
    mapped_settle(false);
    mapped_command_has_run();
    return meeting->error != EACH_RUNS;
}

static bool await_ignoring(struct meeting *meeting) {
    meeting_await_all(meeting); /* until then a Ctrl-C is everybody's */
    __attribute__((cleanup(signals_restore), unused)) struct signals_before before = signals_ignore();
    return command_await(meeting);
}

/* Each runs its own, which rank 0 has told: is this rank's written as that is? */
static bool is_written_alike(const struct meeting *meeting, const struct command *command) {
    char text[ROOM];
    describe(command, text);
    return !strncmp(text, meeting->paths[0], 1 + SUM);
}

int command_run(const struct command *command, int (*run)(const char *command)) {
    struct meeting meeting;
    enum command_part part = command_begin(&meeting, command);
    if (part == COMMAND_LATER && await_ignoring(&meeting)) {
        errno = meeting.error;
        return (int)meeting.answer;
    }
    bool is_alike = part == COMMAND_LATER && is_written_alike(&meeting, command);
    int status = run(is_alike ? command->text : command->told);
    if (part == COMMAND_FIRST)
        command_end(&meeting, errno, (uint32_t)status);
    return status;
}
