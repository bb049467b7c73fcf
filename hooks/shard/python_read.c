/*
 * Reads of memory by Python where libtorch is bound to itself (shim/torch/bound.c): the functions behind tensor.numpy() and untyped_storage() are called
 * within libtorch_python, so the methods themselves are replaced, in the table that the interpreter calls them from. They are given the copy that stands
 * in for a divided tensor (read.c, storage.c).
 */
#include "shard.h"

typedef struct object *method_body(struct object *self, struct object *arguments, struct object *keywords);

struct method { /* PyMethodDef */
    const char *name;
    method_body *body;
};

enum { DESCRIPTOR_METHOD = 40 }; /* PyMethodDescrObject: head, type, name, qualified name, then the method; its name is looked at */

static method_body *original_numpy, *original_storage;

/* Calls the method on another tensor (borrowed). The result keeps alive what it needs. */
static struct object *call_on(method_body *method, struct tensor *tensor, struct object *arguments, struct object *keywords) {
    struct object *self = python_object(tensor), *result = method(self, arguments, keywords);
    python_api()->release(self);
    return result;
}

static struct object *own_numpy(struct object *self, struct object *arguments, struct object *keywords) {
    struct tensor *tensor = python_tensor(self);
    struct object *force = arguments && keywords ? python_api()->dictionary_get(keywords, "force") : NULL;
    bool is_forced = force && python_api()->is_true(force) == 1;
    bool is_refused = shim_active() && !is_forced && tensor_requires_grad(tensor) && grad_mode_is_enabled(); /* by libtorch */
    struct tensor *whole = is_refused ? NULL : read_stand_in(tensor);
    return whole ? call_on(original_numpy, whole, arguments, keywords) : original_numpy(self, arguments, keywords);
}

static struct object *own_storage(struct object *self, struct object *arguments, struct object *keywords) {
    struct tensor *tensor = python_tensor(self);
    bool is_read = shim_active() && !dispatch_is_opaque() && record_count() && tensor_is_plain(tensor);
    struct tensor *whole = is_read ? storage_stand_in(tensor_storage(tensor)) : NULL;
    return whole ? call_on(original_storage, whole, arguments, keywords) : original_storage(self, arguments, keywords);
}

static bool replace(struct object *class, const char *name, method_body *own, method_body **original) {
    struct object *descriptor = python_api()->attribute(class, name);
    if (!descriptor) {
        python_api()->error_clear();
        return false;
    }
    struct method *method = *(struct method **)((char *)descriptor + DESCRIPTOR_METHOD);
    bool is_it = !strcmp(method->name, name);
    if (is_it) {
        *original = method->body;
        method->body = own;
    }
    python_api()->release(descriptor); /* the class holds it */
    return is_it;
}

static bool replace_both(struct object *class) {
    if (!python_api())
        return false;
    int state = python_api()->lock(); /* operators run without it */
    bool is_replaced =
        replace(class, "numpy", own_numpy, &original_numpy) && (replace(class, "untyped_storage", own_storage, &original_storage) ||
                                                                replace(class, "_storage", own_storage, &original_storage)); /* 1.13 */
    python_api()->unlock(state);
    return is_replaced;
}

void python_read_begin(void) {
    static bool is_done;
    if (is_done)
        return;
    struct object **class = resolve_function("libtorch_python", "THPVariableClass");
    if (class && !*class)
        return; /* within `import torch` */
    is_done = true;
    if (class && !replace_both(*class))
        torch_unsupported("methods of tensors in Python",
                          "numpy or untyped_storage cannot be replaced in a libtorch that is bound to itself");
}
