#define _GNU_SOURCE
#include "logs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int folder_problem(const char *path, struct problem *problem) {
    return problem_set(problem, EXIT_LAUNCHER, "AR-LOG-DIR", "name a folder you may write to", "--log-dir: '%s': %s", path,
                       strerror(errno));
}

int logs_make_folder(const char *folder, struct problem *problem) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return folder_problem(folder, problem);
    }
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777); /* what goes wrong here shows below */
        *slash = '/';
    }
    return mkdir(path, 0777) && errno != EEXIST ? folder_problem(folder, problem) : 0;
}

int logs_open(const char *folder, uint32_t rank, const char *kind, int flags, struct problem *problem) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/rank-%u.%s", folder, rank, kind);
    int descriptor = open(path, flags | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return descriptor < 0 ? folder_problem(path, problem) : descriptor;
}
