/*
 * The template of a hook: copy this folder, rename, and follow docs/adding-a-hook.md. It is compiled and tested (tests/templates.bats), but only into a shim
 * of the tests, so that it cannot rot and nobody trains with it.
 *
 * What it does: it counts the steps of libtorch's learning-rate schedulers and says so at --log-level info. Training is not changed.
 *
 * Rules of hooks/null/
 *  - A feature is a folder with one .def (its rows, listed in hooks/hooks.def), one .c per idea and, if there are several, one header of its own.
 *  - A feature includes shim.h and its own header. It never includes another feature and never another header of shim/: what two features need is in shim.h.
 *  - A feature that is taken out of hooks.def and of the build is gone without a trace.
 *
 * RATIONALE for a row instead of code: from the one line in null.def come the prototype of hook_null_scheduler_step() under its mangled name, an entry of the
 * hook table, a line of the export map (an exported symbol is what makes the dynamic linker prefer our function) and the check before training that the loaded
 * libtorch has the function. Nothing else has to be kept in step with it. A wrong argument type below is an error of the compiler: the row has declared it.
 *
 * NOTE on choosing a function. It must be called across a library's border or through a vtable; a call inside one library may be bound without the dynamic
 * linker. `nm -D -C --defined-only libtorch_cpu.so` shows what is exported; look at the oldest and the newest libtorch. REQUIRED says that training
 * would be wrong without the row: a libtorch that lacks the function is then refused before the first step. This row is OPTIONAL: counting less is no harm.
 *
 * NOTE on arguments. `this` comes first. A C++ object that cannot be copied like an int (a Tensor, a std::string) is passed by address even when it is passed
 * by value, and when it is returned a hidden pointer to the result stands before everything else (hooks.def has the rules).
 */
#include "../../shim/shim.h"

/* State of a feature: static, small, and atomic where several threads may come. There is no thread-local state here: the shim has 64 bytes of it in all. */
static _Atomic uint64_t steps;

/* The end of the scope below. Cleanup functions run when the block is left by return and when a C++ exception passes through it; a line after the call would
   not. The original here may throw: a scheduler's get_lrs() is often the program's own code. */
static void scheduler_left(int *unused) {
    shim_phase(BOARD_STEP, "after the scheduler");
    shim_log('d', "null: left the scheduler");
}

/* Called by the program in place of the original, on any thread, any number of times, perhaps before any constructor of ours has run and after main() has
   returned. Programs may look at errno afterwards: what is called here keeps it (shim_log and shim_phase do; so must your own system calls). */
void hook_null_scheduler_step(void *scheduler) {
    /* 1. Pass through. False, after one relaxed load, in every process that is not a rank of a job of several ranks with a libtorch that has been understood:
       shells, compilers, loader workers, -n 1. Such a process must not notice us. A hook that only training programs reach, and that may be the first of
       all, calls shim_training_begins() instead, which claims the rank. */
    if (!shim_active()) {
        ORIGINAL(null_scheduler_step)
        (scheduler); /* the function that would have run without us, with the row's type, found at the first use */
        return;
    }
    /* 2. Scope: what must be undone whatever happens. shim_phase tells the board what this rank is doing; the launcher shows it when the rank is stuck or
       dies. Other scopes: OPAQUE_SCOPE (sizes are the rows that are really there), SHIM_COMM_SCOPE (the lock that every collective needs). */
    shim_phase(BOARD_STEP, "scheduler");
    __attribute__((cleanup(scheduler_left), unused)) int scope = 0;
    /* 3. Act, here after the original, so that a step which throws is not counted. What may be called: libc, ORIGINAL of this feature's own rows, shim.h.
       What may not: exit, abort, anything that writes to the program's stdout, dlsym, setenv. When going on would make training wrong, shim_problem()
       tells the launcher, which stops the job; it does not return. */
    ORIGINAL(null_scheduler_step)(scheduler);
    uint64_t count = atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed) + 1;
    shim_log('i', "null: step %llu of a learning-rate scheduler", (unsigned long long)count);
}
