/*
 * Python's oldest ways with types, isinstance(p, torch.FloatTensor), p.new(...) and p.new_tensor(...), look at a tensor's dispatch keys themselves and do
 * not know ours. Their functions in the interpreter's tables of methods are replaced by ours, which hand them an alias without marks. So is numpy().
 */
#include "../shim.h"
#include "functions.h"

typedef struct object *one_argument(struct object *self, struct object *argument);
typedef struct object *any_arguments(struct object *self, struct object *arguments, struct object *keywords);

static one_argument *original_check;
static any_arguments *original_new, *original_new_tensor, *original_numpy;
static struct object *overridden_test; /* torch._C._has_torch_function_unary(tensor) */

/* The object of a tensor without marks that is otherwise like it; NULL: the object has none. Owned. A child's tensors have marks, too. */
static struct object *without_marks(struct object *object) {
    bool are_marked = shim_active() || shim_is_worker();
    struct tensor *tensor = are_marked && !dispatch_is_opaque() ? python_tensor(object) : NULL;
    if (!tensor || (!tensor_is_marked(tensor) && !tensor_is_parameter(tensor)))
        return NULL;
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(tensor));
    record_clear(plain.tensor);
    *tensor_key_set(plain.tensor) &= ~torch_facts.bit_parameter;
    struct object *result = python_object(plain.tensor);
    value_drop(plain);
    return result;
}

/* isinstance(object, torch.FloatTensor) */
static struct object *check(struct object *self, struct object *object) {
    struct object *plain = without_marks(object);
    struct object *result = original_check(self, plain ? plain : object);
    if (plain)
        python_api()->release(plain);
    return result;
}

/* Does its class, or a mode, have a __torch_function__ that is called instead? It gets the program's own objects, and comes by here once more. */
static bool is_overridden(struct object *object) {
    const struct python_api *python = python_api();
    struct object *arguments = overridden_test ? python->tuple_new(1) : NULL;
    if (!arguments)
        return false;
    python->retain(object);
    python->tuple_set(arguments, 0, object);
    struct object *answer = python->call(overridden_test, arguments);
    bool is_so = answer && python->number_address(answer);
    python->release(arguments);
    if (answer)
        python->release(answer);
    else
        python->error_clear();
    return is_so;
}

/* Only the type and the device of self matter. Where it is its own data, too (w.new_tensor(w)), that is among the arguments as it was. */
static struct object *make(any_arguments *original, struct object *self, struct object *arguments, struct object *keywords) {
    struct object *plain = is_overridden(self) ? NULL : without_marks(self);
    struct object *result = original(plain ? plain : self, arguments, keywords);
    if (plain)
        python_api()->release(plain);
    return result;
}

static struct object *make_new(struct object *self, struct object *arguments, struct object *keywords) {
    return make(original_new, self, arguments, keywords);
}

static struct object *make_new_tensor(struct object *self, struct object *arguments, struct object *keywords) {
    return make(original_new_tensor, self, arguments, keywords);
}

/* numpy() asks for the memory, and then for the storage only to say that it is not to be resized. Beside other threads what is made for that, of all parts,
   would be met by what they write to theirs. */
static struct object *numpy(struct object *self, struct object *arguments, struct object *keywords) {
    if (is_overridden(self))
        return original_numpy(self, arguments, keywords);
    loans_memory_will_do(true);
    struct object *result = original_numpy(self, arguments, keywords);
    loans_memory_will_do(false);
    return result;
}

/* Those that replace methods of their own. `base`: torch._C */
static void tell_features(struct object *base) {
#define HOOK(...)
#define READY(function) function(base);
#include "../../hooks/hooks.def"
#undef READY
#undef HOOK
}

/* Not while the module is on its way: a thread may be made there. */
static bool is_imported(struct object *module) {
    const struct python_api *python = python_api();
    struct object *spec = python->attribute(module, "__spec__"), *state = spec ? python->attribute(spec, "_initializing") : NULL;
    bool is_on_its_way = state && python->number_address(state);
    if (state)
        python->release(state);
    else
        python->error_clear();
    if (spec)
        python->release(spec);
    return !is_on_its_way;
}

static void replace_methods(struct object *type, struct object *base, struct object *tensor) {
    overridden_test = python_api()->attribute(base, "_has_torch_function_unary"); /* kept */
    if (!overridden_test)
        python_api()->error_clear();
    original_new = (any_arguments *)python_method_replace(tensor, "new", (void *)make_new);
    original_new_tensor = (any_arguments *)python_method_replace(tensor, "new_tensor", (void *)make_new_tensor);
    original_numpy = (any_arguments *)python_method_replace(tensor, "numpy", (void *)numpy);
    original_check = (one_argument *)python_method_replace((struct object *)type->type, "__instancecheck__", (void *)check);
}

/* Until `import torch` has ended it is tried again. The interpreter's lock is held where Python makes a parameter or a thread. */
void legacy_begin(void) {
    static _Atomic bool done;
    if (atomic_load_explicit(&done, memory_order_relaxed))
        return;
    python_refuse_other_objects();
    const struct python_api *python = python_api();
    if (!python || !python_holds_lock()) {
        done = !python;
        return;
    }
    struct object *modules = python->modules(), *torch = modules ? python->item(modules, "torch") : NULL;
    if (!torch || !is_imported(torch))
        return;
    struct object *type = python->attribute(torch, "FloatTensor"), *base = python->attribute(torch, "_C");
    struct object *tensor = base ? python->attribute(base, "TensorBase") : NULL;
    if (!tensor && base) {
        python->error_clear();
        tensor = python->attribute(base, "_TensorBase"); /* its name before 2.1 */
    }
    if (type && tensor) {
        done = true;
        replace_methods(type, base, tensor);
        tell_features(base);
    } else
        python->error_clear();
    struct object *owned[] = {type, base, tensor};
    for (int i = 0; i < 3; i++)
        if (owned[i])
            python->release(owned[i]);
}

/* ---- C++ */

/* Tensor::type(), which is inline, looks at a tensor's keys itself, too, and fails at ours in this function (c10/core/Backend.h). */
static void meet_failure(const char *function) {
    if (shim_active() && function && !strcmp(function, "dispatchKeyToBackend"))
        shim_problem("AR-LEGACY-TYPE",
                     "Write scalar_type(), options() or dtype() instead, which libtorch asks for since 1.5; or run with -n 1.",
                     "the program asks for the type() of a parameter, or of a tensor that is divided: that function is compiled into "
                     "the program and does not know accel-run's marks");
}

void hook_check_failed(const char *function, const char *file, unsigned line, const void *message) {
    meet_failure(function);
    ORIGINAL(check_failed)(function, file, line, message);
}

void hook_check_failed_old(const char *function, const char *file, unsigned line, const void *message) {
    meet_failure(function);
    ORIGINAL(check_failed_old)(function, file, line, message);
}
