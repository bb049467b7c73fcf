// sources: launcher/program/elf_target.c
/* The reader of executables: any file whatever gives a kind and texts that end. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../launcher/program/elf_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct elf_target target;
    char path[64];
    int file = memfd_create("executable", MFD_CLOEXEC);
    if (file < 0 || write(file, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    elf_target_read(path, &target);
    close(file);
    if (target.kind > ELF_TARGET_BROKEN || strnlen(target.interpreter, PATH_MAX) == PATH_MAX || strnlen(target.sanitizer, 64) == 64)
        abort();
    return 0;
}
