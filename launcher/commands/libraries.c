#define _GNU_SOURCE /* basename */
#include "libraries.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"

enum { LIST_MS = 5000 };

/* "\tlibm.so.6 => /lib/libm.so.6 (0x7f...)", "\tlibx.so => not found", "\t/lib/ld.so (0x7f...)" */
static void read_line(struct libraries *libraries, char *line) {
    char *arrow = strstr(line, " => ");
    if (!arrow || libraries->count == LIBRARIES_MAX)
        return;
    struct library *library = &libraries->list[libraries->count++];
    char *name = line + strspn(line, "\t "), *path = arrow + 4, *address = strstr(path, " (0x");
    *arrow = 0;
    snprintf(library->name, sizeof library->name, "%s", name);
    if (address)
        *address = 0;
    snprintf(library->path, sizeof library->path, "%s", address ? path : "");
}

/* The environment with what makes the loader list instead of run; "--list" would stop at the first library that is missing. The list is owned. */
static char **tracing(char *const *environment) {
    static char trace[] = "LD_TRACE_LOADED_OBJECTS=1";
    size_t count = 0;
    while (environment[count])
        count++;
    char **list = calloc(count + 2, sizeof *list);
    if (list) {
        memcpy(list, environment, count * sizeof *list);
        list[count] = trace;
    }
    return list;
}

int libraries_read(struct libraries *libraries, const char *interpreter, const char *path, char *const *environment) {
    static struct capture capture; /* static: 512 KiB */
    char *arguments[] = {(char *)(uintptr_t)interpreter, (char *)(uintptr_t)path, NULL};
    struct capture_request request = {interpreter, arguments, tracing(environment), NULL, LIST_MS, NULL};
    memset(libraries, 0, sizeof *libraries);
    int status = request.environment ? capture_run(&request, &capture) : -1;
    free((void *)(uintptr_t)request.environment);
    for (char *rest = capture.out, *line; (line = strsep(&rest, "\n"));)
        read_line(libraries, line);
    if (status && !libraries->count)
        snprintf(libraries->problem, sizeof libraries->problem, "%.*s", (int)strcspn(capture.errors, "\n"),
                 capture.has_timed_out ? "the dynamic loader does not answer" : capture.errors);
    return status && !libraries->count ? -1 : 0;
}

const struct library *libraries_find(const struct libraries *libraries, const char *name) {
    size_t length = strlen(name);
    for (int i = 0; i < libraries->count; i++) {
        const char *file = basename(libraries->list[i].name);
        if (!strncmp(file, name, length) && (!strncmp(file + length, ".so", 3) || file[length] == '-'))
            return &libraries->list[i];
    }
    return NULL;
}
