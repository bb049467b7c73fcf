/* What the system says of itself in files (/proc, /sys, /etc). root: "" for the real system, else a folder that stands for "/" (tests). */
#ifndef ACCEL_RUN_SYSTEM_FILE_H
#define ACCEL_RUN_SYSTEM_FILE_H

#include <stddef.h>

/* The beginning of a file. Fills text[size], cut. Returns 0 or -1. */
int system_file_text(const char *root, const char *path, char *text, size_t size);

/* The value behind the first line that begins with `key`, without separators, quotes and line end. Returns 0 or -1 (value is ""). */
int system_file_line(const char *root, const char *path, const char *key, char *value, size_t size);

#endif
