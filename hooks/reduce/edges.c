/*
 * torch.autograd.graph.GradientEdge: a place in the graph that outlives its tensor. What the tensor was is kept for as long as Python's object lives, which
 * holds the node; a backward that begins there, or a gradient that is asked for there, finds it here where no tensor has it any more. Where the program has
 * made it of the node, and no tensor had that any more, it is not known, and such a backward stops.
 */
#include <pthread.h>
#include <stdlib.h>

#include "reduce.h"

struct edge {
    const void *object; /* Python's, which is alive */
    void *node;
    uint32_t output;
    bool is_unknown; /* made of the node, when its tensor was gone */
    struct record record;
};

static struct edge *edges;
static size_t room;
static _Atomic size_t count;
static pthread_mutex_t edges_mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void edges_start(void) {
    threads_renew_in_child(&edges_mutex);
}

static void edges_unlock(int *unused) {
    pthread_mutex_unlock(&edges_mutex);
}
#define EDGES_SCOPE __attribute__((cleanup(edges_unlock), unused)) int edges_scope_ = pthread_mutex_lock(&edges_mutex)

static bool find(void *node, uint32_t output, struct edge *found) {
    EDGES_SCOPE;
    for (size_t i = count; i-- > 0;)
        if (edges[i].node == node && edges[i].output == output) {
            *found = edges[i];
            return true;
        }
    return false;
}

bool edges_find(void *node, uint32_t output, struct record *record) {
    struct edge found;
    if (!atomic_load(&count) || !find(node, output, &found))
        return false;
    if (found.is_unknown)
        shim_problem(
            "AR-GRAD-KIND", "Make it by torch.autograd.graph.get_gradient_edge(tensor), or before the tensor is gone, or run with -n 1.",
            "a backward begins, or a gradient is asked for, at a GradientEdge that was made of a node (grad_fn) whose tensor was gone: "
            "nobody knows whether its rows are divided");
    *record = found.record;
    return true;
}

static void remember(struct edge edge) {
    EDGES_SCOPE;
    if (count == room) {
        room = 2 * room + 16;
        edges = realloc(edges, room * sizeof *edges);
    }
    edges[count] = edge;
    atomic_fetch_add(&count, 1);
}

static void forget(const void *object) {
    EDGES_SCOPE;
    for (size_t i = count; i-- > 0;)
        if (edges[i].object == object) {
            edges[i] = edges[count - 1];
            atomic_fetch_sub(&count, 1);
        }
}

static void note_tensor(const void *object, struct tensor *tensor) {
    forget(object); /* what its constructor has found */
    if (record_get(tensor).kind == RECORD_NONE || !tensor_node(tensor))
        return;
    OPAQUE_SCOPE;
    struct value output = TORCH_CALL("aten::output_nr", "", value_tensor(tensor));
    remember((struct edge){object, tensor_node(tensor), (uint32_t)output.integer, false, record_get(tensor)});
}

/* Made of a node, one of the words of Python's object. Before a batch has been divided all are whole. */
static void note_node(const void *object, struct object *node, uint32_t output) {
    void *custom = python_custom_node(node), *const *words = (void *const *)node;
    struct edge edge = {object, custom, output, false, {.kind = RECORD_NONE}};
    if (custom)
        edge.record = custom_output(custom_of_node(custom), output).record;
    for (int64_t i = PYTHON_OBJECT_WORDS; !custom && i < python_words(node) && edge.record.kind == RECORD_NONE; i++) {
        edge.node = words[i];
        edge.record = record_of_output(words[i], output);
    }
    if (edge.record.kind != RECORD_NONE)
        remember(edge);
    for (int64_t i = PYTHON_OBJECT_WORDS; !custom && i < python_words(node) && edge.record.kind == RECORD_NONE; i++)
        if (words[i])
            remember((struct edge){object, words[i], output, true, edge.record});
}

/* noted(edge, tensor): it is the tensor's. noted(edge, node, number): it is made. noted(edge): it ends. */
static struct object *noted(struct object *self, struct object *arguments) {
    (void)self;
    const struct python_api *python = python_api();
    const void *object = python->tuple_get(arguments, 0);
    int64_t given = python->tuple_size(arguments);
    struct tensor *tensor = given == 2 ? python_tensor(python->tuple_get(arguments, 1)) : NULL;
    if (given == 1)
        forget(object);
    else if (tensor && shim_active())
        note_tensor(object, tensor);
    else if (given == 3 && shim_active() && report_has_batches())
        note_node(object, python->tuple_get(arguments, 1), (uint32_t)(uintptr_t)python->number_address(python->tuple_get(arguments, 2)));
    python->error_clear(); /* of what is no number */
    python->retain(python->none);
    return python->none;
}

/* The function may have been imported by name already: its code is replaced. Its names are those of the module. */
static const char code[] =
    "import types\n"
    "import torch.autograd.graph as graph\n"
    "original = getattr(graph, 'get_gradient_edge', None)\n"
    "if original is not None:\n"
    "    def get_gradient_edge(tensor):\n"
    "        edge = _accel_run_get_gradient_edge(tensor)\n"
    "        _accel_run_noted(edge, tensor)\n"
    "        return edge\n"
    "    def make(type, *fields, noted=noted, original=graph.GradientEdge.__new__, **named):\n"
    "        edge = original(type, *fields, **named)\n"
    "        noted(edge, edge[0], edge[1])\n"
    "        return edge\n"
    "    def ends(edge, noted=noted):\n"
    "        noted(edge)\n"
    "    graph._accel_run_noted = noted\n"
    "    graph._accel_run_get_gradient_edge = types.FunctionType(original.__code__, original.__globals__, 'get_gradient_edge')\n"
    "    original.__code__ = get_gradient_edge.__code__\n"
    "    graph.GradientEdge.__new__ = make\n"
    "    graph.GradientEdge._make = classmethod(lambda type, fields: type(*fields))\n" /* _replace() uses it */
    "    graph.GradientEdge.__del__ = ends\n";

/* Interpreter's lock held. */
void edges_ready(struct object *base) {
    static const struct python_method method = {"noted", noted, PYTHON_VARARGS, NULL};
    python_extend(code, &method, base);
}
