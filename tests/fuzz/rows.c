// sources: launcher/commands/rows.c
/* The doctor's reader of symbols and relocations, and of the rows in our own library: any file whatever is read to its end or given up. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../launcher/commands/rows.h"

static struct row list[] = {
    {.name = "one", .library = "libx", .symbol = "called", .need = ROW_REQUIRED},
    {.name = "two", .library = "libc10_or_cpu", .symbol = "called", .is_call = true},
    {.name = "three", .library = "libx", .symbol = "main", .need = ROW_VARIANT},
};
static struct row *by_symbol[] = {&list[0], &list[1], &list[2]};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct rows fixed = {.list = list, .by_symbol = by_symbol, .count = 3}, read;
    char path[64];
    int file = memfd_create("library", MFD_CLOEXEC);
    if (file < 0 || write(file, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    for (int i = 0; i < 3; i++)
        list[i].is_present = list[i].by_name = list[i].by_address = false;
    rows_look(&fixed, path, "libx");
    rows_look(&fixed, path, "libc10");
    for (int i = 0; i < 3; i++)
        if (!*rows_binding(&list[i]) || (list[i].is_present && !rows_is_satisfied(&fixed, &list[i])))
            abort();
    if (rows_read(&read, path) == 0 && read.count)
        rows_look(&read, path, read.list[0].library);
    rows_clear(&read);
    close(file);
    return 0;
}
