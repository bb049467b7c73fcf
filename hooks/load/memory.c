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
    bool follows; /* what it points to is summed, too */
};

static bool is_program(const struct dl_phdr_info *info, const char *address) {
    bool is_executable = !info->dlpi_name || !info->dlpi_name[0];
    return is_executable || shim_module_holds(info, address);
}

static void sum_block(struct program_memory *memory, const void *block, size_t bytes) {
    memory->bytes += bytes;
    if (!block || memory->bytes > PROGRAM_MAX)
        return;
    uint64_t beyond = memory->follows ? reach_sum_beyond(block, bytes) : 0; /* a vector of counters, statistics behind a pointer */
    memory->sum = checksum_bytes(checksum_bytes(memory->sum, block, bytes), &beyond, sizeof beyond);
}

/* Where the loader writes the addresses of functions, each when it is first called; bytes 0: nowhere. */
static struct lazy {
    const char *first;
    size_t bytes;
} find_lazy(const struct dl_phdr_info *info) {
    struct lazy lazy = {NULL, 0};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        for (const ElfW(Dyn) *entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr); entry->d_tag != DT_NULL; entry++) {
            if (entry->d_tag == DT_PLTGOT) /* glibc has made an address of it */
                lazy.first = (const char *)entry->d_un.d_ptr;
            if (entry->d_tag == DT_PLTRELSZ)
                lazy.bytes = (3 + entry->d_un.d_val / sizeof(ElfW(Rela))) * sizeof(void *);
        }
    }
    return lazy;
}

/* A block without its part that is written lazily. */
static void sum_settled(struct program_memory *memory, const struct dl_phdr_info *info, const char *block, size_t bytes) {
    struct lazy lazy = memory->follows ? (struct lazy){NULL, 0} : find_lazy(info);
    if (lazy.first < block || lazy.first + lazy.bytes > block + bytes) {
        sum_block(memory, block, bytes);
        return;
    }
    sum_block(memory, block, (size_t)(lazy.first - block));
    sum_block(memory, lazy.first + lazy.bytes, (size_t)(block + bytes - lazy.first) - lazy.bytes);
}

static int visit_module(struct dl_phdr_info *info, size_t size, void *data) {
    struct program_memory *memory = data;
    if (!is_program(info, memory->address))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_W)
            sum_settled(memory, info, (const char *)info->dlpi_addr + segment->p_vaddr, segment->p_memsz);
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
    struct program_memory memory = {
        .address = address, .follows = true, .sum = checksum_bytes(thread_writes(), _IO_2_1_stdout_, STREAM_POINTERS)};
    dl_iterate_phdr(visit_module, &memory);
    return memory.bytes && memory.bytes <= PROGRAM_MAX ? memory.sum | 1 : 0;
}

uint64_t memory_at_hand(const void *dataset, const void *address) {
    struct program_memory memory = {.address = address};
    size_t bytes = malloc_usable_size((void *)(uintptr_t)dataset);
    dl_iterate_phdr(visit_module, &memory);
    if (bytes > DATASET_MAX || memory.bytes > PROGRAM_MAX)
        return 0;
    uint64_t near = reach_sum_near(dataset, bytes);
    return checksum_bytes(memory.sum, &near, sizeof near) | 1;
}
