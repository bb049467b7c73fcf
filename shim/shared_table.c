#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared_table.h"
#include "shim.h"

/* By system calls: no row of hooks/files need see it. Its memory is reserved: a full file system must not end the program when it is written. */
static void *map(const struct shared_table *table, bool to_make) {
    char path[128];
    if (!shim_own_name(table->begin, table->rank, path, sizeof path))
        return NULL;
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (to_make ? O_CREAT : 0), S_IRUSR | S_IWUSR);
    if (file < 0)
        return NULL;
    long failed;
    do /* a timer's signal ends it like any slow call */
        failed = syscall(SYS_fallocate, file, 0, (off_t)0, (off_t)table->bytes);
    while (failed && errno == EINTR);
    void *memory = failed ? MAP_FAILED /* else zeros, for whoever comes first */
                          : mmap(NULL, table->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

void *shared_table_of(struct shared_table *table, bool to_make) {
    void *known = atomic_load(&table->memory), *nobodys = NULL;
    if (known || !shim_job_name())
        return known;
    int saved_errno = errno;
    void *mapped = map(table, to_make);
    errno = saved_errno;
    if (!mapped || atomic_compare_exchange_strong(&table->memory, &nobodys, mapped))
        return mapped;
    munmap(mapped, table->bytes);
    return nobodys;
}
