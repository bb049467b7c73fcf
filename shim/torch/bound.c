/*
 * A libtorch that is bound to itself: linked with -Bsymbolic-functions, as Ubuntu's packages are, its calls to its own functions do not pass through
 * symbols, so a preloaded function is reached by other libraries' calls only. Nothing in the file says so; a table of virtual functions does: the slot
 * of a function holds libtorch's own address where ours is expected.
 *
 * Then the slots are found by value and ours put there. What is neither virtual nor called by others has a stand-in:
 *   the constructor of AccumulateGrad     set_autograd_meta, which sees leaves made by options, and the node's own pointer to its leaf, calibrated
 *   TensorImpl::copy_tensor_metadata      shallow_copy_from, the virtual function that calls it
 *   getProfilingMode, getExecutorMode     what they return is written, as hooks/shard/script.c has it
 * The self-check runs through all of them.
 */
#define _GNU_SOURCE
#include <malloc.h>

#include "../resolve.h"
#include "../shim.h"
#include "functions.h"

enum { FIRST_SLOT = 2 /* after offset to top and type information */, SLOTS_MAX = 48 };

/* ---- slots */

/* The slot that holds the row's function or ours; NULL: neither. */
static void **slot_find(void **functions, enum hook_id id) {
    void *original = resolve_function(hook_table[id].library, hook_table[id].symbol);
    for (int i = 0; original && i < SLOTS_MAX; i++)
        if (functions[i] == original || functions[i] == hook_table[id].own)
            return &functions[i];
    return NULL;
}

/* Puts our function into the table's slot, unless the loader has. */
static void slot_bind(void **functions, enum hook_id id) {
    void **slot = slot_find(functions, id);
    if (!slot) {
        if (resolve_function(hook_table[id].library, hook_table[id].symbol))
            torch_unsupported("virtual functions", "%s is not in the table of its class", hook_table[id].name);
        return; /* an OPTIONAL function that this release does not have */
    }
    if (*slot == hook_table[id].own)
        return;
    torch_facts.is_bound = true;
    virtual_write(slot, hook_table[id].own);
}

/* The table of a class, as its objects have it: the program's copy where there is one. */
static void **class_table(const char *symbol) {
    void **table = resolve_data("libtorch_cpu", symbol);
    if (!table)
        torch_unsupported("virtual functions", "no %s", symbol);
    return table + FIRST_SLOT;
}

void bound_begin_seeds(void) {
    static _Atomic bool is_done;
    if (atomic_load_explicit(&is_done, memory_order_relaxed) || atomic_exchange(&is_done, true) || !shim_job_secret())
        return;
    void **table = resolve_data("libtorch_cpu", "_ZTVN2at16CPUGeneratorImplE");
    void **slot = table ? slot_find(table + FIRST_SLOT, HOOK_torch_seed) : NULL;
    if (slot && *slot != hook_table[HOOK_torch_seed].own)
        virtual_write(slot, hook_table[HOOK_torch_seed].own);
}

/* ---- copies of metadata */

typedef void shallow_copy_from(struct tensor *to, struct tensor **from);

static shallow_copy_from *original_shallow_copy_from;

static void own_shallow_copy_from(struct tensor *to, struct tensor **from) {
    struct record_move move = record_move_begin(*from, to);
    original_shallow_copy_from(to, &move.source);
    record_move_end(&move, to);
}

/* Not exported: declared right after shallow_copy_and_detach in every release. That it is the right one shows in the self-check. */
static void bind_shallow_copy_from(void **functions) {
    void **slot = slot_find(functions, HOOK_shallow_copy_moved) + 1;
    original_shallow_copy_from = (shallow_copy_from *)*slot;
    virtual_write(slot, (void *)own_shallow_copy_from);
}

/* ---- leaves */

/* AccumulateGrad::variable: where two nodes hold their leaves. The engine's graph owns a node by a control block before it (make_shared) or by a count
   within: so the words looked at are those of the allocation. */
static void calibrate_leaf(void) {
    struct value leaves[2];
    void *nodes[2][2] = {{NULL}};
    size_t bytes = 4096;
    for (int i = 0; i < 2; i++) {
        leaves[i] = TORCH_CALL("aten::arange", "", value_int(2), value_int(DTYPE_FLOAT32), value_none(), value_none(), value_none());
        ORIGINAL(set_requires_grad)(leaves[i].tensor, 1);
        torch_functions.grad_accumulator(nodes[i], &leaves[i].tensor); /* kept: its owner is not known here */
        char *node = nodes[i][0], *block = nodes[i][1], *begin = block && block < node && node - block <= 64 ? block : node;
        size_t usable = malloc_usable_size(begin) - (size_t)(node - begin);
        bytes = usable < bytes ? usable : bytes;
    }
    int found = 0;
    for (long at = 8; at + 8 <= (long)bytes; at += 8)
        if (*(void **)((char *)nodes[0][0] + at) == leaves[0].tensor && *(void **)((char *)nodes[1][0] + at) == leaves[1].tensor &&
            !found++)
            torch_facts.node_leaf = at;
    if (found != 1)
        torch_unsupported("leaves", "%d places in a node of the graph may be that of its leaf", found);
}

void bound_begin(struct tensor *tensor) {
    static const enum hook_id of_tensors[] = {
        HOOK_sizes_custom,     HOOK_sym_sizes_custom, HOOK_strides_custom,        HOOK_sym_strides_custom,
        HOOK_numel_custom,     HOOK_sym_numel_custom, HOOK_storage_offset_custom, HOOK_sym_storage_offset_custom,
        HOOK_tensor_delete,    HOOK_shallow_copy,     HOOK_shallow_copy_moved,    HOOK_has_storage,
        HOOK_release_resources};
    void **functions = *(void ***)tensor;
    for (size_t i = 0; i < sizeof of_tensors / sizeof *of_tensors; i++)
        slot_bind(functions, of_tensors[i]);
    loan_begin(tensor, slot_find(functions, HOOK_has_storage));
    bool tensors_are_bound = torch_facts.is_bound;
    slot_bind(class_table("_ZTVN5torch8autograd6EngineE"), HOOK_engine_execute);
    slot_bind(class_table("_ZTVN5torch8autograd14AccumulateGradE"), HOOK_accumulate_grad_apply);
    slot_bind(class_table("_ZTVN2at16CPUGeneratorImplE"), HOOK_torch_seed);
    if (tensors_are_bound)
        bind_shallow_copy_from(functions);
    if (!torch_facts.is_bound)
        return;
    torch_facts.leaf_meta = class_table("_ZTVN5torch8autograd12AutogradMetaE");
    calibrate_leaf();
    atomic_store(torch_functions.script_profiling(), 0);
    atomic_store(torch_functions.script_executor(), 1);
}
