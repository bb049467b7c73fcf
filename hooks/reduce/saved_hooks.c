/*
 * saved_tensors_hooks and torch.utils.checkpoint: functions of the program that libtorch calls when it keeps a tensor for the backward, and when it needs it
 * again. They run at user level: what is computed again (a checkpoint) is divided again, and what they are shown are whole sizes. What comes back is brought
 * into the form in which it was kept, which travels with what the program made of it.
 */
#include <stdlib.h>

#include "reduce.h"

/* What travels with what the program has made of a tensor. */
struct form {
    struct record record;
    bool is_bare; /* libtorch has kept it before it was marked, and takes it back so */
};

/* A view within an operator has its key, but is no tensor of the program's: it is shown as it is. A batch that was cut lies in the midst of the whole one,
   where one process has it alone: a copy is shown. Owned; NULL: as it is. */
static struct tensor *presentable(struct tensor *tensor, const struct record *record) {
    if (record->kind == RECORD_NONE && tensor_is_marked(tensor))
        record_clear(tensor);
    if (record->kind != RECORD_SHARD || tensor_requires_grad(tensor) || storage_owners(tensor_storage(tensor)) == 1)
        return NULL;
    OPAQUE_SCOPE;
    struct tensor *copy = TORCH_CALL("aten::clone", "", value_tensor(tensor), value_none()).tensor;
    record_set(copy, *record);
    return copy;
}

static struct object *call_with(struct object *function, struct object *argument) { /* takes argument */
    const struct python_api *python = python_api();
    struct object *arguments = python->tuple_new(1);
    python->tuple_set(arguments, 0, argument);
    struct object *result = python->call(function, arguments);
    python->release(arguments);
    return result;
}

/* Marked as what it is going to be. Owned. */
static struct tensor *dressed(struct tensor *tensor, const struct record *record) {
    OPAQUE_SCOPE;
    struct tensor *same = TORCH_CALL("aten::detach", "", value_tensor(tensor)).tensor;
    record_set(same, *record);
    return same;
}

/* Takes the tensor. */
static struct tensor *undressed(struct tensor *tensor) {
    if (!tensor_is_marked(tensor))
        return tensor;
    OPAQUE_SCOPE;
    struct tensor *same = TORCH_CALL("aten::detach", "", value_tensor(tensor)).tensor;
    record_clear(same);
    tensor_release(tensor);
    return same;
}

/* What pack shows of it. Owned; NULL: as it is. */
static struct tensor *to_show(struct tensor *tensor, struct form *form) {
    form->record = record_get(tensor);
    struct tensor *shown = presentable(tensor, &form->record);
    if (form->record.kind != RECORD_NONE)
        return shown;
    form->record = dispatch_client.saved_record(tensor);
    form->is_bare = form->record.kind != RECORD_NONE;
    return form->is_bare ? dressed(tensor, &form->record) : NULL;
}

/* pack(tensor) → (form, what the program's pack returned). self: the program's function. */
static struct object *pack(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    struct object *argument = python->tuple_get(arguments, 0);
    struct tensor *tensor = python_tensor(argument);
    struct form form = {.record = {.kind = RECORD_NONE}};
    struct tensor *shown = tensor ? to_show(tensor, &form) : NULL;
    if (shown) {
        argument = python_object(shown);
        tensor_release(shown);
    } else
        python->retain(argument);
    struct opaque_scope level = user_enter();
    struct object *packed = call_with(self, argument);
    user_leave(&level);
    if (!packed)
        return NULL;
    struct object *both = python->tuple_new(2);
    python->tuple_set(both, 0, python->bytes_new(&form, sizeof form));
    python->tuple_set(both, 1, packed);
    return both;
}

static void end_again(struct learned_again **again) {
    dispatch_client.end_again(again);
}

static struct object *call_as_it_was(struct object *function, struct object *packed, const struct learned_known *known) {
    BOUNDARY_SCOPE;
    __attribute__((cleanup(end_again), unused)) struct learned_again *again = dispatch_client.begin_again(known);
    return call_with(function, packed);
}

/* A backward of the program's own reads it at user level (a custom function): so it has its mark, unless it had none when it was kept. Owned. */
static struct tensor *in_kept_form(struct tensor *tensor, const struct form *form) {
    OPAQUE_SCOPE;
    struct tensor *kept = dispatch_client.in_form(tensor, &form->record);
    return form->is_bare ? undressed(kept) : kept;
}

/* unpack((form, packed)) → tensor. self: the program's function, and what was known when it was said that it is to be used: a checkpoint begins there. */
static struct object *unpack(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    struct object *both = python->tuple_get(arguments, 0), *packed = python->tuple_get(both, 1);
    struct form form;
    memcpy(&form, python->bytes_text(python->tuple_get(both, 0)), sizeof form);
    python->retain(packed);
    const void *known = python->bytes_text(python->tuple_get(self, 1));
    struct object *unpacked = call_as_it_was(python->tuple_get(self, 0), packed, known);
    const struct record *wanted = &form.record;
    struct tensor *tensor = unpacked ? python_tensor(unpacked) : NULL;
    if (!tensor || (wanted->kind == RECORD_NONE && record_get(tensor).kind != RECORD_PARTIAL))
        return unpacked;
    struct tensor *returned = in_kept_form(tensor, &form);
    struct object *result = returned == tensor ? unpacked : python_object(returned);
    if (result != unpacked)
        python->release(unpacked);
    tensor_release(returned);
    return result;
}

static const struct python_method pack_method = {"pack", pack, PYTHON_VARARGS, NULL},
                                  unpack_method = {"unpack", unpack, PYTHON_VARARGS, NULL};

static void replace_pack(struct object **function) {
    struct object *own = python_function(&pack_method, *function);
    python_api()->release(*function);
    *function = own;
}

static void replace_unpack(struct object **function) {
    const struct python_api *python = python_api();
    size_t bytes;
    struct learned_known *known = dispatch_client.keep_learned(&bytes);
    struct object *both = python->tuple_new(2);
    python->tuple_set(both, 0, *function);
    python->tuple_set(both, 1, python->bytes_new(known, bytes));
    free(known);
    *function = python_function(&unpack_method, both);
    python->release(both);
}

/* Both functions are owned by whom they are passed to. */
static void replace_both(struct object **pack_function, struct object **unpack_function) {
    if (!shim_active() || dispatch_is_opaque() || !python_api())
        return;
    dispatch_client.saves_are_seen();
    replace_pack(pack_function);
    replace_unpack(unpack_function);
}

void hook_push_saved_hooks_safe(void *pack_holder, void *unpack_holder) { /* SafePyObject begins with the object's address */
    replace_both(pack_holder, unpack_holder);
    ORIGINAL(push_saved_hooks_safe)(pack_holder, unpack_holder);
}

void hook_push_saved_hooks_raw(void *pack_function, void *unpack_function) {
    struct object *functions[2] = {pack_function, unpack_function};
    replace_both(&functions[0], &functions[1]);
    ORIGINAL(push_saved_hooks_raw)(functions[0], functions[1]);
}
