#define _GNU_SOURCE
#include "own.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HIGH_DESCRIPTOR = 400 };

/* By system calls: in the library these functions are hooked, for the program's files. */
static int status_of(int descriptor, struct stat *status) {
    return (int)syscall(SYS_fstat, descriptor, status);
}

struct own_descriptor own_take(int low) {
    struct stat status;
    int high = (int)syscall(SYS_fcntl, low, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR); /* fails below a low limit: then it stays where it is */
    if (high >= 0) {
        syscall(SYS_close, low);
        low = high;
    }
    if (status_of(low, &status))
        return OWN_NONE;
    return (struct own_descriptor){low, status.st_dev, status.st_ino};
}

bool own_is_there(const struct own_descriptor *own) {
    struct stat status;
    return own->number >= 0 && status_of(own->number, &status) == 0 && status.st_dev == own->device && status.st_ino == own->file;
}

void own_close(struct own_descriptor *own) {
    if (own_is_there(own))
        syscall(SYS_close, own->number);
    own->number = -1;
}
