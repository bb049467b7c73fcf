/*
 * What reading an example could leave behind for the next one, as far as it can be found: the data set's object (a std::mt19937 among its members), what its
 * members point to (the same behind a shared_ptr), static and thread-local variables of the program and of the library that defines the data set, and what
 * this thread has written.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "load.h"

enum {
    POINTED_MAX = 8192, /* bytes looked at behind a pointer: std::mt19937 has 5000 */
    POINTERS_DEEP = 2,  /* the data set's members' members */
    BLOCKS_MAX = 1024,
    DATASET_MAX = 1 << 20,      /* bytes of the object itself */
    PROGRAM_MAX = 8 << 20,      /* static memory that is looked at; a program with more is not divided */
    CHUNK_MAX = 1 << 30,        /* an allocation larger than this is taken for none */
    CHUNK_HEAD = sizeof(size_t) /* glibc: the size of an allocation, with three flags, stands before it */
};

static bool peek(const void *address, void *to, size_t count) {
    struct iovec local = {to, count}, remote = {(void *)(uintptr_t)address, count};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)count;
}

struct reach {
    uint64_t sum;
    int blocks; /* allocations looked at */
};

/* Of what words point to, when they look like addresses of allocations. Wrong guesses read something stable or make the data set look changed. */
static void sum_pointed(struct reach *reach, const char *const *words, size_t count, int depth) {
    for (size_t i = 0; i < count && reach->blocks < BLOCKS_MAX; i++) {
        const char *pointer = words[i];
        size_t size, room;
        const char *block[POINTED_MAX / sizeof(char *)];
        if ((uintptr_t)pointer < 4096 || (uintptr_t)pointer % 16 || !peek(pointer - CHUNK_HEAD, &size, sizeof size))
            continue;
        size &= ~(size_t)7;
        if (size < 32 || size > CHUNK_MAX || size % 16)
            continue;
        room = size - CHUNK_HEAD < sizeof block ? size - CHUNK_HEAD : sizeof block;
        if (!peek(pointer, block, room))
            continue;
        reach->blocks++;
        reach->sum = checksum_bytes(reach->sum, block, room);
        if (depth > 1)
            sum_pointed(reach, block, room / sizeof *block, depth - 1);
    }
}

uint64_t memory_of_dataset(const void *dataset) {
    size_t count = malloc_usable_size((void *)(uintptr_t)dataset) / sizeof(char *);
    if (!count || count > DATASET_MAX / sizeof(char *))
        return 0;
    struct reach reach = {.sum = checksum_bytes(1, dataset, count * sizeof(char *))};
    sum_pointed(&reach, dataset, count, POINTERS_DEEP);
    return reach.sum | 1;
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
    if (block && memory->bytes <= PROGRAM_MAX)
        memory->sum = checksum_bytes(memory->sum, block, bytes);
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
