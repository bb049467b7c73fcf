/*
 * Virtual functions of objects that we did not make, replaced without an offset: the slot of Node::apply is where AccumulateGrad's table has
 * AccumulateGrad::apply, and an object is given a copy of its own table in which that slot is ours.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../resolve.h"
#include "../shim.h"
#include "../symbols.h"
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

/* A table has its class's type before it, whose second word is its name. */
const char *virtual_class(void *object) {
    enum { TYPE_WORD = -1, NAME_WORD = 1 };
    void **type = (*(void ***)object)[TYPE_WORD];
    const char *name = type ? type[NAME_WORD] : NULL;
    return name && *name == '*' ? name + 1 : name;
}

/* Of classes that its headers alone have, so that each program has tables of its own: a custom function's node, and what adds up the gradients of
   torch::nn::parallel's replicas. */
static bool is_of_headers(const char *name) {
    static const char *const begins[] = {"N5torch8autograd7CppNodeI", "N5torch2nn12_GLOBAL__N_19ReduceAddE"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (!strncmp(name, begins[i], strlen(begins[i])))
            return true;
    return false;
}

/* Of a class whose table the linker has copied into the program (a COPY relocation) libtorch has another. */
static bool is_exported(const char *name) {
    enum { SYMBOL_MAX = 1024 };
    static const char *const libraries[] = {"libtorch_cpu", "libtorch_python", "libtorch_cuda", "libc10"};
    char symbol[SYMBOL_MAX];
    if ((size_t)snprintf(symbol, sizeof symbol, "_ZTV%s", name) >= sizeof symbol)
        return false;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        const void *table = resolve_function(libraries[i], symbol);
        if (table && shim_is_file_of_libtorch(shim_file_at(table)))
            return true;
    }
    return false;
}

bool virtual_is_of_libtorch(void *object) {
    if (shim_is_file_of_libtorch(shim_file_at(*(void **)object)))
        return true;
    const char *name = virtual_class(object);
    return name && (is_of_headers(name) || is_exported(name));
}

char *virtual_class_shown(void *object) {
    const char *name = virtual_class(object);
    return name ? symbol_demangle(name) : NULL;
}

bool node_is_accumulator(void *node) {
    void *function = (*(void ***)node)[apply_slot()];
    return function == (void *)ORIGINAL(accumulate_grad_apply) || function == hook_table[HOOK_accumulate_grad_apply].own;
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

struct page_search {
    uintptr_t address;
    bool is_writable; /* as mapped now: not part of what was made read-only after relocation */
};

static int visit_object(struct dl_phdr_info *info, size_t size, void *data) {
    struct page_search *search = data;
    bool found = false, relro = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + header->p_vaddr;
        bool inside = search->address >= begin && search->address < begin + header->p_memsz;
        if (inside && header->p_type == PT_LOAD) {
            found = true;
            search->is_writable = header->p_flags & PF_W;
        }
        relro |= inside && header->p_type == PT_GNU_RELRO;
    }
    if (found && relro)
        search->is_writable = false;
    return found;
}

/* A program's copy of a table (a COPY relocation) is writable and stays so. */
void virtual_write(void **slot, void *function) {
    struct page_search search = {.address = (uintptr_t)slot};
    dl_iterate_phdr(visit_object, &search);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *begin = (void *)((uintptr_t)slot & ~(page - 1));
    if (!search.is_writable && mprotect(begin, page, PROT_READ | PROT_WRITE))
        torch_unsupported("virtual functions", "a table of them cannot be made writable");
    __atomic_store_n(slot, function, __ATOMIC_RELEASE);
    if (!search.is_writable)
        mprotect(begin, page, PROT_READ);
}

void *virtual_replace(void *object, int slot, void *function) {
    void **place = *(void ***)object + slot, *had = *place;
    if (had == function)
        return NULL;
    virtual_write(place, function);
    return had;
}
