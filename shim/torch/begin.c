/*
 * The first libtorch event of a training process: claim, calibrate, register, check. Also the hook rows that are such events.
 */
#include <pthread.h>

#include "../python.h"
#include "../resolve.h"
#include "../shim.h"
#include "../threads.h"
#include "functions.h"

static bool row_exists(const struct hook_row *row) {
    return resolve_function(row->library, row->symbol) != NULL;
}

/* Rows that spell one function: their names are alike up to the last '_'. */
static bool some_variant_exists(const struct hook_row *row) {
    size_t length = (size_t)(strrchr(row->name, '_') - row->name) + 1;
    for (int id = 0; id < HOOK_COUNT; id++)
        if (hook_table[id].need == VARIANT && !strncmp(hook_table[id].name, row->name, length) && row_exists(&hook_table[id]))
            return true;
    return false;
}

/* Every REQUIRED row must exist in the loaded libtorch: said by name before training, not when it is first called. */
static void check_rows(void) {
    for (int id = 0; id < HOOK_COUNT; id++) {
        const struct hook_row *row = &hook_table[id];
        bool of_libtorch = !strcmp(row->library, "libtorch_cpu") || !strcmp(row->library, "libc10");
        if (of_libtorch && ((row->need == REQUIRED && !row_exists(row)) || (row->need == VARIANT && !some_variant_exists(row))))
            torch_unsupported("hook rows", "%s lacks %s (%s)", row->library, row->name, row->symbol);
    }
}

void torch_begin(void) {
    if (!resolve_has_libtorch())
        torch_unsupported("libraries", "libtorch_cpu is not loaded as a shared library");
    const char *missing = functions_resolve();
    if (missing)
        torch_unsupported("functions", "%s is missing", missing);
    check_rows();
    record_begin();
    regions_begin();
    calibrate_keys();
    NEUTRAL_SCOPE;
    dispatch_register();
    calibrate_values();
    graph_begin();
    direct_begin();
}

/*
 * A self-check in Python: the engine refuses to run while the interpreter's lock is held, so it is given up for that time.
 *
 * It is the first backward of the process, in the middle of `import torch`. Where there is an accelerator the engine starts the thread that works for it, and
 * with it pybind11, which takes the state of the interpreter that its first thread happens to have for one that lasts; but that thread has one of a moment,
 * freed at once and used from there on. With CPython 3.12 the program's first backward crashed (PyTorch 2.11.0+cu130 on an H200; on tests/fake's accelerator,
 * too). In a plain run the interpreter's own thread is the first.
 */
void torch_selfcheck(void) {
    NEUTRAL_SCOPE;
    void *python = python_let_go();
    const struct python_api *interpreter = python_api(); /* looked up here: the new thread must not wait for the loader */
    atomic_store(&threads_keep_python, interpreter && interpreter->is_alive() ? (uint64_t)pthread_self() : 0);
    selfcheck_run();
    atomic_store(&threads_keep_python, 0);
    python_take_again(python);
}

void hook_set_requires_grad(struct tensor *tensor, char requires_grad) {
    ORIGINAL(set_requires_grad)(tensor, requires_grad);
    if (!requires_grad || !shim_training_begins() || tensor_has_no_values(tensor))
        return;
    leaf_ordinal(tensor);
    legacy_begin();
}

/* The metadata of a leaf requires a gradient from the start; that of a result gets its node later, that of a view is of another class. */
void hook_set_autograd_meta(struct tensor *tensor, void ***meta) {
    void *class = *meta ? **meta : NULL;
    ORIGINAL(set_autograd_meta)(tensor, meta);
    if (!torch_facts.is_bound || !shim_active() || class != torch_facts.leaf_meta)
        return; /* elsewhere the constructor of its node is seen */
    if (tensor_requires_grad(tensor) && !tensor_node(tensor) && !tensor_has_no_values(tensor))
        leaf_ordinal(tensor);
}

static void tell_features(void) {
    const struct python_api *python = python_api();
    if (!python || !python_holds_lock())
        return;
#define HOOK(...)
#define IMPORTED(function) function(python->none);
#include "../../hooks/hooks.def"
#undef IMPORTED
#undef HOOK
}

void hook_set_engine_stub(void *stub) {
    ORIGINAL(set_engine_stub)(stub);
    if (shim_training_begins()) {
        python_refuse_other_objects();
        tell_features();
    }
}
