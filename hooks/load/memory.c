/*
 * What reading an example could leave behind for the next one, as far as it can be found: the data set's object (a std::mt19937 among its members), what it
 * can reach (the same behind a shared_ptr; reach.c), static and thread-local variables of the program and of the library that defines the data set, and what
 * this thread has written.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "load.h"

enum {
    DATASET_MAX = 1 << 20, /* bytes of the object itself */
    PROGRAM_MAX = 8 << 20, /* static memory that is looked at; a program with more is not divided */
};

uint64_t memory_of_dataset(const void *dataset) {
    size_t bytes = malloc_usable_size((void *)(uintptr_t)dataset);
    return bytes && bytes <= DATASET_MAX ? reach_sum(dataset, bytes) : 0;
}

struct program_memory {
    const char *address;
    uint64_t sum;
    size_t bytes;
};

static bool is_program(const struct dl_phdr_info *info, const char *address) {
    bool is_executable = !info->dlpi_name || !info->dlpi_name[0];
    return is_executable || shim_module_holds(info, address);
}

static void sum_block(struct program_memory *memory, const void *block, size_t bytes) {
    memory->bytes += bytes;
    if (!block || memory->bytes > PROGRAM_MAX)
        return;
    uint64_t beyond = reach_sum_beyond(block, bytes); /* a vector of counters, statistics behind a pointer */
    memory->sum = checksum_bytes(checksum_bytes(memory->sum, block, bytes), &beyond, sizeof beyond);
}

static int visit_module(struct dl_phdr_info *info, size_t size, void *data) {
    struct program_memory *memory = data;
    if (!is_program(info, memory->address))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_W)
            sum_block(memory, (const char *)info->dlpi_addr + segment->p_vaddr, segment->p_memsz);
        if (segment->p_type == PT_TLS && size > offsetof(struct dl_phdr_info, dlpi_tls_data))
            sum_block(memory, info->dlpi_tls_data, segment->p_memsz);
    }
    return 0;
}

/* Calls of write by this thread so far: a get() that prints or logs. 0 where the kernel does not count. */
static uint64_t thread_writes(void) {
    char text[512];
    int file = open("/proc/thread-self/io", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[length > 0 ? length : 0] = 0;
    const char *count = strstr(text, "syscw: ");
    return count ? strtoull(count + 7, NULL, 10) : 0;
}

/* libc's standard output: a get() that prints moves its pointers, or writes. glibc's name for the object behind the variable. */
extern char _IO_2_1_stdout_[];
enum { STREAM_POINTERS = 72 };

uint64_t memory_of_program(const void *address) {
    struct program_memory memory = {.address = address, .sum = checksum_bytes(thread_writes(), _IO_2_1_stdout_, STREAM_POINTERS)};
    dl_iterate_phdr(visit_module, &memory);
    return memory.bytes && memory.bytes <= PROGRAM_MAX ? memory.sum | 1 : 0;
}
