#define _GNU_SOURCE
#include "attach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "checksum.h"
#include "moment.h"
#include "shim.h"

enum { ANCESTORS_MAX = 64, COMMAND_BYTES = 8192 };

/* A file of the process in /proc; the program's own hooks are not asked. Returns its bytes, at most `room`, or 0. */
static size_t read_of(pid_t pid, const char *name, char *text, size_t room) {
    char path[64];
    size_t bytes = 0;
    ssize_t got = 1;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    while (file >= 0 && bytes < room && (got = syscall(SYS_read, file, text + bytes, room - bytes)) > 0)
        bytes += (size_t)got;
    if (file >= 0)
        syscall(SYS_close, file);
    return bytes;
}

/* 0: there is none that can be seen. */
static pid_t parent_of(pid_t pid) {
    char text[512];
    int parent = 0;
    size_t bytes = read_of(pid, "stat", text, sizeof text - 1);
    text[bytes] = 0;
    const char *name_ends = strrchr(text, ')');
    return name_ends && sscanf(name_ends + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* name[PATH_MAX]: of its executable, without folders; empty: it cannot be seen. */
static void program_name(pid_t pid, char *name) {
    char path[64], program[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(path, program, sizeof program - 1);
    program[length < 0 ? 0 : length] = 0;
    strcpy(name, shim_base_of(program));
}

static bool is_python(const char *name) {
    return !strncmp(name, "python", strlen("python"));
}

/* Python, or a program that may train: what it starts is its own. Or what lets one rank in at a time. */
static bool is_no_shell(pid_t pid) {
    enum { MAPS_BYTES = 1 << 20 };
    char name[PATH_MAX];
    program_name(pid, name);
    if (!*name || is_python(name) || !strcmp(name, "flock"))
        return true;
    char *maps = malloc(MAPS_BYTES);
    size_t bytes = maps ? read_of(pid, "maps", maps, MAPS_BYTES - 1) : 0;
    if (maps)
        maps[bytes] = 0;
    bool is_one = !bytes || strstr(maps, "/libpython") || strstr(maps, "/libtorch_cpu");
    free(maps);
    return is_one;
}

/* From the job's name; 0: it is not known. */
static pid_t launcher_of_job(void) {
    int launcher = 0;
    const char *job = shim_job_name();
    return job && sscanf(job, "accel-run-%d-", &launcher) == 1 ? launcher : 0;
}

static bool is_below_shells(void) {
    pid_t launcher = launcher_of_job(), parent = getppid();
    for (int i = 0; i < ANCESTORS_MAX && parent > 1 && parent != launcher; i++) {
        if (is_no_shell(parent))
            return false;
        parent = parent_of(parent);
    }
    return parent == launcher && launcher;
}

/* A shell's process number may be the name of a run ($$); one of few digits, as in a container, may be any number. */
static uint64_t program_of(const char *command, size_t bytes) {
    enum { CERTAIN = 1000 };
    char spelled[COMMAND_BYTES];
    int32_t parent = getppid();
    struct moment moment = {time(NULL), &parent, parent >= CERTAIN};
    uint64_t program = 0;
    for (size_t at = 0; at < bytes; at += strlen(command + at) + 1) {
        moment_spell(command + at, &moment, spelled);
        moment_forget_drawn(spelled);
        const char *drawn = strstr(spelled, "/tmp/"); /* what stands behind it mktemp may have drawn */
        program = checksum_bytes(program, spelled, drawn ? (size_t)(drawn - spelled) : strlen(spelled));
    }
    return program;
}

bool attach_may(uint64_t *program) {
    char command[COMMAND_BYTES], name[PATH_MAX];
    int saved_errno = errno;
    program_name(getpid(), name);
    bool may = is_python(name) && is_below_shells();
    size_t bytes = may ? read_of(getpid(), "cmdline", command, sizeof command - 1) : 0;
    command[bytes] = 0;
    *program = program_of(command, bytes);
    errno = saved_errno;
    return may;
}
