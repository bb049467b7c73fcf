/* Random numbers of the system, as text: the job's secret, a socket's name. */
#ifndef ACCEL_RUN_SECRET_H
#define ACCEL_RUN_SECRET_H

#include <stddef.h>

/* 2 * bytes hexadecimal digits and a terminator; bytes at most 32. Returns 0, or -1 with errno. */
int secret_make(char *text, size_t bytes);

#endif
