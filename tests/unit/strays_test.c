// sources: launcher/strays.c launcher/process.c launcher/rank.c launcher/program/interpret.c
/*
 * Processes that outlive their rank, on kernels that do not list a process's children.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "../../launcher/process.h"
#include "../../launcher/strays.h"

static const char *hidden = "no file";

/* In the place of libc's. */
FILE *fopen(const char *path, const char *mode) {
    int descriptor = strstr(path, hidden) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    return descriptor < 0 ? NULL : fdopen(descriptor, mode);
}

static const char *own_number;

/* In the place of libc's. */
ssize_t readlink(const char *path, char *target, size_t size) {
    bool is_own = own_number && !strcmp(path, "/proc/self");
    return is_own ? (ssize_t)strlen(strncpy(target, own_number, size)) : readlinkat(AT_FDCWD, path, target, size);
}

static pid_t start_child(void) {
    pid_t pid = fork();
    if (!pid)
        for (;;)
            pause();
    return pid;
}

static void expect_found(void) {
    struct rank rank = {.pid = start_child()};
    struct strays strays = {.ranks = &rank, .world_size = 1, .guard = start_child()};
    EXPECT(strays_reap(&strays) == 0);
    start_child();
    pid_t second = start_child();
    EXPECT(strays_reap(&strays) == 2);
    kill(second, SIGKILL);
    waitid(P_PID, (id_t)second, &(siginfo_t){0}, WEXITED | WNOWAIT);
    EXPECT(strays_reap(&strays) == 1 && waitpid(second, NULL, 0) < 0);
    strays_signal(&strays, SIGKILL);
    kill(rank.pid, SIGKILL);
    kill(strays.guard, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    EXPECT(strays_reap(&strays) == 0);
}

TEST("children that are neither ranks nor the guard are found and reaped") {
    expect_found();
}

TEST("... also where the kernel does not list a process's children") {
    hidden = "/children";
    expect_found();
}

/* A rank whose program is a child that has ended so, and was not reaped. */
static void start_program(struct rank *rank, int code) {
    int ends[2];
    *rank = (struct rank){.pid = start_child(), .has_claimed = true, .is_survived = true};
    EXPECT(pipe(ends) == 0);
    rank->claimer = fork();
    if (!rank->claimer) {
        char byte;
        close(ends[1]);
        while (read(ends[0], &byte, 1))
            ;
        _exit(code);
    }
    rank->claimer_started = process_started(rank->claimer, NULL, NULL);
    close(ends[0]);
    close(ends[1]);
    waitid(P_PID, (id_t)rank->claimer, &(siginfo_t){0}, WEXITED | WNOWAIT);
}

TEST("how a rank's program has ended is known when it was reaped, or how a script has that had run it; not by another process that has its "
     "number") {
    struct rank ranks[5];
    struct strays strays = {.ranks = ranks, .world_size = 5};
    for (int i = 0; i < 5; i++)
        start_program(&ranks[i], 4 + i);
    ranks[1].claimer_started--; /* it was another one */
    ranks[2].above[1] = (struct rank_ancestor){ranks[2].claimer, ranks[2].claimer_started};
    ranks[3].above[1] = (struct rank_ancestor){ranks[3].claimer, ranks[3].claimer_started - 1};
    ranks[2].claimer = ranks[3].claimer = INT32_MAX; /* gone */
    ranks[4].is_survived = false;                    /* its script has not ended yet */
    EXPECT(strays_reap(&strays) == 0);
    EXPECT(ranks[0].program_code == 4 && ranks[1].program_code == 0 && ranks[2].program_code == 6);
    EXPECT(!ranks[3].program_is_known && !ranks[4].program_is_known);
    for (int i = 0; i < 5; i++)
        kill(ranks[i].pid, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

TEST("in a /proc of another name space nobody is taken for a child, nor for one that is about to end") {
    struct strays strays = {0};
    pid_t child = start_child();
    EXPECT(strays_reap(&strays) == 1);
    own_number = "1";
    for (int way = 0; way < 2; way++, hidden = "/children")
        EXPECT(strays_reap(&strays) == 0);
    EXPECT(!process_started(child, NULL, NULL) && process_state(child, 0) == '?');
    EXPECT(!process_is_exiting(child) && !process_is_exiting(INT32_MAX));
    own_number = NULL;
    strays_signal(&strays, SIGKILL);
    waitpid(child, NULL, 0);
}

/* Named before this returns. */
static pid_t start_named(const char *name) {
    int ends[2];
    char byte;
    EXPECT(pipe(ends) == 0);
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_NAME, name);
        EXPECT(write(ends[1], "", 1) == 1);
        for (;;)
            pause();
    }
    EXPECT(read(ends[0], &byte, 1) == 1);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

TEST("libtorch's helper ends by itself: it is neither named nor told to end, only killed") {
    struct strays strays = {0};
    char names[128];
    siginfo_t ended;
    pid_t helper = start_named("torch_shm_manager");
    EXPECT(strays_end_by_themselves(&strays));
    pid_t other = start_named("other");
    EXPECT(!strays_end_by_themselves(&strays));
    strays_names(&strays, SIGTERM, names, sizeof names);
    EXPECT(strstr(names, "other (") && !strstr(names, "torch_shm"));
    strays_signal(&strays, SIGTERM);
    EXPECT(waitpid(other, NULL, 0) == other);
    EXPECT(strays_reap(&strays) == 1 && strays_end_by_themselves(&strays));
    strays_names(&strays, SIGKILL, names, sizeof names);
    EXPECT(strstr(names, "torch_shm"));
    strays_signal(&strays, SIGKILL);
    EXPECT(waitid(P_PID, (id_t)helper, &ended, WEXITED) == 0 && ended.si_status == SIGKILL);
}

/* A child that has started one which has mapped the file; returns the first one, both are there. */
static pid_t start_mapping(const char *path, pid_t *second) {
    int ends[2];
    EXPECT(pipe(ends) == 0);
    pid_t first = fork();
    if (!first) {
        pid_t pid = fork();
        if (!pid) {
            int file = open(path, O_RDWR | O_CREAT, 0600);
            pid = getpid();
            EXPECT(mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0) != MAP_FAILED);
            EXPECT(write(ends[1], &pid, sizeof pid) == sizeof pid);
        }
        for (;;)
            pause();
    }
    EXPECT(read(ends[0], second, sizeof *second) == sizeof *second);
    close(ends[0]);
    close(ends[1]);
    return first;
}

TEST(
    "what has libtorch may be the next program, also below a script, unless it was there before the last one ended, or has had its time to "
    "load; so may be who has waited for the last one, at any time") {
    char folder[] = "/tmp/strays_test.XXXXXX", path[64];
    struct strays strays = {0};
    struct rank never = {0}, later = {.released = UINT64_MAX};
    pid_t second;
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/libtorch_cpu.so", folder);
    EXPECT(!strays_find_trainer(&strays, &never, true));
    pid_t first = start_mapping(path, &second);
    EXPECT(strays_find_trainer(&strays, &never, true) == second);
    EXPECT(!strays_find_trainer(&strays, &never, false));
    EXPECT(!strays_find_trainer(&strays, &later, true));
    later.above[1] = (struct rank_ancestor){first, process_started(first, NULL, NULL)};
    EXPECT(strays_find_trainer(&strays, &later, true) == first && strays_find_trainer(&strays, &later, false) == first);
    later.above[1].started--; /* another one has its number */
    EXPECT(!strays_find_trainer(&strays, &later, false));
    unlink(path);
    rmdir(folder);
    kill(second, SIGKILL);
    kill(first, SIGKILL);
    waitpid(first, NULL, 0);
}
