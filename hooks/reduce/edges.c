/*
 * torch.autograd.graph.GradientEdge: a place in the graph that outlives its tensor. What the tensor was is kept for as long as Python's object lives, which
 * holds the node; a backward that begins there, or a gradient that is asked for there, finds it here where no tensor has it any more.
 */
#include <pthread.h>
#include <stdlib.h>

#include "reduce.h"

struct edge {
    const void *object; /* Python's, which is alive */
    void *node;
    uint32_t output;
    struct record record;
};

static struct edge *edges;
static size_t room;
static _Atomic size_t count;
static pthread_mutex_t edges_mutex = PTHREAD_MUTEX_INITIALIZER;

static void edges_unlock(int *unused) {
    pthread_mutex_unlock(&edges_mutex);
}
#define EDGES_SCOPE __attribute__((cleanup(edges_unlock), unused)) int edges_scope_ = pthread_mutex_lock(&edges_mutex)

bool edges_find(void *node, uint32_t output, struct record *record) {
    if (!atomic_load(&count))
        return false;
    EDGES_SCOPE;
    for (size_t i = count; i-- > 0;)
        if (edges[i].node == node && edges[i].output == output) {
            *record = edges[i].record;
            return true;
        }
    return false;
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
    for (size_t i = 0; i < count; i++)
        if (edges[i].object == object) {
            edges[i] = edges[count - 1];
            atomic_fetch_sub(&count, 1);
            return;
        }
}

/* noted(edge, tensor): it is the tensor's. noted(edge): it ends. */
static struct object *noted(struct object *self, struct object *arguments) {
    (void)self;
    const struct python_api *python = python_api();
    const void *object = python->tuple_get(arguments, 0);
    struct tensor *tensor = python->tuple_size(arguments) > 1 ? python_tensor(python->tuple_get(arguments, 1)) : NULL;
    if (!tensor)
        forget(object);
    else if (shim_active() && record_get(tensor).kind != RECORD_NONE && tensor_node(tensor)) {
        OPAQUE_SCOPE;
        struct value output = TORCH_CALL("aten::output_nr", "", value_tensor(tensor));
        remember((struct edge){object, tensor_node(tensor), (uint32_t)output.integer, record_get(tensor)});
    }
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
    "    def ends(edge, noted=noted):\n"
    "        noted(edge)\n"
    "    graph._accel_run_noted = noted\n"
    "    graph._accel_run_get_gradient_edge = types.FunctionType(original.__code__, original.__globals__, 'get_gradient_edge')\n"
    "    original.__code__ = get_gradient_edge.__code__\n"
    "    graph.GradientEdge.__del__ = ends\n";

/* Interpreter's lock held. */
void edges_ready(struct object *base) {
    static const struct python_method method = {"noted", noted, PYTHON_VARARGS, NULL};
    python_extend(code, &method, base);
}
