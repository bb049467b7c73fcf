/*
 * What reading an example could leave behind for the next one, as far as it can be found: the data set's object (a std::mt19937 among its members), what it
 * can reach (the same behind a shared_ptr; reach.c), static and thread-local variables of the program and of its libraries, and what this thread has written.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "reach.h"

enum {
    DATASET_MAX = 1 << 20,    /* bytes of the object itself */
    PROGRAM_MAX = 8 << 20,    /* static memory that is looked at in every batch */
    LIBRARIES_MAX = 64 << 20, /* and of the program with its libraries, before batches are divided; a program with more is not */
};

uint64_t memory_of_dataset(const void *dataset) {
    size_t bytes = malloc_usable_size((void *)(uintptr_t)dataset);
    return bytes && bytes <= DATASET_MAX ? reach_sum(dataset, bytes) : 0;
}

struct program_memory {
    const char *address;
    const struct modules
        *modules; /* whose program's files are looked at, and what those point to; NULL: the program and the file of that address */
    uint64_t sum;
    size_t bytes, own_bytes; /* all, and those of the program and the file of that address */
    bool is_of_thread;       /* this thread's variables alone */
    bool is_fresh;           /* as a new thread has them */
    bool is_unknown;
};

static bool is_own(const struct program_memory *memory, const struct dl_phdr_info *info) {
    bool is_executable = !info->dlpi_name || !info->dlpi_name[0];
    return is_executable || shim_module_holds(info, memory->address);
}

static void sum_block(struct program_memory *memory, const void *block, size_t bytes) {
    memory->bytes += bytes;
    if (!block || !bytes || memory->bytes > (memory->modules ? LIBRARIES_MAX : PROGRAM_MAX))
        return;
    uint64_t beyond = memory->modules ? reach_sum_beyond(block, bytes) : 1; /* a vector of counters, statistics behind a pointer */
    memory->is_unknown = memory->is_unknown || !beyond;
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
    struct lazy lazy = find_lazy(info);
    if (lazy.first < block || lazy.first + lazy.bytes > block + bytes) {
        sum_block(memory, block, bytes);
        return;
    }
    sum_block(memory, block, (size_t)(lazy.first - block));
    sum_block(memory, lazy.first + lazy.bytes, (size_t)(block + bytes - lazy.first) - lazy.bytes);
}

/* The variables of a thread: its own, or what they begin as (the image, then zeros). */
static void sum_variables(struct program_memory *memory, const struct dl_phdr_info *info, const ElfW(Phdr) * segment) {
    if (!memory->is_fresh) {
        sum_block(memory, info->dlpi_tls_data, segment->p_memsz);
        return;
    }
    char *fresh = calloc(segment->p_memsz + 1, 1);
    if (fresh)
        memcpy(fresh, (const char *)info->dlpi_addr + segment->p_vaddr, segment->p_filesz);
    sum_block(memory, fresh, segment->p_memsz);
    free(fresh);
}

static int visit_module(struct dl_phdr_info *info, size_t size, void *data) {
    struct program_memory *memory = data;
    bool own = is_own(memory, info);
    if (!own && !(memory->modules && modules_is_programs(memory->modules, info->dlpi_phdr)))
        return 0;
    size_t before = memory->bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_W && !memory->is_of_thread)
            sum_settled(memory, info, (const char *)info->dlpi_addr + segment->p_vaddr, segment->p_memsz);
        if (segment->p_type == PT_TLS && size > offsetof(struct dl_phdr_info, dlpi_tls_data))
            sum_variables(memory, info, segment);
    }
    memory->own_bytes += own ? memory->bytes - before : 0;
    return 0;
}

/* ---- what has been written */

uint64_t memory_thread_writes(void) {
    char text[512];
    int file = open("/proc/thread-self/io", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[length > 0 ? length : 0] = 0;
    const char *count = strstr(text, "syscw: ");
    return count ? strtoull(count + 7, NULL, 10) : 0;
}

/* ---- sums */

static void modules_drop(struct modules **modules) {
    modules_free(*modules);
}

uint64_t memory_of_program(const void *address) {
    __attribute__((cleanup(modules_drop))) struct modules *modules = modules_look();
    if (!modules)
        return 0;
    modules_tell_programs(modules, address);
    struct program_memory memory = {.address = address, .modules = modules, .sum = memory_thread_writes() ^ output_sum()};
    dl_iterate_phdr(visit_module, &memory);
    bool all = memory.own_bytes && memory.own_bytes <= PROGRAM_MAX && memory.bytes <= LIBRARIES_MAX && !memory.is_unknown;
    return all ? memory.sum | 1 : 0;
}

uint64_t memory_of_thread(const void *address, bool is_fresh) {
    struct program_memory memory = {.address = address, .sum = 1, .is_of_thread = true, .is_fresh = is_fresh};
    dl_iterate_phdr(visit_module, &memory);
    return memory.sum | 1;
}

uint64_t memory_at_hand(const void *dataset, const void *address) {
    struct program_memory memory = {.address = address, .sum = files_client.sizes()};
    size_t bytes = malloc_usable_size((void *)(uintptr_t)dataset);
    dl_iterate_phdr(visit_module, &memory);
    if (bytes > DATASET_MAX || memory.bytes > PROGRAM_MAX)
        return 0;
    uint64_t near = near_sum(dataset, bytes);
    return checksum_bytes(memory.sum, &near, sizeof near) | 1;
}
