/* Rows that come before others, or nobody, can look: children, and ends without destructors. What is written so far takes its place. */
#define _GNU_SOURCE
#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alias.h"
#include "command.h"

/* A child is about to start. While files are open, or may be kept, the ranks meet: what rank 0 has written so far is there for the children of all. Which are
   open is the same on all ranks where no other thread may close one, or the collector in it: with such threads they meet once any has been opened. */
static void before_child(void) {
    bool may_be_open = shim_has_threads() ? written_were_met() : written_count() || mapped_may_be_kept();
    written_publish_all();
    if (may_be_open && files_place() == FILES_MEET) {
        meeting_hold(MEETING_CHILD, "", NULL);
        mapped_settle(false);
    }
}

/* ---- what a child, or the program that this one becomes, is told: it knows only what is on the disk, so files by rank 0's names */

enum { TOLD_MAX = 1 << 20 }; /* on the stack of who calls: in a child of vfork() nothing may be allocated */

/* Of the arguments by rank 0's names, and of the list of them. 0: they stay as they are. */
static size_t bytes_of_told(char *const *arguments) {
    size_t count = 0, text = 0;
    for (; arguments && alias_is_known() && arguments[count]; count++) {
        size_t length = alias_spell_words(arguments[count], NULL, 0);
        text += length ? length + 1 : 0;
    }
    size_t bytes = text ? (count + 1) * sizeof(char *) + text : 0;
    return bytes <= TOLD_MAX ? bytes : 0;
}

/* told: the list, and what it points to where that differs. */
static void *tell(char *const *arguments, char **told, size_t bytes) {
    size_t count = 0;
    while (arguments[count])
        count++;
    char *text = (char *)(told + count + 1), *end = (char *)told + bytes;
    for (size_t i = 0; i < count; i++) {
        size_t room = (size_t)(end - text), length = alias_spell_words(arguments[i], text, room);
        bool is_told = length && length < room;
        told[i] = is_told ? text : arguments[i];
        text += is_told ? length + 1 : 0;
    }
    told[count] = NULL;
    return told;
}

/* In the frame of who calls. */
#define TELL(arguments)                                                                                                                    \
    size_t bytes = bytes_of_told(arguments);                                                                                               \
    arguments = bytes ? tell(arguments, alloca(bytes), bytes) : arguments

/* One without a folder libc looks for. */
#define SPELLED_PROGRAM(path) (alias_is_known() && (path) && strchr(path, '/') ? alias_spelled_here(path, FILES_ROOM) : (path))

static void free_told(char *told) {
    int saved_errno = errno;
    free(told);
    errno = saved_errno;
}

/* ---- rows */

int hook_system(const char *command) {
    char *told = alias_spell_text(command);
    const struct command both = {command, "", told ? told : command, ""};
    bool is_met_for = command_is_met_for(command);
    if (!is_met_for)
        before_child();
    int status = is_met_for ? command_run(&both, ORIGINAL(system)) : ORIGINAL(system)(both.told);
    free_told(told);
    return status;
}

void *hook_popen(const char *command, const char *mode) {
    before_child();
    char *told = alias_spell_text(command);
    void *stream = ORIGINAL(popen)(told ? told : command, mode);
    free_told(told);
    return stream;
}

#define SPAWNS(row)                                                                                                                        \
    int hook_##row(void *pid, const char *path, const void *actions, const void *attributes, void *arguments, void *environment) {         \
        before_child();                                                                                                                    \
        TELL(arguments);                                                                                                                   \
        return ORIGINAL(row)(pid, SPELLED_PROGRAM(path), actions, attributes, arguments, environment);                                     \
    }

SPAWNS(posix_spawn)
SPAWNS(posix_spawnp)

/* Python's subprocess: its vfork() returns twice and cannot be hooked; before it there is always a pipe. */
int hook_pipe2(int *ends, int flags) {
    before_child();
    return ORIGINAL(pipe2)(ends, flags);
}

/* The program becomes another one. Children made by fork() and vfork() come by here, too, in which nothing may be locked, allocated or looked up: they are
   other processes, which written_publish_all() sees at once. */
int hook_execve(const char *path, void *arguments, void *environment) {
    written_publish_all();
    TELL(arguments);
    path = SPELLED_PROGRAM(path);
    return NEXT(execve) ? NEXT(execve)(path, arguments, environment) : (int)syscall(SYS_execve, path, arguments, environment);
}

int hook_execv(const char *path, void *arguments) {
    return hook_execve(path, arguments, environ);
}

int hook_execvpe(const char *name, void *arguments, void *environment) {
    written_publish_all();
    TELL(arguments);
    return ORIGINAL(execvpe)(SPELLED_PROGRAM(name), arguments, environment);
}

int hook_execvp(const char *name, void *arguments) {
    return hook_execvpe(name, arguments, environ);
}

int hook_fexecve(int program, void *arguments, void *environment) {
    written_publish_all();
    TELL(arguments);
    return ORIGINAL(fexecve)(program, arguments, environment);
}

static void before_fork(void) {
    written_publish_all();
    if (files_place() >= FILES_MEET)
        given_may_be();
}

__attribute__((constructor)) static void last_start(void) {
    if (shim_job_secret())
        pthread_atfork(before_fork, NULL, NULL);
}

/* The process ends without destructors. signal: 0, or of abort. */
static void before_end(int code, int signal) {
    written_publish_all();
    apart_end();
    beside_end();
    shim_ends(code, signal);
}

void hook_exit_now(int code) {
    before_end(code, 0);
    ORIGINAL(exit_now)(code);
    __builtin_unreachable();
}

void hook_exit_now_c99(int code) {
    before_end(code, 0);
    ORIGINAL(exit_now_c99)(code);
    __builtin_unreachable();
}

void hook_exit_quick(int code) {
    before_end(code, 0);
    ORIGINAL(exit_quick)(code);
    __builtin_unreachable();
}

void hook_abort(void) {
    before_end(0, SIGABRT);
    ORIGINAL(abort)();
    __builtin_unreachable();
}

/* C's assert(), which aborts within libc. */
void hook_assert_fail(const char *assertion, const char *file, unsigned line, const char *function) {
    before_end(0, SIGABRT);
    ORIGINAL(assert_fail)(assertion, file, line, function);
    __builtin_unreachable();
}

void hook_assert_perror_fail(int error, const char *file, unsigned line, const char *function) {
    before_end(0, SIGABRT);
    ORIGINAL(assert_perror_fail)(error, file, line, function);
    __builtin_unreachable();
}

void hook_assert_old(const char *assertion, const char *file, int line) {
    before_end(0, SIGABRT);
    ORIGINAL(assert_old)(assertion, file, line);
    __builtin_unreachable();
}
