/* glibc's heap of the main thread, allocation by allocation: each begins with its size, where the one before ends (malloc.c, "chunks"). Of another allocator
   nothing is known: a loader in such a program is read whole (sampler.c). */
#include <malloc.h>
#include <stdlib.h>

#include "reach.h"

enum { FLAGS = 7, PREVIOUS_IN_USE = 1, HEAD = 2 * HEAP_CHUNK_HEAD, LEAST = 32, ALIGNMENT = 16, PIECE = 1 << 16 };

/* The word before it is first taken for a size: of a foreign address glibc's malloc_usable_size would make one up. */
static bool has_head(void *block, size_t bytes) {
    size_t size = 0;
    bool is_there = block && reach_peek((uintptr_t)block - HEAP_CHUNK_HEAD, &size, sizeof size);
    size &= ~(size_t)FLAGS;
    return is_there && size >= bytes + HEAP_CHUNK_HEAD && size < bytes + HEAP_CHUNK_HEAD + LEAST &&
           malloc_usable_size(block) == size - HEAP_CHUNK_HEAD;
}

bool heap_is_glibcs(void) {
    enum { UNKNOWN, GLIBCS, ANOTHER };
    static _Atomic int whose;
    if (atomic_load(&whose) == UNKNOWN) {
        void *one = malloc(24), *other = malloc(200);
        atomic_store(&whose, has_head(one, 24) && has_head(other, 200) ? GLIBCS : ANOTHER);
        free(one);
        free(other);
    }
    return atomic_load(&whose) == GLIBCS;
}

/* What is freed is first kept for the next one of its size (tcache), as if it were in use; its second word is a number that the process has
   drawn, in glibc before 2.34 an address of its own. 0: there is none. */
static uintptr_t find_mark(size_t bytes) {
    uintptr_t words[2] = {0, 0};
    volatile uintptr_t address = (uintptr_t)malloc(bytes); /* is looked at when it is gone, on purpose */
    free((void *)address);
    return reach_peek(address, words, sizeof words) ? words[1] : 0;
}

static bool is_kept(uintptr_t second_word) {
    static _Atomic uintptr_t mark;
    static _Atomic bool is_known;
    if (!atomic_load(&is_known)) {
        uintptr_t one = find_mark(24), other = find_mark(200);
        atomic_store(&mark, one == other ? one : 0);
        atomic_store(&is_known, true);
    }
    return second_word && second_word == atomic_load(&mark);
}

size_t heap_allocation_bytes(uintptr_t address) {
    enum { LARGEST = 1 << 30 };
    struct {
        size_t size;
        uintptr_t words[2];
    } chunk;
    if (address % ALIGNMENT || !heap_is_glibcs() || !reach_peek(address - HEAP_CHUNK_HEAD, &chunk, sizeof chunk) || is_kept(chunk.words[1]))
        return 0;
    size_t size = chunk.size & ~(size_t)FLAGS;
    return size < LEAST || size > LARGEST || size % ALIGNMENT ? 0 : size - HEAP_CHUNK_HEAD;
}

bool heap_has_an_end(uintptr_t address) {
    enum { MAPPED = 2, PAGE = 4096 };
    size_t head[2],
        next; /* of one that is mapped: bytes before it, which alignment has left over (posix_memalign: all of libtorch's); its own */
    if (!heap_is_glibcs() || !reach_peek(address - HEAD, head, sizeof head))
        return false;
    size_t own = head[1];
    if (own & MAPPED)
        return (address - HEAD - head[0]) % PAGE == 0 && ((own & ~(size_t)FLAGS) + head[0]) % PAGE == 0;
    return reach_peek(address - HEAP_CHUNK_HEAD + (own & ~(size_t)FLAGS), &next, sizeof next) && next & PREVIOUS_IN_USE &&
           (next & ~(size_t)FLAGS) >= LEAST && next < (size_t)1 << 30;
}

bool heap_is_kept(uintptr_t address) {
    uintptr_t words[2];
    return address % ALIGNMENT == 0 && heap_is_glibcs() && reach_peek(address, words, sizeof words) && is_kept(words[1]);
}

/* Sizes stand close together: they are read by pieces. */
struct reader {
    uintptr_t first;
    size_t bytes;
    char piece[PIECE];
};

static size_t size_at(struct reader *reader, uintptr_t chunk, uintptr_t end) {
    uintptr_t place = chunk + HEAP_CHUNK_HEAD;
    size_t size;
    if (place + sizeof size > end)
        return 0;
    if (place < reader->first || place + sizeof size > reader->first + reader->bytes) {
        reader->first = place;
        reader->bytes = end - place < PIECE ? end - place : PIECE;
        if (!reach_peek(place, reader->piece, reader->bytes))
            return reader->bytes = 0;
    }
    memcpy(&size, reader->piece + (place - reader->first), sizeof size);
    return size;
}

void heap_find(uintptr_t first, uintptr_t end, struct heap_place *places, size_t count) {
    struct reader *reader = malloc(sizeof *reader);
    size_t at = 0, next_size = 0, size = 0;
    if (reader)
        reader->first = reader->bytes = 0;
    if (reader && first && heap_is_glibcs())
        size = size_at(reader, first, end);
    for (uintptr_t chunk = first; at < count && size; chunk += size & ~(size_t)FLAGS, size = next_size) {
        size_t bytes = size & ~(size_t)FLAGS;
        if (bytes < LEAST || bytes % ALIGNMENT || bytes > end - chunk)
            break; /* somebody else has moved the heap's end */
        next_size = size_at(reader, chunk + bytes, end);
        bool is_used = next_size & PREVIOUS_IN_USE;
        for (; at < count && places[at].address <= chunk + bytes + HEAP_CHUNK_HEAD;
             at++) /* the end of an allocation is behind its last byte */
            places[at] = (struct heap_place){places[at].address, places[at].depth, true, chunk + HEAD,
                                             is_used && !heap_is_kept(chunk + HEAD) ? bytes - HEAP_CHUNK_HEAD : 0};
    }
    free(reader);
}
