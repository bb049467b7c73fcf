/* For reach.c, near.c and sampler.c: memory that may not be there, and the heap. */
#ifndef ACCEL_HOOKS_LOAD_REACH_H
#define ACCEL_HOOKS_LOAD_REACH_H

#include "load.h"
#include "modules.h"

enum { HEAP_CHUNK_HEAD = sizeof(size_t) /* glibc: the size of an allocation, with three flags, stands before it */ };

static inline bool reach_peek(uintptr_t address, void *to, size_t count) {
    return peek_memory((const void *)address, to, count);
}
/* ---- heap.c */
/* Is malloc glibc's own, no library's that stands in its place? Else the functions below find nothing. */
bool heap_is_glibcs(void);
/* The bytes of the allocation that begins there; 0: none does. What lies before the address may only look like a size. */
size_t heap_allocation_bytes(uintptr_t address);
/* Does another allocation follow, or is it one that was mapped for itself? Else the number before it only looks like a size. */
bool heap_has_an_end(uintptr_t address);
/* Does one begin there that was freed, and is kept for the next of its size? */
bool heap_is_kept(uintptr_t address);
struct heap_place {
    uintptr_t address;
    int depth;       /* the caller's */
    bool is_found;   /* the address lies in this allocation, or right behind its end */
    uintptr_t block; /* where it begins */
    size_t bytes;    /* 0: it is free */
};
/* Looks up addresses (ascending) in the heap that lies between the two. Costs a look at each allocation. */
void heap_find(uintptr_t first, uintptr_t end, struct heap_place *places, size_t count);

#endif
