/*
 * What we need of libgcc_s: two functions for the cleanup attribute, when a C++ exception passes, and two to walk over a stack (unwind.h). Linked as usual they
 * would make libgcc_s NEEDED in every shell and compiler below us; a static copy would put a second unwinder beside the process's own. So the first two are
 * defined here, for this library alone, and hand over to the unwinder that is loaded: where an exception passes, there is one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unwind.h>

#include "unwind.h"

_Unwind_Reason_Code __gcc_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                         struct _Unwind_Exception *exception, struct _Unwind_Context *context);

/* libgcc_s by name: `import torch` loads it in a local scope. The global scope is for programs that bring another unwinder. */
static void *unwinder_find(_Atomic(void *) *known, const char *symbol) {
    void *function = atomic_load_explicit(known, memory_order_acquire);
    if (function)
        return function;
    void *library = dlopen("libgcc_s.so.1", RTLD_NOLOAD | RTLD_LAZY);
    function = library ? dlsym(library, symbol) : dlsym(RTLD_DEFAULT, symbol);
    atomic_store_explicit(known, function, memory_order_release);
    return function;
}

/* Called by the unwinder for each frame of ours that has a cleanup. */
_Unwind_Reason_Code __gcc_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                         struct _Unwind_Exception *exception, struct _Unwind_Context *context) {
    static _Atomic(void *) known;
    __typeof__(&__gcc_personality_v0) personality = unwinder_find(&known, "__gcc_personality_v0");
    return personality ? personality(version, actions, class, exception, context) : _URC_CONTINUE_UNWIND;
}

/* Called at the end of a cleanup: the exception goes on. */
void _Unwind_Resume(struct _Unwind_Exception *exception) {
    static _Atomic(void *) known;
    void (*resume)(struct _Unwind_Exception *) = unwinder_find(&known, "_Unwind_Resume");
    if (resume)
        resume(exception);
    abort(); /* no unwinder: nobody can have called a cleanup */
}

struct walk {
    bool (*visit)(uintptr_t code, void *context);
    void *context;
    __typeof__(&_Unwind_GetIP) code_of;
};

static _Unwind_Reason_Code visit_frame(struct _Unwind_Context *frame, void *data) {
    struct walk *walk = data;
    return walk->visit(walk->code_of(frame), walk->context) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void unwind_walk(bool (*visit)(uintptr_t code, void *context), void *context) {
    static _Atomic(void *) known_backtrace, known_code;
    __typeof__(&_Unwind_Backtrace) backtrace = unwinder_find(&known_backtrace, "_Unwind_Backtrace");
    struct walk walk = {visit, context, unwinder_find(&known_code, "_Unwind_GetIP")};
    if (backtrace && walk.code_of)
        backtrace(visit_frame, &walk);
}
