#define _GNU_SOURCE
#include "system_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int system_file_text(const char *root, const char *path, char *text, size_t size) {
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s%s", root, path);
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return -1;
    text[n] = 0;
    return 0;
}

int system_file_line(const char *root, const char *path, const char *key, char *value, size_t size) {
    char full[PATH_MAX], line[512];
    *value = 0;
    snprintf(full, sizeof full, "%s%s", root, path);
    FILE *file = fopen(full, "re");
    if (!file)
        return -1;
    int found = -1;
    while (found && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key))) {
            char *text = line + strlen(key);
            text += strspn(text, "=:\t \"");
            text[strcspn(text, "\"\n")] = 0;
            snprintf(value, size, "%s", text);
            found = 0;
        }
    fclose(file);
    return found;
}
