#include "secret.h"

#include <stdio.h>
#include <sys/random.h>

int secret_make(char *text, size_t bytes) {
    unsigned char random[32];
    if (getrandom(random, bytes, 0) != (ssize_t)bytes)
        return -1;
    for (size_t i = 0; i < bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", random[i]);
    return 0;
}
