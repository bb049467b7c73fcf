/*
 * Tensors that take over another one's metadata, sizes and keys and storage: new ones (shallow_copy_and_detach), and those that are given its data
 * (x.data = y). The record comes along.
 */
#include "../shim.h"
#include "functions.h"

static void record_copy(struct tensor *from, struct tensor *to) {
    if (!torch_facts.key_set || !tensor_is_marked(from))
        return;
    struct record record = record_get(from);
    if (record.kind != RECORD_NONE)
        record_set(to, record);
}

void *hook_shallow_copy(struct tensor **result, struct tensor *tensor, void *version, char allow_change) {
    loans_return_of(tensor);
    ORIGINAL(shallow_copy)(result, tensor, version, allow_change);
    record_copy(tensor, *result);
    return result;
}

void *hook_shallow_copy_moved(struct tensor **result, struct tensor *tensor, void *version, char allow_change) {
    loans_return_of(tensor);
    ORIGINAL(shallow_copy_moved)(result, tensor, version, allow_change);
    record_copy(tensor, *result);
    return result;
}

static struct tensor *source_of(struct tensor *from, struct tensor *to) {
    if (!from)
        return NULL;
    if (!dispatch_is_opaque() && tensor_requires_grad(to) && (tensor_is_marked(from) || tensor_is_marked(to))) {
        struct record form = record_get(to);
        return dispatch_client.in_form(from, &form);
    }
    tensor_retain(from);
    return from;
}

struct record_move record_move_begin(struct tensor *from, struct tensor *to) {
    struct record_move move = {.is_active = shim_active() && from != to, .source = from};
    loans_return_of(to);
    if (from)
        loans_return_of(from);
    if (from && shim_is_worker() && from != to) { /* a child of a rank: dispatch.c */
        dispatch_client.memory(from, &(int64_t){0});
        record_clear(to);
    }
    if (move.is_active) {
        dispatch_client.replaced(to, false);
        move.source = source_of(from, to);
        move.was_parameter = tensor_is_parameter(to);
        record_clear(to);
    }
    return move;
}

void record_move_end(const struct record_move *move, struct tensor *to) {
    if (!move->is_active)
        return;
    if (move->was_parameter)
        tensor_mark_parameter(to);
    if (move->source)
        record_copy(move->source, to);
    tensor_release(move->source);
    dispatch_client.replaced(to, true);
}

/* x.data = y, Module::to, Module::clone: the tensor takes over y's key set, and with it loses the mark of a leaf or gains one of divided rows. */
void hook_copy_metadata(struct tensor *from, struct tensor *to, void *version, char allow_change) {
    struct record_move move = record_move_begin(from, to);
    ORIGINAL(copy_metadata)(move.source, to, version, allow_change);
    record_move_end(&move, to);
}
