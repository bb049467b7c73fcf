/*
 * The node of a view is stale when its base has been written in place: TensorBase::grad_fn(), asked by autograd and by the program, then makes it anew, from
 * the sizes that the view has. They must be those of the rows that are really there, so user level ends here. The work is done by a virtual function of the
 * one object that libtorch asks about history, so a libtorch that is bound to itself is reached, too.
 */
#include "../shim.h"
#include "functions.h"

enum { SLOT_OF_GRAD_FN = 4 }; /* behind two destructors, tensor_data and variable_data in every release; proven by a call */

typedef void *fresh_node(void *object, struct tensor *const *tensor); /* const std::shared_ptr<Node> &grad_fn(const TensorBase &) const */

static fresh_node *original_fresh_node;
static struct tensor *_Atomic asked_last; /* before the hooks act */

static void *own_fresh_node(void *object, struct tensor *const *tensor) {
    if (!shim_active()) {
        asked_last = *tensor;
        return original_fresh_node(object, tensor);
    }
    if (!tensor_is_marked(*tensor))
        return original_fresh_node(object, tensor);
    OPAQUE_SCOPE;
    return original_fresh_node(object, tensor);
}

void stale_begin(struct tensor *tensor) {
    void **slot = *(void ***)torch_functions.variable_hooks() + SLOT_OF_GRAD_FN;
    original_fresh_node = (fresh_node *)*slot;
    virtual_write(slot, (void *)own_fresh_node);
    torch_functions.fresh_grad_fn(&tensor);
    if (asked_last != tensor)
        torch_unsupported("virtual functions", "grad_fn() is not where it was in the table of what answers questions about history");
}
