/*
 * Python's hooks on nodes of the graph (tensor.grad_fn.register_hook, register_prehook), which Module.register_full_backward_hook uses on the nodes of a
 * custom function of its own. Of a custom function's node it is known what its gradients are (custom_function.c), and of a leaf's (AccumulateGrad, on which
 * FullyShardedDataParallel and optimizers that step in the backward put theirs) what the leaf is, so the hook is shown whole ones; a hook on another node stops
 * the job when a backward through divided rows reaches it.
 */
#include "reduce.h"

enum { POST_HOOK, PRE_HOOK };

struct node_hook { /* in a bytes object; the node holds the hook, so it is alive when the hook is called */
    void *node;    /* a custom function's, or a leaf's; NULL: another */
    int kind;
};

/* What its node is of: a custom function or a leaf; NULL both in a backward through nothing that is divided. */
struct owner {
    const struct custom *custom;
    struct tensor *leaf;
};

/* The leaf has taken over the gradient's memory, which stays this rank's part (targets.c), but for beside a Reducer: there the sum is made in it. */
static bool may_be_sum(const struct node_hook *hook) {
    return hook->kind == POST_HOOK && unseen_has_reducer();
}

static struct owner owner_or_stop(const struct node_hook *hook) {
    struct owner owner = {.leaf = NULL};
    if (hook->node && node_is_replaced(hook->node))
        owner.custom = custom_of_node(hook->node);
    else if (hook->node && node_is_accumulator(hook->node) && !may_be_sum(hook))
        owner.leaf = leaf_of_node(hook->node);
    if (!owner.custom && !owner.leaf)
        shim_problem("AR-PY-HOOK",
                     "Put it on the tensor (tensor.register_hook), or on the module with register_full_backward_hook; or run with -n 1.",
                     "a hook of Python on a node of the graph (grad_fn.register_hook, register_prehook, Module.register_backward_hook) is "
                     "reached by a "
                     "backward through divided rows: it would see this rank's part");
    return owner;
}

static struct custom_value value_of_leaf(struct tensor *leaf) {
    struct record record = record_get(leaf);
    return (struct custom_value){record, fit_size_of(leaf, &record)};
}

/* What the gradient is one of: an input of a custom function, or an output; a leaf. */
static struct custom_value value_of_gradient(const struct owner *owner, bool of_inputs, size_t index) {
    if (!owner->custom && !owner->leaf)
        return (struct custom_value){{.kind = RECORD_NONE}, {.dims = FIT_ANY}};
    struct custom_value tensor = owner->leaf ? value_of_leaf(owner->leaf)
                                 : of_inputs ? custom_input(owner->custom, index)
                                             : custom_output(owner->custom, index);
    tensor.record = boundary_record_of_gradient(&tensor.record);
    return tensor;
}

typedef struct tensor *tensor_conversion(struct tensor *tensor, const struct custom_value *value); /* borrowed in, owned out */

static struct tensor *show(struct tensor *tensor, const struct custom_value *value) {
    return boundary_show(tensor, &value->record);
}

static struct tensor *take_back(struct tensor *tensor, const struct custom_value *value) {
    tensor_retain(tensor);
    return boundary_return(fit_exact(tensor, &value->size), &value->record);
}

/* A new tuple with each tensor converted. Borrowed in, owned out. */
static struct object *convert(struct object *tuple, const struct owner *owner, bool of_inputs, tensor_conversion *conversion) {
    const struct python_api *python = python_api();
    int64_t count = python->tuple_size(tuple);
    struct object *converted = python->tuple_new(count);
    for (int64_t i = 0; i < count; i++) {
        struct object *item = python->tuple_get(tuple, i);
        struct tensor *tensor = item == python->none ? NULL : python_tensor(item);
        if (tensor) {
            struct custom_value value = value_of_gradient(owner, of_inputs, (size_t)i);
            struct tensor *result = conversion(tensor, &value);
            item = python_object(result);
            tensor_release(result);
        } else
            python->retain(item);
        python->tuple_set(converted, i, item);
    }
    return converted;
}

/* A single gradient may be returned without a tuple. Takes returned. */
static struct object *convert_returned(struct object *returned, const struct owner *owner, bool of_inputs) {
    const struct python_api *python = python_api();
    if (!returned || returned == python->none)
        return returned;
    struct object *tuple = returned;
    if (returned->type != python->tuple_type) {
        tuple = python->tuple_new(1);
        python->tuple_set(tuple, 0, returned);
    }
    struct object *converted = convert(tuple, owner, of_inputs, take_back);
    python->release(tuple);
    return converted;
}

/* The hook has returned nothing: what is in the gradients' place if it may have written to a sum that it was shown in place of one, else None. Takes none. */
static struct object *convert_written(struct object *none, struct object *given, struct object *seen, const struct owner *owner,
                                      bool of_inputs) {
    const struct python_api *python = python_api();
    int64_t count = python->tuple_size(given);
    bool has_sum = false;
    struct object *converted = python->tuple_new(count);
    for (int64_t i = 0; i < count; i++) {
        struct object *item = python->tuple_get(seen, i), *own = python->tuple_get(given, i);
        struct custom_value value = value_of_gradient(owner, of_inputs, (size_t)i);
        struct tensor *written = item == python->none ? NULL : boundary_written(python_tensor(item), &value.record);
        if (written) {
            own = python_object(written);
            tensor_release(written);
        } else
            python->retain(own);
        has_sum |= written != NULL;
        python->tuple_set(converted, i, own);
    }
    python->release(has_sum ? none : converted);
    return has_sum ? converted : none;
}

/* self: (the program's function, a node_hook); arguments: (gradients of inputs, gradients of outputs), or the latter alone. */
static struct object *node_hook_called(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    struct object *function = python->tuple_get(self, 0);
    struct node_hook hook;
    if (!backward_is_divided()) {
        struct boundary boundary = boundary_enter();
        struct object *returned = python->call(function, arguments);
        boundary_leave(&boundary);
        return dispatch_in_transform() ? returned : convert_returned(returned, &(struct owner){.leaf = NULL}, true);
    }
    memcpy(&hook, python->bytes_text(python->tuple_get(self, 1)), sizeof hook);
    struct owner owner = owner_or_stop(&hook);
    int64_t count = python->tuple_size(arguments);
    struct object *shown = python->tuple_new(count);
    for (int64_t i = 0; i < count; i++)
        python->tuple_set(shown, i, convert(python->tuple_get(arguments, i), &owner, i == 0 && count == 2, show));
    struct boundary boundary = boundary_enter();
    struct object *returned = python->call(function, shown);
    boundary_leave(&boundary);
    if (returned == python->none) /* what may be returned instead is what the first argument holds, of either kind of hook */
        returned = convert_written(returned, python->tuple_get(arguments, 0), python->tuple_get(shown, 0), &owner, hook.kind == POST_HOOK);
    else
        returned = convert_returned(returned, &owner, hook.kind == POST_HOOK);
    python->release(shown);
    return returned;
}

static const struct python_method method = {"hook", node_hook_called, PYTHON_VARARGS, NULL};

/* What is registered instead. Owned; NULL: the program's own. */
static struct object *replacement(void *node, struct object *function, int kind) {
    const struct python_api *python = python_api();
    if (!shim_active() || dispatch_is_opaque() || !python)
        return NULL;
    struct node_hook hook = {node, kind};
    struct object *self = python->tuple_new(2);
    python->retain(function);
    python->tuple_set(self, 0, function);
    python->tuple_set(self, 1, python->bytes_new(&hook, sizeof hook));
    struct object *own = python_function(&method, self);
    python->release(self);
    return own;
}

/* ---- the methods register_hook and register_prehook: those of custom functions' nodes, and those that the types of all other nodes share. They are replaced
   in the interpreter's tables, since what they call cannot be seen where libtorch is bound to itself. */

typedef struct object *method_body(struct object *self, struct object *function);

static method_body *original_of_custom[2], *original_of_other[2];

enum { TYPE_BASIC_SIZE = 32 / 8 }; /* PyTypeObject::tp_basicsize, in words */

int64_t python_words(const struct object *object) {
    return ((const int64_t *)object->type)[TYPE_BASIC_SIZE] / 8;
}

/* It keeps a pointer to it, somewhere (THPFunction::cdata). */
void *python_custom_node(struct object *self) {
    void *const *words = (void *const *)self;
    for (int64_t i = PYTHON_OBJECT_WORDS; i < python_words(self); i++)
        if (words[i] && custom_of_node(words[i]) && node_is_replaced(words[i]))
            return words[i];
    return NULL;
}

static struct object *register_own(method_body *original, void *node, struct object *self, struct object *function, int kind) {
    struct object *own = replacement(node, function, kind);
    struct object *handle = original(self, own ? own : function);
    if (own)
        python_api()->release(own);
    return handle;
}

static struct object *custom_register_hook(struct object *self, struct object *function) {
    return register_own(original_of_custom[POST_HOOK], python_custom_node(self), self, function, POST_HOOK);
}

static struct object *custom_register_prehook(struct object *self, struct object *function) {
    return register_own(original_of_custom[PRE_HOOK], python_custom_node(self), self, function, PRE_HOOK);
}

/* THPCppFunction begins with a pointer to it. NULL: it is not a leaf's. */
static void *leaf_node(struct object *self) {
    void *node = ((void *const *)self)[PYTHON_OBJECT_WORDS];
    return shim_active() && node && node_is_accumulator(node) ? node : NULL;
}

static struct object *other_register_hook(struct object *self, struct object *function) {
    return register_own(original_of_other[POST_HOOK], leaf_node(self), self, function, POST_HOOK);
}

static struct object *other_register_prehook(struct object *self, struct object *function) {
    return register_own(original_of_other[PRE_HOOK], leaf_node(self), self, function, PRE_HOOK);
}

static void replace_both(struct object *type, method_body *hook, method_body *prehook, method_body **originals) {
    originals[POST_HOOK] = type ? (method_body *)python_method_replace(type, "register_hook", (void *)hook) : NULL;
    originals[PRE_HOOK] = type ? (method_body *)python_method_replace(type, "register_prehook", (void *)prehook) : NULL;
    if (!originals[POST_HOOK] || !originals[PRE_HOOK])
        torch_unsupported("hooks of Python on nodes of the graph", "their methods cannot be replaced");
}

void python_nodes_ready(struct object *base) {
    const struct python_api *python = python_api();
    struct object *custom = python->attribute(base, "_FunctionBase"), *module = python->attribute(base, "_functions");
    struct object *other =
        module ? python->attribute(module, "AccumulateGrad") : NULL; /* shares its methods with all but custom functions */
    replace_both(custom, custom_register_hook, custom_register_prehook, original_of_custom);
    replace_both(other, other_register_hook, other_register_prehook, original_of_other);
    struct object *owned[] = {custom, module, other};
    for (int i = 0; i < 3; i++)
        python->release(owned[i]);
}
