/*
 * The first libtorch event of a training process: claim, calibrate, register, check. Also the hook rows that are such events.
 */
#include "../shim.h"
#include "../resolve.h"
#include "functions.h"

/* Every REQUIRED row must exist in the loaded libtorch: said by name before training, not when it is first called. */
static void check_rows(void) {
    for (int id = 0; id < HOOK_COUNT; id++) {
        const struct hook_row *row = &hook_table[id];
        bool of_libtorch = !strcmp(row->library, "libtorch_cpu") || !strcmp(row->library, "libc10");
        if (row->need == REQUIRED && of_libtorch && !resolve_function(row->library, row->symbol))
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
    calibrate_keys();
    dispatch_register();
    calibrate_values();
}

/* A self-check in Python: the engine refuses to run while the interpreter's lock is held, so it is given up for that time. */
void torch_selfcheck(void) {
    int (*is_initialised)(void) = resolve_python("Py_IsInitialized");
    int (*lock_is_held)(void) = resolve_python("PyGILState_Check");
    void *(*lock_leave)(void) = resolve_python("PyEval_SaveThread");
    void (*lock_take)(void *) = resolve_python("PyEval_RestoreThread");
    bool held = is_initialised && lock_is_held && lock_leave && lock_take && is_initialised() && lock_is_held();
    void *state = held ? lock_leave() : NULL;
    selfcheck_run();
    if (held)
        lock_take(state);
}

void hook_set_requires_grad(struct tensor *tensor, char requires_grad) {
    ORIGINAL(set_requires_grad)(tensor, requires_grad);
    if (requires_grad && shim_training_begins())
        leaf_ordinal(tensor);
}

void hook_set_engine_stub(void *stub) {
    ORIGINAL(set_engine_stub)(stub);
    shim_training_begins();
}
