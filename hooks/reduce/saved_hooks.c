/*
 * saved_tensors_hooks and torch.utils.checkpoint: functions of the program that libtorch calls when it keeps a tensor for the backward, and when it needs it
 * again. They run at user level: what is computed again (a checkpoint) is divided again, and what they are shown are whole sizes. What comes back is brought
 * into the form in which it was kept, which travels with what the program made of it.
 */
#include "reduce.h"

/* pack(tensor) → (form, what the program's pack returned). self: the program's function. */
static struct object *pack(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    struct tensor *tensor = python_tensor(python->tuple_get(arguments, 0));
    struct record record = tensor ? record_get(tensor) : (struct record){.kind = RECORD_NONE};
    struct opaque_scope level = user_enter();
    struct object *packed = python->call(self, arguments);
    user_leave(&level);
    if (!packed)
        return NULL;
    struct object *both = python->tuple_new(2);
    python->tuple_set(both, 0, python->bytes_new(&record, sizeof record));
    python->tuple_set(both, 1, packed);
    return both;
}

/* unpack((form, packed)) → tensor */
static struct object *unpack(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    struct object *both = python->tuple_get(arguments, 0), *packed = python->tuple_get(both, 1);
    struct record wanted;
    memcpy(&wanted, python->bytes_text(python->tuple_get(both, 0)), sizeof wanted);
    struct object *passed = python->tuple_new(1);
    python->retain(packed);
    python->tuple_set(passed, 0, packed);
    struct opaque_scope level = boundary_enter();
    struct object *unpacked = python->call(self, passed);
    boundary_leave(&level);
    python->release(passed);
    struct tensor *tensor = unpacked ? python_tensor(unpacked) : NULL;
    if (!tensor || (wanted.kind == RECORD_NONE && record_get(tensor).kind != RECORD_PARTIAL))
        return unpacked; /* an operator's own result is kept before it is marked: these rows are what is wanted */
    tensor_retain(tensor);
    struct tensor *returned = boundary_return(tensor, &wanted);
    struct object *result = returned == tensor ? unpacked : python_object(returned);
    if (result != unpacked)
        python->release(unpacked);
    tensor_release(returned);
    return result;
}

static const struct python_method pack_method = {"pack", pack, PYTHON_VARARGS, NULL},
                                  unpack_method = {"unpack", unpack, PYTHON_VARARGS, NULL};

/* Both functions are owned by whom they are passed to. */
static void replace(struct object **function, const struct python_method *method) {
    struct object *own = python_function(method, *function);
    python_api()->release(*function);
    *function = own;
}

void hook_push_saved_hooks_safe(void *pack_holder, void *unpack_holder) { /* SafePyObject begins with the object's address */
    if (shim_active() && !dispatch_is_opaque() && python_api()) {
        replace(pack_holder, &pack_method);
        replace(unpack_holder, &unpack_method);
    }
    ORIGINAL(push_saved_hooks_safe)(pack_holder, unpack_holder);
}

void hook_push_saved_hooks_raw(void *pack_function, void *unpack_function) {
    struct object *functions[2] = {pack_function, unpack_function};
    if (shim_active() && !dispatch_is_opaque() && python_api()) {
        replace(&functions[0], &pack_method);
        replace(&functions[1], &unpack_method);
    }
    ORIGINAL(push_saved_hooks_raw)(functions[0], functions[1]);
}
