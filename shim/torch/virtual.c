/*
 * Virtual functions of objects that we did not make, replaced without an offset: the slot of Node::apply is where AccumulateGrad's table has
 * AccumulateGrad::apply, and an object is given a copy of its own table in which that slot is ours.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../resolve.h"
#include "../shim.h"
#include "functions.h"

enum {
    HEADER_WORDS = 2, /* offset to top, type information: before the address that objects have */
    SLOTS_MAX = 24,   /* Node has 6 (1.13) to 17 (2.15) virtual functions */
    TABLES_MAX = 256, /* classes of custom functions in one program */
};

struct table {
    void **original;
    node_apply *apply; /* what stood in the slot */
    void *words[HEADER_WORDS + SLOTS_MAX];
};

static struct table *tables[TABLES_MAX];
static int table_count;

/* The slot by value: it holds libtorch's own function, or ours in a build whose tables go through the symbol. */
static int apply_slot(void) {
    static int slot;
    if (slot)
        return slot;
    void **words = resolve_function("libtorch_cpu", "_ZTVN5torch8autograd14AccumulateGradE");
    void *original = (void *)ORIGINAL(accumulate_grad_apply), *own = hook_table[HOOK_accumulate_grad_apply].own;
    for (int i = 0; words && i < SLOTS_MAX; i++)
        if (words[HEADER_WORDS + i] == original || words[HEADER_WORDS + i] == own)
            return slot = i;
    torch_unsupported("virtual functions", "apply is not in the table of AccumulateGrad");
}

static struct table *table_of(void *node) {
    void **words = *(void ***)node;
    for (int i = 0; i < table_count; i++)
        if (tables[i]->original == words || tables[i]->words + HEADER_WORDS == words)
            return tables[i];
    return NULL;
}

static struct table *table_copy(void *node, node_apply *apply) {
    if (table_count == TABLES_MAX)
        shim_problem("AR-CUSTOM-FUNCTION", "Please report the program.", "it has more than %d classes of custom autograd functions",
                     TABLES_MAX);
    void **words = *(void ***)node;
    int slot = apply_slot();
    struct table *table = malloc(sizeof *table);
    table->original = words;
    table->apply = (node_apply *)words[slot];
    memcpy(table->words, words - HEADER_WORDS, sizeof table->words);
    table->words[HEADER_WORDS + slot] = (void *)apply;
    tables[table_count++] = table;
    return table;
}

void node_replace_apply(void *node, node_apply *apply) {
    struct table *table = table_of(node);
    if (!table)
        table = table_copy(node, apply);
    *(void ***)node = table->words + HEADER_WORDS;
}

node_apply *node_original_apply(void *node) {
    return table_of(node)->apply;
}

bool node_is_replaced(void *node) {
    struct table *table = table_of(node);
    return table && *(void ***)node == table->words + HEADER_WORDS;
}

void *virtual_replace(void *object, int slot, void *function) {
    void **place = *(void ***)object + slot, *had = *place;
    if (had == function)
        return NULL;
    long page = sysconf(_SC_PAGESIZE);
    void *begin = (void *)((uintptr_t)place & ~(uintptr_t)(page - 1));
    if (mprotect(begin, (size_t)page, PROT_READ | PROT_WRITE))
        torch_unsupported("virtual functions", "a table of them cannot be made writable");
    *place = function;
    mprotect(begin, (size_t)page, PROT_READ);
    return had;
}
