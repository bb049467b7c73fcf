/*
 * What an object can reach: the allocations that it points to, those that they point to, and so on. Nobody says which words are pointers, or how long what
 * they point to is: a word is followed when it looks like the address of an allocation of glibc's. What points elsewhere into writable memory that is nobody's
 * static one (a variable of a function, a member in the middle of an object) leads to memory whose extent is not known: then nothing is known of the object.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "load.h"

enum {
    SUMMED_MAX = 1 << 16,      /* bytes of every allocation that are looked at: std::mt19937 has 5000 */
    SUMMED_IN_ALL = 256 << 20, /* and bytes in all, before no allocation is looked at further than that */
    FOLLOWED_MAX = 8192,       /* and in which pointers are */
    DEEP = 6,                  /* a data set's vector of shared pointers to objects with a unique_ptr: four */
    BLOCKS_MAX = 1024,         /* a data set of more has them for its examples */
    DOUBTS_MAX = 256,
    REGIONS_MAX = 4096,
    CHUNK_MAX = 1 << 30,        /* an allocation larger than this is taken for none */
    CHUNK_HEAD = sizeof(size_t) /* glibc: the size of an allocation, with three flags, stands before it */
};

struct region {
    uintptr_t first, end;
};

struct reach {
    uint64_t sum;
    struct region blocks[BLOCKS_MAX]; /* looked at */
    uintptr_t doubts[DOUBTS_MAX];     /* pointers to the middle of something */
    struct region *regions;           /* writable memory, ascending */
    struct region stack;              /* of the main thread */
    int block_count, doubt_count, region_count;
    size_t summed_bytes;
    char summed[SUMMED_MAX];
};

static bool peek(uintptr_t address, void *to, size_t count) {
    struct iovec local = {to, count}, remote = {(void *)address, count};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)count;
}

static bool find_regions(struct reach *reach) {
    char line[512], rights[8];
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return false;
    while (reach->region_count < REGIONS_MAX && fgets(line, sizeof line, maps)) {
        struct region region;
        if (sscanf(line, "%lx-%lx %7s", &region.first, &region.end, rights) != 3 || rights[1] != 'w')
            continue;
        reach->regions[reach->region_count++] = region;
        if (strstr(line, "[stack]"))
            reach->stack = region;
    }
    fclose(maps);
    return reach->region_count < REGIONS_MAX;
}

static bool is_in_regions(const struct reach *reach, uintptr_t address) {
    int low = 0, high = reach->region_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (reach->regions[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < reach->region_count && reach->regions[low].first <= address;
}

static bool is_looked_at(const struct reach *reach, uintptr_t address) {
    for (int i = 0; i < reach->block_count; i++)
        if (address >= reach->blocks[i].first && address <= reach->blocks[i].end) /* a vector's end is behind its last element */
            return true;
    return false;
}

/* The bytes of the allocation that begins there; 0: none does. */
static size_t allocation_bytes(const struct reach *reach, uintptr_t address) {
    size_t size;
    bool is_variable = address >= reach->stack.first && address < reach->stack.end;
    if (is_variable || address % 16 || !peek(address - CHUNK_HEAD, &size, sizeof size))
        return 0;
    size &= ~(size_t)7;
    return size < 32 || size > CHUNK_MAX || size % 16 ? 0 : size - CHUNK_HEAD;
}

/* Memory of a program or a library, of which memory.c looks at the data set's. */
static bool is_static(uintptr_t address) {
    Dl_info info;
    return dladdr((void *)address, &info);
}

/* Does another allocation follow, or is it one that was mapped for itself? Else the number before it only looks like a size. */
static bool has_an_end(uintptr_t address) {
    enum { IN_USE = 1, MAPPED = 2, PAGE = 4096 }; /* flags of glibc's: the one before is in use; mapped */
    size_t own, next;
    if (!peek(address - CHUNK_HEAD, &own, sizeof own))
        return false;
    if (own & MAPPED)
        return (address - 2 * CHUNK_HEAD) % PAGE == 0 && (own & ~(size_t)7) % PAGE == 0;
    return peek(address - CHUNK_HEAD + (own & ~(size_t)7), &next, sizeof next) && next & IN_USE && (next & ~(size_t)7) >= 32 &&
           next < CHUNK_MAX;
}

/* All of a block, as long as there is not too much; of what comes then, the beginning. False: it cannot be read. */
static bool sum_bytes(struct reach *reach, uintptr_t address, size_t bytes) {
    bool goes_on = bytes > SUMMED_MAX && has_an_end(address);
    for (size_t at = 0; at < bytes && (!at || (goes_on && reach->summed_bytes < SUMMED_IN_ALL)); at += SUMMED_MAX) {
        size_t piece = bytes - at < SUMMED_MAX ? bytes - at : SUMMED_MAX;
        if (!peek(address + at, reach->summed, piece))
            return false;
        reach->sum = checksum_bytes(reach->sum, reach->summed, piece);
        reach->summed_bytes += piece;
    }
    return true;
}

static bool is_to_follow(const struct reach *reach, uintptr_t word) {
    return is_in_regions(reach, word) && !is_looked_at(reach, word) && !is_static(word);
}

static void follow(struct reach *reach, const uintptr_t *words, size_t count, int depth);

static bool look_at(struct reach *reach, uintptr_t address, size_t bytes, int depth) {
    uintptr_t words[FOLLOWED_MAX / sizeof(uintptr_t)];
    size_t followed = bytes < sizeof words ? bytes : sizeof words;
    if (!peek(address, words, followed) || !sum_bytes(reach, address, bytes))
        return false;
    reach->blocks[reach->block_count++] = (struct region){address, address + bytes};
    if (depth > 0)
        follow(reach, words, followed / sizeof *words, depth - 1);
    return true;
}

static void follow(struct reach *reach, const uintptr_t *words, size_t count, int depth) {
    for (size_t i = 0; i < count && reach->block_count < BLOCKS_MAX; i++) {
        if (!is_to_follow(reach, words[i]))
            continue;
        size_t bytes = allocation_bytes(reach, words[i]);
        if ((!bytes || !look_at(reach, words[i], bytes, depth)) && reach->doubt_count < DOUBTS_MAX)
            reach->doubts[reach->doubt_count++] = words[i];
    }
}

/* Pointers to the middle of what has been reached in another way, too, are none. */
static bool has_doubts(const struct reach *reach) {
    for (int i = 0; i < reach->doubt_count; i++)
        if (!is_looked_at(reach, reach->doubts[i]))
            return true;
    return reach->doubt_count == DOUBTS_MAX;
}

static void reach_free(struct reach **reach) {
    if (*reach)
        free((*reach)->regions);
    free(*reach);
}

static bool reach_begin(struct reach *reach) { /* of zeros */
    reach->sum = 1;
    reach->regions = malloc(REGIONS_MAX * sizeof *reach->regions);
    return reach->regions && find_regions(reach);
}

uint64_t reach_sum(const void *object, size_t bytes) {
    __attribute__((cleanup(reach_free))) struct reach *reach = calloc(1, sizeof *reach);
    if (!reach || !reach_begin(reach) || !look_at(reach, (uintptr_t)object, bytes, DEEP) || has_doubts(reach))
        return 0;
    return reach->sum | 1;
}

/* Statics of the headers lead to lists of libtorch, which change with every operator: so one step, and only to what is an allocation beyond doubt. */
uint64_t reach_sum_beyond(const void *memory, size_t bytes) {
    __attribute__((cleanup(reach_free))) struct reach *reach = calloc(1, sizeof *reach);
    uintptr_t first = ((uintptr_t)memory + sizeof first - 1) / sizeof first * sizeof first, end = (uintptr_t)memory + bytes;
    if (!reach || !reach_begin(reach))
        return 0;
    for (const uintptr_t *word = (const uintptr_t *)first; (uintptr_t)(word + 1) <= end && reach->block_count < BLOCKS_MAX; word++) {
        size_t block = is_to_follow(reach, *word) ? allocation_bytes(reach, *word) : 0;
        if (block && has_an_end(*word))
            look_at(reach, *word, block, 0);
    }
    return reach->sum;
}

/* Cheap enough for every batch: what is not an allocation is seldom looked for. */
static bool looks_like_allocation(uintptr_t word) {
    enum { ADDRESS_BITS = 47, LEAST = 1 << 16 };
    return word % 16 == 0 && word >= LEAST && !(word >> ADDRESS_BITS);
}

/* How often a tensor, or what it is a view of, has been written: its elements may be many, and lie further away. Not of one that was made in inference mode,
   which counts nothing. */
static void sum_version(struct reach *reach, uintptr_t address) {
    struct tensor *tensor = (struct tensor *)address;
    void *first;
    if (!peek(address, &first, sizeof first) || first != torch_facts.tensor_vtable || !tensor_is_plain(tensor) ||
        (*tensor_key_set(tensor) & torch_facts.plain_keys) != torch_facts.plain_keys)
        return;
    OPAQUE_SCOPE;
    struct value version = TORCH_CALL("aten::_version", "", value_tensor(tensor));
    reach->sum = checksum_bytes(reach->sum, &version.integer, sizeof version.integer);
}

/* Without the counts of references behind a table of virtual functions (libtorch's, std::shared_ptr's): the examples that were read may still be there. */
static void sum_near(struct reach *reach, uintptr_t address) {
    enum { COUNTS_END = 3 * sizeof(void *) };
    size_t bytes = looks_like_allocation(address) && !is_looked_at(reach, address) ? allocation_bytes(reach, address) : 0;
    if (bytes <= COUNTS_END || !has_an_end(address))
        return;
    sum_bytes(reach, address + COUNTS_END, bytes - COUNTS_END < SUMMED_MAX ? bytes - COUNTS_END : SUMMED_MAX);
    sum_version(reach, address);
    reach->blocks[reach->block_count++] = (struct region){address, address + bytes};
}

uint64_t reach_sum_near(const void *object, size_t bytes) {
    __attribute__((cleanup(reach_free))) struct reach *reach = calloc(1, sizeof *reach);
    if (!reach)
        return 0;
    reach->sum = checksum_bytes(1, object, bytes);
    for (size_t i = 0; i < bytes / sizeof(uintptr_t) && reach->block_count < BLOCKS_MAX; i++)
        sum_near(reach, ((const uintptr_t *)object)[i]);
    return reach->sum;
}
