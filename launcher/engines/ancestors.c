#define _GNU_SOURCE
#include "ancestors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../process.h"

#define FILE_BYTES_MAX (256 << 10)

/* All of /proc/PID/NAME, terminated, owned; NULL when it may not be read. */
static char *read_file(pid_t pid, const char *name, size_t *bytes) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = fd < 0 ? NULL : malloc(FILE_BYTES_MAX + 1);
    ssize_t n = 0;
    *bytes = 0;
    while (text && *bytes < FILE_BYTES_MAX && (n = read(fd, text + *bytes, FILE_BYTES_MAX - *bytes)) > 0)
        *bytes += (size_t)n;
    if (fd >= 0)
        close(fd);
    if (text && n < 0) {
        free(text);
        return NULL;
    }
    if (text)
        text[*bytes] = 0;
    return text;
}

void ancestors_read(struct ancestors *ancestors) {
    memset(ancestors, 0, sizeof *ancestors);
    pid_t above = getppid();
    for (uint32_t i = 0; i < ANCESTORS_MAX && above > 0; i++) {
        struct engine_process *process = &ancestors->list[i];
        process->pid = above;
        process->started = process_started(process->pid, &above, NULL);
        if (!process->started)
            return;
        process->words = ancestors->texts[2 * i] = read_file(process->pid, "cmdline", &process->words_bytes);
        process->environment = ancestors->texts[2 * i + 1] = read_file(process->pid, "environ", &process->environment_bytes);
        ancestors->count++;
    }
}

void ancestors_clear(struct ancestors *ancestors) {
    for (uint32_t i = 0; i < 2 * ANCESTORS_MAX; i++)
        free(ancestors->texts[i]);
    memset(ancestors, 0, sizeof *ancestors);
}
