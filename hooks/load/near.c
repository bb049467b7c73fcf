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

/* Bytes of the counts of references behind a table of virtual functions, which are other ones while the examples that were read are still there: libtorch's
   objects have two words of them, std::shared_ptr's have one. */
static size_t counts_bytes(uintptr_t address) {
    char name[24];
    void *vtable;
    if (!peek_class((const void *)address, &vtable, name, sizeof name))
        return 0;
    const char *text = name[0] == '*' ? name + 1 : name;
    bool is_librarys = !strncmp(text, "N3c10", 5) || !strncmp(text, "N2at", 4) || !strncmp(text, "N5torch", 7);
    name[sizeof name - 1] = 0;
    return is_librarys ? 2 * sizeof(void *) : strstr(text, "_Sp_counted") ? sizeof(void *) : 0;
}

static void sum_near(struct near *near, uintptr_t address) {
    size_t bytes = looks_like_allocation(address) && !is_looked_at(near, address) ? heap_allocation_bytes(address) : 0;
    if (!bytes || !heap_has_an_end(address))
        return;
    size_t piece = bytes < SUMMED_MAX ? bytes : SUMMED_MAX; /* an allocation has room for three words */
    if (reach_peek(address, near->piece, piece)) {
        memset(near->piece + sizeof(void *), 0, counts_bytes(address));
        near->sum = checksum_bytes(near->sum, near->piece, piece);
    }
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
