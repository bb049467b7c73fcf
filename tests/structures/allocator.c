/* An allocator in glibc's place, as jemalloc is: powers of two from one piece of memory. The word before a block is its size, which looks like glibc's. */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HEAD = 16, LEAST_BITS = 5, ADDRESS_BITS = 40 };

struct head {
    void *start;
    size_t bytes; /* from the block to the end of its power of two */
};

static char *unused, *end;
static void *kept[ADDRESS_BITS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct head *head_of(void *block) {
    return (struct head *)((char *)block - HEAD);
}

static int bits_of(size_t bytes) {
    int bits = LEAST_BITS;
    while (bits < ADDRESS_BITS && (size_t)1 << bits < bytes)
        bits++;
    return bits;
}

static void *take(int bits) {
    void *start = kept[bits];
    if (start) {
        memcpy(&kept[bits], start, sizeof start);
        return start;
    }
    if (!unused) {
        size_t room = (size_t)1 << (ADDRESS_BITS - 2);
        unused = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        end = unused + room;
    }
    if (unused == MAP_FAILED || end - unused < (ptrdiff_t)((size_t)1 << bits))
        return NULL;
    start = unused;
    unused += (size_t)1 << bits;
    return start;
}

void *memalign(size_t alignment, size_t bytes) {
    if (alignment < HEAD)
        alignment = HEAD;
    int bits = bits_of(bytes + alignment + HEAD);
    pthread_mutex_lock(&mutex);
    char *start = bits < ADDRESS_BITS ? take(bits) : NULL;
    pthread_mutex_unlock(&mutex);
    if (!start) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = (char *)(((uintptr_t)start + HEAD + alignment - 1) / alignment * alignment);
    *head_of(block) = (struct head){start, ((size_t)1 << bits) - (size_t)(block - start)};
    return block;
}

void *malloc(size_t bytes) {
    return memalign(HEAD, bytes);
}

void free(void *block) {
    if (!block)
        return;
    struct head head = *head_of(block);
    int bits = bits_of((size_t)((char *)block - (char *)head.start) + head.bytes);
    pthread_mutex_lock(&mutex);
    memcpy(head.start, &kept[bits], sizeof(void *));
    kept[bits] = head.start;
    pthread_mutex_unlock(&mutex);
}

size_t malloc_usable_size(void *block) {
    return block ? head_of(block)->bytes : 0;
}

void *calloc(size_t count, size_t each) {
    size_t bytes;
    void *block = __builtin_mul_overflow(count, each, &bytes) ? NULL : malloc(bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

void *realloc(void *block, size_t bytes) {
    size_t had = malloc_usable_size(block);
    if (block && bytes <= had)
        return block;
    void *grown = malloc(bytes);
    if (grown && block) {
        memcpy(grown, block, had);
        free(block);
    }
    return grown;
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    *block = memalign(alignment, bytes);
    return *block ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}
