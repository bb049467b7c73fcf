/*
 * Reads the board of a running job, as the launcher does (config/board.h).
 *
 *   board LAUNCHER RANK PHASE STEP    waits until the rank waits for the others in this phase (a number of enum board_phase) of this step (the first
 *                                     is 1), then prints its process number
 *
 * Ends with 1 after a minute, or when the job has ended.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../config/board.h"

/* The launcher's first segment; NULL: not made yet. */
static struct board *find_board(const char *launcher) {
    char folder[64], path[400], target[256];
    struct dirent *entry;
    void *found = MAP_FAILED;
    snprintf(folder, sizeof folder, "/proc/%.20s/fd", launcher);
    DIR *list = opendir(folder);
    while (list && found == MAP_FAILED && (entry = readdir(list))) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n < 0 ? 0 : n] = 0;
        int fd = strstr(target, "memfd:accel-run") ? open(path, O_RDWR) : -1;
        if (fd >= 0)
            found = mmap(NULL, board_bytes(0), PROT_READ, MAP_SHARED, fd, 0);
    }
    if (list)
        closedir(list);
    return found == MAP_FAILED ? NULL : found;
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    struct board *board = NULL;
    for (int i = 0; i < 60000 && kill(atoi(argv[1]), 0) == 0; i++, usleep(1000)) {
        if (!board)
            board = find_board(argv[1]);
        const struct board_rank *rank = board ? &board->ranks[atoi(argv[2])] : NULL;
        if (rank && atomic_load(&rank->phase) == (uint32_t)atoi(argv[3]) && atomic_load(&rank->step) + 1 == (uint64_t)atoi(argv[4]) &&
            atomic_load(&rank->waiting)) {
            printf("%d\n", (int)atomic_load(&rank->pid));
            return 0;
        }
    }
    return 1;
}
