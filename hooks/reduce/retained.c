/*
 * .grad of tensors that are no leaves (retain_grad): divided like the tensor, a partial sum when that is replicated, replicated when it is a partial sum.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "reduce.h"

static atomic_bool is_asked_for; /* else nobody walks all that is kept (losses of each step) for a gradient that the engine has put there */

/* A libtorch that is bound to itself asks for the inputs of torch::autograd::backward() without our seeing it. */
static bool may_be_there(void) {
    return atomic_load_explicit(&is_asked_for, memory_order_relaxed) || torch_facts.is_bound;
}

/* Where there is one. */
static struct tensor **retained_gradient(struct tensor *tensor) {
    if ((tensor_is_parameter(tensor) && !tensor_node(tensor)) || !tensor_requires_grad(tensor))
        return NULL;
    struct tensor **slot = tensor_grad_slot(tensor);
    return !*slot || *slot == torch_facts.undefined ? NULL : slot;
}

static void mark_retained_gradient(struct tensor *tensor, const struct record *record, void *unused) {
    struct tensor **slot = record->kind == RECORD_PARTIAL && !record->packed ? NULL : retained_gradient(tensor);
    if (slot && !tensor_is_marked(*slot))
        record_set(*slot, boundary_record_of_gradient(record));
}

struct retained {
    struct tensor **list; /* owned, as they are */
    size_t count, room;
    bool of_undivided; /* those that a backward can reach through which nothing divided flows */
};

static void note_retained(struct tensor *tensor, const struct record *record, void *context) {
    struct retained *retained = context;
    bool is_reached = !record->packed && (!retained->of_undivided || record->kind == RECORD_GATHERED);
    /* Another thread may have dropped the last one: it waits until the tensor is looked at no more. */
    if (!is_reached || !retained_gradient(tensor) || !tensor_retain_living(tensor))
        return;
    if (retained->count == retained->room) {
        retained->room = retained->room ? 2 * retained->room : 16;
        retained->list = realloc(retained->list, retained->room * sizeof *retained->list);
    }
    retained->list[retained->count++] = tensor;
}

/* What is there before a backward, which the program may have set itself, in the form of what the engine adds to it. */
void retained_settle(bool is_divided) {
    if (!may_be_there())
        return;
    struct retained retained = {.of_undivided = !is_divided};
    record_each(true, note_retained, &retained); /* the youngest first, on all ranks */
    for (size_t i = 0; i < retained.count; i++) {
        struct record record = record_get(retained.list[i]), form = {.kind = RECORD_NONE};
        struct tensor **slot = retained_gradient(retained.list[i]), *gradient = slot ? *slot : NULL;
        if (is_divided)
            form = boundary_record_of_gradient(&record);
        if (gradient) {
            *slot = dispatch_client.in_form(gradient, &form);
            tensor_release(gradient);
        }
        tensor_release(retained.list[i]);
    }
    free(retained.list);
}

void retained_mark(void) {
    if (may_be_there())
        record_each(true, mark_retained_gradient, NULL);
}

void retained_begins(void) {
    atomic_store_explicit(&is_asked_for, true, memory_order_relaxed);
}

void retained_show(void) {
    if (backward_is_divided())
        retained_mark();
}
