/*
 * What a C++ program has put into the graph itself: nodes of classes of its own (torch::autograd::Node), and hooks on nodes (add_pre_hook, add_post_hook; on
 * AccumulateGrad, too). Whatever reaches them is this rank's rows, or its part of a sum, and nobody knows which: a backward through divided rows that leads to
 * them stops the job by name. Custom functions (torch::autograd::Function) are nodes of libtorch's class CppNode, and have a file of their own.
 */
#include <stdatomic.h>

#include "reduce.h"

enum { KNOWN = 256 };

/* Tables of libtorch's own classes that were met: a few dozen in any program. What another thread writes over is looked up again. */
static _Atomic(void *) known[KNOWN];

static bool is_foreign(void *object) {
    void *table = *(void **)object;
    _Atomic(void *) *place = &known[((uintptr_t)table >> 4) * 0x9E3779B97F4A7C15ull >> 56];
    if (atomic_load_explicit(place, memory_order_relaxed) == table)
        return false;
    if (!virtual_is_of_libtorch(object))
        return true;
    atomic_store_explicit(place, table, memory_order_relaxed);
    return false;
}

__attribute__((noreturn)) static void refuse(void *object, const char *what) {
    char *name = virtual_class_shown(object);
    shim_problem("AR-NODE",
                 "Put the hook on the tensor (tensor.register_hook), write the function as a torch::autograd::Function, or run with -n 1.",
                 "%s (C++, class %s) lies in the graph of a backward of a program whose batches are divided: it would see this rank's part",
                 what, name ? name : "without a name");
}

struct asked {
    const struct vector *edges;
    bool accumulate;
};

static bool is_asked_for(void *node, const void *edges) {
    return graph_is_among(edges, node);
}

static bool is_run(void *node, const struct vector *asked) {
    return asked->begin == asked->end || graph_leads_to(graph_edges_of(node), is_asked_for, asked);
}

/* Of nodes that gradients are asked for themselves the engine takes what arrives, and does not run them (unless it is to be accumulated there). It holds the
   sizes that arrive against those that an own one was made for, which are the whole batch's. */
static bool look_at(void *node, const void *asked) {
    const struct asked *only = asked;
    half_meet(node);
    void *hook = graph_hook_of(node, is_foreign);
    bool is_own = is_foreign(node) && !node_is_replaced(node);
    if (!hook && !is_own)
        return false;
    bool is_taken = graph_is_among(only->edges, node);
    if (hook && ((is_taken && only->accumulate) || is_run(node, only->edges)))
        refuse(hook, "a hook on a node of the graph");
    if (is_own && (is_taken || is_run(node, only->edges)))
        refuse(node, "a node of the graph");
    return false;
}

void foreign_refuse(const struct vector *roots, const struct vector *asked, bool accumulate) {
    struct asked only = {asked, accumulate};
    if (roots->begin < roots->end)
        graph_leads_to(roots, look_at, &only);
}
