/* An object and the allocations that it points to, themselves: cheap enough for every batch, so what is not an allocation is seldom looked for (reach.c). */
#include "reach.h"

enum { NEAR_MAX = 1024, SUMMED_MAX = 1 << 16 };

struct near {
    uint64_t sum;
    uintptr_t blocks[NEAR_MAX]; /* looked at */
    int count;
    char piece[SUMMED_MAX];
};

static bool is_looked_at(const struct near *near, uintptr_t address) {
    for (int i = 0; i < near->count; i++)
        if (near->blocks[i] == address)
            return true;
    return false;
}

static bool looks_like_allocation(uintptr_t word) {
    enum { ADDRESS_BITS = 47, LEAST = 1 << 16 };
    return word % 16 == 0 && word >= LEAST && !(word >> ADDRESS_BITS);
}

/* How often a tensor, or what it is a view of, has been written: its elements may be many, and lie further away. Not of one that was made in inference mode,
   which counts nothing. */
static void sum_version(struct near *near, uintptr_t address) {
    struct tensor *tensor = (struct tensor *)address;
    void *first;
    if (!reach_peek(address, &first, sizeof first) || first != torch_facts.tensor_vtable || !tensor_is_plain(tensor) ||
        (*tensor_key_set(tensor) & torch_facts.plain_keys) != torch_facts.plain_keys)
        return;
    OPAQUE_SCOPE;
    struct value version = TORCH_CALL("aten::_version", "", value_tensor(tensor));
    near->sum = checksum_bytes(near->sum, &version.integer, sizeof version.integer);
}

/* Without the counts of references behind a table of virtual functions (libtorch's, std::shared_ptr's): the examples that were read may still be there. */
static void sum_near(struct near *near, uintptr_t address) {
    enum { COUNTS_END = 3 * sizeof(void *) };
    size_t bytes = looks_like_allocation(address) && !is_looked_at(near, address) ? heap_allocation_bytes(address) : 0;
    if (bytes <= COUNTS_END || !heap_has_an_end(address))
        return;
    size_t piece = bytes - COUNTS_END < SUMMED_MAX ? bytes - COUNTS_END : SUMMED_MAX;
    if (reach_peek(address + COUNTS_END, near->piece, piece))
        near->sum = checksum_bytes(near->sum, near->piece, piece);
    sum_version(near, address);
    near->blocks[near->count++] = address;
}

uint64_t near_sum(const void *object, size_t bytes) {
    struct near near;
    near.sum = checksum_bytes(1, object, bytes);
    near.count = 0;
    for (size_t i = 0; i < bytes / sizeof(uintptr_t) && near.count < NEAR_MAX; i++)
        sum_near(&near, ((const uintptr_t *)object)[i]);
    return near.sum;
}
