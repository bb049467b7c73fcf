/* Rows that come before others, or nobody, can look: children, and ends without destructors. What is written so far takes its place. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alias.h"
#include "files.h"

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

/* A child, or the program that this one becomes, knows only what is on the disk: it is told of files by rank 0's names. */
struct told {
    char *list[256];
    char text[16 << 10]; /* on the stack of who calls: nothing may be allocated */
};

/* arguments, or those in told. More than it has room for stay as they are. */
static void *tell(void *arguments, struct told *told) {
    char **given = arguments;
    size_t count = 0, used = 0;
    if (!given || !alias_is_known())
        return arguments;
    for (; given[count]; count++) {
        const char *spelled = alias_spelled_in(given[count], told->text + used, sizeof told->text - used);
        if (count + 1 >= sizeof told->list / sizeof *told->list)
            return arguments;
        told->list[count] = (char *)spelled;
        used += spelled == given[count] ? 0 : strlen(spelled) + 1;
    }
    told->list[count] = NULL;
    return told->list;
}

int hook_system(const char *command) {
    char *told = alias_spell_text(command);
    bool is_met_for = command_is_met_for(command);
    command = told ? told : command;
    if (!is_met_for)
        before_child();
    int status = is_met_for ? command_run(command, ORIGINAL(system)) : ORIGINAL(system)(command);
    int saved_errno = errno;
    free(told);
    errno = saved_errno;
    return status;
}

void *hook_popen(const char *command, const char *mode) {
    before_child();
    char *told = alias_spell_text(command);
    void *stream = ORIGINAL(popen)(told ? told : command, mode);
    int saved_errno = errno;
    free(told);
    errno = saved_errno;
    return stream;
}

int hook_posix_spawn(void *pid, const char *path, const void *actions, const void *attributes, void *arguments, void *environment) {
    struct told told;
    before_child();
    return ORIGINAL(posix_spawn)(pid, path, actions, attributes, tell(arguments, &told), environment);
}

int hook_posix_spawnp(void *pid, const char *path, const void *actions, const void *attributes, void *arguments, void *environment) {
    struct told told;
    before_child();
    return ORIGINAL(posix_spawnp)(pid, path, actions, attributes, tell(arguments, &told), environment);
}

/* Python's subprocess: its vfork() returns twice and cannot be hooked; before it there is always a pipe. */
int hook_pipe2(int *ends, int flags) {
    before_child();
    return ORIGINAL(pipe2)(ends, flags);
}

/* The program becomes another one. Children made by fork() and vfork() come by here, too, in which nothing may be locked, allocated or looked up: they are
   other processes, which written_publish_all() sees at once. */
int hook_execve(const char *path, void *arguments, void *environment) {
    struct told told;
    written_publish_all();
    arguments = tell(arguments, &told);
    return NEXT(execve) ? NEXT(execve)(path, arguments, environment) : (int)syscall(SYS_execve, path, arguments, environment);
}

int hook_execv(const char *path, void *arguments) {
    return hook_execve(path, arguments, environ);
}

int hook_execvp(const char *name, void *arguments) {
    struct told told;
    written_publish_all();
    return ORIGINAL(execvp)(name, tell(arguments, &told));
}

int hook_execvpe(const char *name, void *arguments, void *environment) {
    struct told told;
    written_publish_all();
    return ORIGINAL(execvpe)(name, tell(arguments, &told), environment);
}

int hook_fexecve(int program, void *arguments, void *environment) {
    struct told told;
    written_publish_all();
    return ORIGINAL(fexecve)(program, tell(arguments, &told), environment);
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
