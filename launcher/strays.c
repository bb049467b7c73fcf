#define _GNU_SOURCE
#include "strays.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"
#include "program/interpret.h"

#define CHILDREN_MAX 1024

static bool is_ours(const struct strays *strays, pid_t pid) {
    for (uint32_t i = 0; i < strays->world_size; i++)
        if (strays->ranks[i].pid == pid)
            return true;
    for (int i = 0; i < strays->earlier_count; i++)
        if (strays->earlier[i] == pid)
            return true;
    return pid == strays->guard;
}

/* Numbers after one another. */
static int take_children(const char *text, pid_t *pids, int most) {
    int count = 0;
    char *end;
    for (const char *at = text; count < most; at = end) {
        pids[count] = (pid_t)strtol(at, &end, 10);
        if (end == at)
            break;
        count++;
    }
    return count;
}

/* Whose parent it is, where the kernel has no list of them (CONFIG_PROC_CHILDREN, gVisor). */
static int find_children(pid_t of, pid_t *pids, int most) {
    int count = 0;
    pid_t parent;
    DIR *processes = opendir("/proc");
    struct dirent *entry;
    while (processes && count < most && (entry = readdir(processes))) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid > 0 && process_started(pid, &parent, NULL) && parent == of)
            pids[count++] = pid;
    }
    if (processes)
        closedir(processes);
    return count;
}

/* Those of its first thread; at most so many. */
static int list_children(pid_t of, pid_t *pids, int most) {
    char path[64], *text = NULL;
    size_t capacity = 0;
    int count = 0;
    if (!process_are_shown())
        return 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)of, (int)of);
    FILE *file = fopen(path, "re");
    if (!file)
        return find_children(of, pids, most);
    if (getline(&text, &capacity, file) > 0)
        count = take_children(text, pids, most);
    free(text);
    fclose(file);
    return count;
}

/* Our children that are strays; at most so many. */
static int list_strays(const struct strays *strays, pid_t *pids, int most) {
    int strangers = 0, count = list_children(getpid(), pids, most);
    for (int i = 0; i < count; i++)
        if (!is_ours(strays, pids[i]))
            pids[strangers++] = pids[i];
    return strangers;
}

void strays_note_earlier(struct strays *strays) {
    strays->earlier_count = list_strays(strays, strays->earlier, STRAYS_EARLIER_MAX);
}

/* A script that has waited for the rank's last program. It may become the next one itself: a shell's last command. */
bool strays_is_script(pid_t pid, const struct rank *rank) {
    for (int i = 0; i < RANK_ABOVE_MAX; i++)
        if (rank->above[i].pid == pid)
            return rank->above[i].started == process_started(pid, NULL, NULL);
    return false;
}

/* How a rank's program has ended that a script had left in the background, or another script that had run it there: one that dies before its program, of what
   that handles, says nothing. What has ended before the script that left it is that one's matter. */
static void note_end(const struct strays *strays, const siginfo_t *end) {
    for (uint32_t i = 0; i < strays->world_size; i++) {
        struct rank *rank = &strays->ranks[i];
        bool is_program = rank->claimer == end->si_pid && rank->claimer_started == process_started(end->si_pid, NULL, NULL);
        bool is_script = strays_is_script(end->si_pid, rank) && !process_state(rank->claimer, rank->claimer_started);
        if (!rank->is_survived || (!is_program && !is_script))
            continue;
        rank->program_code = end->si_code == CLD_EXITED ? end->si_status : 0;
        rank->program_signal = end->si_code == CLD_EXITED ? 0 : end->si_status;
        rank->program_is_known = true;
    }
}

int strays_reap(const struct strays *strays) {
    pid_t pids[CHILDREN_MAX];
    int left = 0, count = list_strays(strays, pids, CHILDREN_MAX);
    for (int i = 0; i < count; i++) {
        siginfo_t end = {0};
        if (waitid(P_PID, (id_t)pids[i], &end, WEXITED | WNOHANG | WNOWAIT))
            continue;
        if (end.si_pid) {
            note_end(strays, &end);
            waitpid(pids[i], NULL, WNOHANG);
        } else {
            left++;
        }
    }
    return left;
}

static bool read_name(pid_t pid, char *name, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, name, size - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    name[n - (name[n - 1] == '\n')] = 0;
    return true;
}

/* libtorch's torch_shm_manager, as far as the kernel keeps names: it ends two seconds after the last process that shares tensors by its help, and removes their
   memory, and its folder in /tmp, at its own end alone. */
static bool ends_by_itself(pid_t pid) {
    char name[64];
    return read_name(pid, name, sizeof name) && !strcmp(name, "torch_shm_manag");
}

static bool is_meant(pid_t pid, int signal) {
    return signal == SIGKILL || !ends_by_itself(pid);
}

static bool is_python(pid_t pid) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = 0;
    return n > 0 && interpret_is_python(path);
}

static bool has_libtorch(pid_t pid) {
    char path[64], *line = NULL;
    size_t capacity = 0;
    bool has = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && !has && getline(&line, &capacity, file) > 0)
        has = strstr(line, "/libtorch_cpu.so");
    free(line);
    if (file)
        fclose(file);
    return has;
}

/* What runs beside a training (a server that shows its curves, what the training itself has started) is older than the end of that. */
static bool may_be_loading(pid_t pid, const struct rank *rank) {
    bool is_younger = process_started(pid, NULL, NULL) >= rank->released;
    return is_younger && !ends_by_itself(pid) && (is_python(pid) || has_libtorch(pid));
}

static bool goes_on_waiting(pid_t pid, const struct rank *rank) {
    return strays_is_script(pid, rank) && process_state(pid, 0) != 'Z';
}

pid_t strays_find_trainer(const struct strays *strays, const struct rank *rank, bool may_load) {
    pid_t pids[CHILDREN_MAX];
    int count = list_strays(strays, pids, CHILDREN_MAX);
    for (int i = 0; i < count; i++) /* first: with many ranks, each of which has one, the others need not be looked at */
        if (goes_on_waiting(pids[i], rank))
            return pids[i];
    for (int i = 0; i < count; i++) {
        if (goes_on_waiting(pids[i], rank) || (may_load && may_be_loading(pids[i], rank)))
            return pids[i];
        count += list_children(pids[i], pids + count, CHILDREN_MAX - count);
    }
    return 0;
}

bool strays_end_by_themselves(const struct strays *strays) {
    pid_t pids[CHILDREN_MAX];
    int count = list_strays(strays, pids, CHILDREN_MAX);
    for (int i = 0; i < count; i++)
        if (!ends_by_itself(pids[i]))
            return false;
    return true;
}

void strays_add_name(pid_t pid, char *names, size_t size) {
    char name[64];
    size_t used = strlen(names);
    if (read_name(pid, name, sizeof name) && used + 100 <= size)
        snprintf(names + used, size - used, "%s%s (%d)", used ? ", " : "", name, (int)pid);
}

void strays_names(const struct strays *strays, int signal, char *names, size_t size) {
    pid_t pids[CHILDREN_MAX];
    int count = list_strays(strays, pids, CHILDREN_MAX);
    names[0] = 0;
    for (uint32_t i = 0; i < strays->world_size; i++)
        if (!strays->ranks[i].has_ended)
            strays_add_name(strays->ranks[i].pid, names, size);
    for (int i = 0; i < count; i++)
        if (is_meant(pids[i], signal))
            strays_add_name(pids[i], names, size);
}

void strays_signal(const struct strays *strays, int signal) {
    pid_t pids[CHILDREN_MAX];
    int count = list_strays(strays, pids, CHILDREN_MAX);
    for (int i = 0; i < count; i++)
        if (is_meant(pids[i], signal))
            kill(pids[i], signal);
    for (uint32_t i = 0; i < strays->world_size; i++)
        rank_signal(&strays->ranks[i], signal);
}
