/*
 * What an object can reach: the allocations that it points to, those that they point to, and so on. Nobody says which words are pointers, or how long what
 * they point to is: a word is followed when it looks like the address of an allocation of glibc's. What points elsewhere into writable memory that is nobody's
 * static one (a variable of a function, a member in the middle of an object) leads to memory whose extent is not known: then nothing is known of the object.
 * Neither is it when there is more than can be looked at.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "reach.h"

enum {
    SUMMED_MAX = 1 << 16,      /* bytes of every allocation that are looked at: std::mt19937 has 5000 */
    SUMMED_IN_ALL = 256 << 20, /* and bytes in all, before no allocation is looked at further than that */
    FOLLOWED_MAX = 8192,       /* where no pointer is among the first, none is looked for behind: elements of a tensor, pixels */
    DEEP = 6,                  /* a data set's vector of shared pointers to objects with a unique_ptr: four; a tree's nodes are one step */
    NOT_NEAR = DEEP - 3,       /* what is reached behind two others, and near.c does not look at in every batch */
    BLOCKS_MAX = 1 << 22,      /* a list of a million names has as many */
    DOUBTS_MAX = 1 << 20,
    REGIONS_MAX = 4096,
    GRANULE = 16 /* glibc: allocations begin at multiples of it */
};

static const size_t covered_at_most = (size_t)1 << 36; /* bytes of one region: what reserves more is no heap */

struct region {
    struct span span;
    uint8_t *covered; /* a bit for each granule of what has been looked at; NULL: nothing has */
};

struct block {
    uintptr_t address;
    size_t bytes;
    int depth; /* how often pointers are followed from here */
    bool is_storage;
};

struct reach {
    uint64_t sum;
    struct region *regions;    /* writable memory, ascending */
    struct block *blocks;      /* to be looked at, in turn */
    struct heap_place *doubts; /* pointers to the middle of something */
    struct modules *modules;
    uintptr_t stack; /* of the main thread: an address in it; 0: not known */
    uintptr_t heap;  /* where it begins; likewise */
    size_t region_count, block_count, block_room, doubt_count, doubt_room, summed_bytes;
    bool is_unknown;
    char piece[SUMMED_MAX];
};

/* ---- writable memory */

/* Neighbours are one: an allocation may lie in both. */
static bool find_regions(struct reach *reach) {
    char line[512], rights[8];
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return false;
    while (reach->region_count < REGIONS_MAX && fgets(line, sizeof line, maps)) {
        struct region region = {0};
        if (sscanf(line, "%lx-%lx %7s", &region.span.first, &region.span.end, rights) != 3 || rights[1] != 'w')
            continue;
        if (strstr(line, "[stack]"))
            reach->stack = region.span.first;
        if (!reach->heap && strstr(line, "[heap]"))
            reach->heap = region.span.first;
        if (reach->region_count && reach->regions[reach->region_count - 1].span.end == region.span.first)
            reach->regions[reach->region_count - 1].span.end = region.span.end;
        else
            reach->regions[reach->region_count++] = region;
    }
    fclose(maps);
    return reach->region_count < REGIONS_MAX;
}

static struct region *region_of(const struct reach *reach, uintptr_t address) {
    return span_find(reach->regions, reach->region_count, sizeof *reach->regions, address);
}

/* A vector's end is behind its last element, and within the last granule of its allocation. */
static bool is_covered(const struct region *region, uintptr_t address) {
    size_t granule = (address - region->span.first) / GRANULE;
    return region->covered && region->covered[granule / 8] >> granule % 8 & 1;
}

static bool cover(struct region *region, uintptr_t address, size_t bytes) {
    size_t granules = (region->span.end - region->span.first) / GRANULE;
    if (bytes > region->span.end - address || region->span.end - region->span.first > covered_at_most)
        return false;
    if (!region->covered && !(region->covered = calloc(granules / 8 + 1, 1)))
        return false;
    size_t first = (address - region->span.first) / GRANULE, end = (address + bytes - 1 - region->span.first) / GRANULE + 1;
    for (; first < end && first % 8; first++)
        region->covered[first / 8] |= (uint8_t)(1 << first % 8);
    for (; end > first && end % 8; end--)
        region->covered[(end - 1) / 8] |= (uint8_t)(1 << (end - 1) % 8);
    memset(region->covered + first / 8, 0xff, (end - first) / 8);
    return true;
}

/* ---- what is to be looked at */

/* Room for one more element of a list; false: there is no more memory, or there would be too many. */
static bool has_room(void *list, size_t count, size_t *room, size_t most, size_t element) {
    void **elements = list;
    if (count < *room)
        return true;
    size_t more = *room ? 2 * *room : 256;
    void *grown = count < most ? realloc(*elements, more * element) : NULL;
    if (!grown)
        return false;
    *elements = grown;
    *room = more;
    return true;
}

static void doubt(struct reach *reach, uintptr_t address, int depth) {
    if (heap_is_kept(address))
        return;
    if (has_room(&reach->doubts, reach->doubt_count, &reach->doubt_room, DOUBTS_MAX, sizeof *reach->doubts))
        reach->doubts[reach->doubt_count++] = (struct heap_place){.address = address, .depth = depth};
    else
        reach->is_unknown = true;
}

/* False: it cannot be an allocation. */
static bool add_block(struct reach *reach, struct region *region, struct block block) {
    if (!block.bytes || !cover(region, block.address, block.bytes))
        return false;
    if (has_room(&reach->blocks, reach->block_count, &reach->block_room, BLOCKS_MAX, sizeof *reach->blocks))
        reach->blocks[reach->block_count++] = block;
    else
        reach->is_unknown = true;
    return true;
}

/* Where such a word leads; NULL: nowhere. */
static struct region *leads_to(const struct reach *reach, uintptr_t word) {
    struct region *region = region_of(reach, word);
    return region && !modules_hold(reach->modules, word) ? region : NULL;
}

/* The bytes of the allocation that begins there; 0: none does. */
static size_t bytes_at(const struct reach *reach, const struct region *region, uintptr_t address) {
    bool is_variable = reach->stack && region == region_of(reach, reach->stack);
    return is_variable ? 0 : heap_allocation_bytes(address);
}

static struct block block_at(const struct reach *reach, const struct region *region, uintptr_t address, int depth) {
    return (struct block){address, bytes_at(reach, region, address), depth, false};
}

/* What is as long as the block that leads to it is taken for another node of its tree or list, which is as far away as that one. Is a pointer among them? */
static bool follow(struct reach *reach, const struct block *from, const char *memory, size_t bytes) {
    int depth = from->depth - 1;
    bool leads = false;
    for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, memory + at, sizeof word);
        struct region *region = leads_to(reach, word);
        if (!region)
            continue;
        struct block block = block_at(reach, region, word, depth);
        if (block.bytes == from->bytes)
            block.depth = from->depth;
        if (is_covered(region, word) || add_block(reach, region, block))
            leads = true;
        else
            doubt(reach, word, depth);
    }
    return leads;
}

/* Where this word of a block leads to is a storage; or numbers, in which no pointer is looked for (depth 0). */
static void add_known(struct reach *reach, long place, int depth, bool is_storage) {
    uintptr_t word;
    memcpy(&word, reach->piece + place, sizeof word);
    struct region *region = leads_to(reach, word);
    if (!region || is_covered(region, word))
        return;
    struct block block = block_at(reach, region, word, depth);
    block.is_storage = is_storage;
    add_block(reach, region, block);
}

/* Where no pointer is looked for any more: what a constructor writes nothing to is what another object has left there. A tensor has pointers
   before its sizes and strides, of which there is room for five; a storage has the address of its elements and the deleter's context, then
   small numbers with gaps (TensorImpl.h, StorageImpl.h, 1.13 to 2.15). */
static size_t pointers_end(struct reach *reach, const struct block *block) {
    enum { SIZES_AND_STRIDES = 11 * sizeof(int64_t) };
    uintptr_t first;
    memcpy(&first, reach->piece, sizeof first);
    if (block->is_storage) {
        add_known(reach, torch_facts.storage_data, 0, false);
        return (size_t)torch_facts.storage_data + 2 * sizeof(void *);
    }
    if (first != (uintptr_t)torch_facts.tensor_vtable || block->bytes < (size_t)torch_facts.storage_offset)
        return SIZE_MAX;
    add_known(reach, torch_facts.storage, block->depth - 1, true);
    if (torch_facts.version)
        add_known(reach, torch_facts.version, 0, false);
    return (size_t)torch_facts.storage_offset - SIZES_AND_STRIDES;
}

/* All of a block, as long as there is not too much, or it leads on; of what comes then, the beginning. */
static void look_into(struct reach *reach, struct block block) {
    bool goes_on = block.bytes > SUMMED_MAX && heap_has_an_end(block.address), leads = false;
    for (size_t at = 0; at < block.bytes && (!at || (goes_on && (leads || reach->summed_bytes < SUMMED_IN_ALL))); at += SUMMED_MAX) {
        size_t piece = block.bytes - at < SUMMED_MAX ? block.bytes - at : SUMMED_MAX, first = piece < FOLLOWED_MAX ? piece : FOLLOWED_MAX;
        if (!reach_peek(block.address + at, reach->piece, piece)) {
            reach->is_unknown = true;
            return;
        }
        reach->sum = checksum_bytes(reach->sum, reach->piece, piece);
        reach->summed_bytes += piece;
        if (block.depth && !at) {
            size_t end = pointers_end(reach, &block);
            leads = follow(reach, &block, reach->piece, first < end ? first : end) && first < end;
        }
        if (leads)
            follow(reach, &block, reach->piece + (at ? 0 : first), piece - (at ? 0 : first));
    }
}

/* ---- pointers to the middle of something */

static bool is_resolved(const struct reach *reach, const struct heap_place *doubt) {
    return is_covered(region_of(reach, doubt->address), doubt->address) || (doubt->is_found && !doubt->bytes);
}

static int by_address(const void *one, const void *other) {
    uintptr_t first = ((const struct heap_place *)one)->address, second = ((const struct heap_place *)other)->address;
    return first < second ? -1 : first > second;
}

/* A small number, or none, beside half of a pointer that stood there before: in one of a hundred processes the heap goes over such an address. */
static bool is_half_stale(uintptr_t address) {
    return (address & UINT32_MAX) < 1 << 16;
}

/* Of what has been reached in another way, too, they are none; nor of memory that is free: there stood another object once, of which something is left where
   a constructor writes nothing. What else they lead to is looked at, where it can be found and need not be looked at again. False: nothing new. */
static bool resolve_doubts(struct reach *reach) {
    struct region *heap = reach->heap ? region_of(reach, reach->heap) : NULL;
    size_t kept = 0, before = reach->block_count;
    for (size_t i = 0; i < reach->doubt_count; i++)
        if (!is_resolved(reach, &reach->doubts[i]))
            reach->doubts[kept++] = reach->doubts[i];
    reach->doubt_count = kept;
    if (!kept || !heap)
        return false;
    qsort(reach->doubts, kept, sizeof *reach->doubts, by_address);
    size_t first = 0, end = kept;
    while (first < end && reach->doubts[first].address < reach->heap)
        first++;
    while (end > first && reach->doubts[end - 1].address >= heap->span.end)
        end--;
    heap_find(reach->heap, heap->span.end, reach->doubts + first, end - first);
    for (size_t i = first; i < end; i++) {
        struct heap_place *place = &reach->doubts[i];
        int depth = is_half_stale(place->address) ? 0 : place->depth;
        if (place->bytes && depth <= NOT_NEAR && !is_covered(heap, place->block))
            add_block(reach, heap, (struct block){place->block, place->bytes, depth, false});
    }
    return reach->block_count > before;
}

static bool has_doubts(const struct reach *reach) {
    for (size_t i = 0; i < reach->doubt_count; i++)
        if (!is_resolved(reach, &reach->doubts[i]))
            return true;
    return reach->is_unknown;
}

static void reach_free(struct reach **reach) {
    for (size_t i = 0; *reach && i < (*reach)->region_count; i++)
        free((*reach)->regions[i].covered);
    if (*reach) {
        modules_free((*reach)->modules);
        free((*reach)->regions);
        free((*reach)->blocks);
        free((*reach)->doubts);
    }
    free(*reach);
}

static bool reach_begin(struct reach *reach) { /* of zeros */
    reach->sum = 1;
    reach->regions = malloc(REGIONS_MAX * sizeof *reach->regions);
    reach->modules = modules_look();
    return reach->regions && reach->modules && find_regions(reach);
}

uint64_t reach_sum(const void *object, size_t bytes) {
    __attribute__((cleanup(reach_free))) struct reach *reach = calloc(1, sizeof *reach);
    uintptr_t address = (uintptr_t)object;
    if (!reach || !reach_begin(reach))
        return 0;
    struct region *region = region_of(reach, address);
    if (!region || !add_block(reach, region, (struct block){address, bytes, DEEP, false}))
        return 0;
    size_t next = 0;
    do
        while (next < reach->block_count && !reach->is_unknown)
            look_into(reach, reach->blocks[next++]);
    while (!reach->is_unknown && resolve_doubts(reach));
    return has_doubts(reach) ? 0 : reach->sum | 1;
}

/* Statics of the headers lead to lists of libtorch, which change with every operator: so one step, and only to what is an allocation beyond doubt. */
uint64_t reach_sum_beyond(const void *memory, size_t bytes) {
    __attribute__((cleanup(reach_free))) struct reach *reach = calloc(1, sizeof *reach);
    uintptr_t first = ((uintptr_t)memory + sizeof first - 1) / sizeof first * sizeof first, end = (uintptr_t)memory + bytes;
    if (!reach || !reach_begin(reach))
        return 0;
    for (const uintptr_t *word = (const uintptr_t *)first; (uintptr_t)(word + 1) <= end; word++) {
        struct region *region = leads_to(reach, *word);
        size_t block = region && !is_covered(region, *word) ? bytes_at(reach, region, *word) : 0;
        if (block && heap_has_an_end(*word) && add_block(reach, region, (struct block){*word, block, 0, false}))
            look_into(reach, reach->blocks[reach->block_count - 1]);
    }
    return reach->is_unknown ? 0 : reach->sum | 1;
}
