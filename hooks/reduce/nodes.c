/* Nodes of the graph as they are made: those of leaves, and what each remembers of its gradients. */
#include "reduce.h"

static void leaf_constructed(void *node, struct tensor *leaf) {
    if (shim_training_begins() && leaf != torch_facts.undefined)
        leaf_node_made(node, leaf);
}

/* The node remembers the sizes that its gradients will have: of a divided leaf its rows'. In a process that is no rank there are no levels. */
static struct opaque_scope node_level(void) {
    return shim_active() ? opaque_enter() : (struct opaque_scope){NULL};
}
#define NODE_SCOPE __attribute__((cleanup(opaque_leave), unused)) struct opaque_scope node_scope_ = node_level()

void hook_accumulate_grad_complete(void *node, struct tensor **variable) {
    struct tensor *leaf = *variable; /* moved from by the constructor */
    {
        NODE_SCOPE;
        ORIGINAL(accumulate_grad_complete)(node, variable);
    }
    leaf_constructed(node, leaf);
}

void hook_accumulate_grad_base(void *node, struct tensor **variable) {
    struct tensor *leaf = *variable;
    {
        NODE_SCOPE;
        ORIGINAL(accumulate_grad_base)(node, variable);
    }
    leaf_constructed(node, leaf);
}

void hook_input_metadata_complete(void *metadata, struct tensor **tensor) {
    NODE_SCOPE;
    ORIGINAL(input_metadata_complete)(metadata, tensor);
}

void hook_input_metadata_base(void *metadata, struct tensor **tensor) {
    NODE_SCOPE;
    ORIGINAL(input_metadata_base)(metadata, tensor);
}

void *hook_gradient_edge(void *edge, struct tensor *const *tensor) {
    NODE_SCOPE;
    return ORIGINAL(gradient_edge)(edge, tensor);
}
