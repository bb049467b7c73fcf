/*
 * Python's tensor hooks. tensor.register_hook(f) first gives the tensor an empty dictionary of hooks, which libtorch is told of (impl::add_hook), then puts f
 * into it; the graph's node may get the same dictionary without our seeing it. Unpickling a parameter (torch.load of a whole model) gives it a dictionary that
 * stays empty, which is harmless. So the dictionaries are remembered, and looked into when a backward through divided rows begins: what is in one would be
 * called with this rank's share, whatever kind of tensor it was put on (parameter, divided, or computed from parameters alone).
 */
#include <pthread.h>
#include <stdlib.h>

#include "reduce.h"

struct object { /* PyObject of every CPython with a global lock */
    int64_t references;
    const void *type;
};

struct python { /* functions and types of the interpreter in this process */
    const void *dictionary, *ordered_dictionary;
    void (*retain)(struct object *);
    void (*release)(struct object *);
    int64_t (*size)(struct object *);
    int (*lock)(void);
    void (*unlock)(int);
};

static struct python python;
static struct object **watched; /* owned */
static size_t count, room;
static pthread_mutex_t watched_mutex = PTHREAD_MUTEX_INITIALIZER; /* taken with the interpreter's lock held, never the other way round */

static bool python_find(void) {
    if (python.dictionary)
        return true;
    python.ordered_dictionary = resolve_python("PyODict_Type");
    python.retain = resolve_python("Py_IncRef");
    python.release = resolve_python("Py_DecRef");
    python.size = resolve_python("PyDict_Size");
    python.lock = resolve_python("PyGILState_Ensure");
    python.unlock = resolve_python("PyGILState_Release");
    if (!python.ordered_dictionary || !python.retain || !python.release || !python.size || !python.lock || !python.unlock)
        return false;
    python.dictionary = resolve_python("PyDict_Type");
    return python.dictionary != NULL;
}

/* Dictionaries that nobody else holds will never be called. */
static void forget_the_dead(void) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (watched[i]->references > 1)
            watched[kept++] = watched[i];
        else
            python.release(watched[i]);
    count = kept;
}

bool python_hooks_watch(void *const *hook) {
    struct object *hooks = hook ? hook[1] : NULL; /* PyFunctionTensorPreHook: {virtual table, dictionary, index} */
    if (!hooks || !python_find() || (hooks->type != python.dictionary && hooks->type != python.ordered_dictionary))
        return false;
    pthread_mutex_lock(&watched_mutex);
    if (count == room) {
        forget_the_dead();
        room = 2 * count + 64;
        watched = realloc(watched, room * sizeof *watched);
    }
    python.retain(hooks);
    watched[count++] = hooks;
    pthread_mutex_unlock(&watched_mutex);
    return true;
}

bool python_hooks_exist(void) {
    if (!count)
        return false;
    int state = python.lock();
    pthread_mutex_lock(&watched_mutex);
    bool exist = false;
    forget_the_dead();
    for (size_t i = 0; i < count; i++)
        exist |= python.size(watched[i]) > 0;
    pthread_mutex_unlock(&watched_mutex);
    python.unlock(state);
    return exist;
}
