/*
 * Python's hooks on tensors. tensor.register_hook(f) first gives the tensor a dictionary of hooks, which libtorch is told of (impl::add_hook) by an object
 * with one virtual function that calls what is in it; the graph's node may get another such object with the same dictionary without our seeing it. So the
 * function is replaced for the whole class, and the dictionary says which tensor's gradient it is.
 */
#include <pthread.h>
#include <stdlib.h>

#include "reduce.h"

struct python_hook { /* PyFunctionTensorPreHook */
    void *table;
    struct object *dictionary;
    int index; /* of the gradient among those that the node is given; a size_t in later releases */
};

enum { CALL_SLOT = 2 }; /* FunctionPreHook has two destructors, then operator() (function_hook.h, 1.13 to 2.15) */

struct watched {
    const struct object *dictionary; /* not to be looked into: when it is gone, another one may stand there */
    struct object *reference; /* owned, weak: a hook may hold its own tensor, and Python's collector must see all owners of such a cycle */
    struct record record;     /* of the tensor */
    void *node;               /* of the graph, which has computed it */
    struct tensor *leaf;      /* NULL: it is none */
};

/* Looked at with the interpreter's lock, where no code of Python can run meanwhile. */
static struct watched *watched;
static size_t count, room;

/* Owned. Only an OrderedDict can be referred to weakly; the program may give a tensor a plain dictionary, which is its own reference. */
static struct object *reference_to(const struct python_api *python, struct object *dictionary) {
    struct object *reference = python->weak_new(dictionary, NULL);
    if (reference)
        return reference;
    python->error_clear();
    python->retain(dictionary);
    return dictionary;
}

/* Will its hooks ever be called? Interpreter's lock held. */
static bool is_alive(const struct python_api *python, const struct watched *one) {
    if (one->reference == one->dictionary)
        return one->reference->references > 1;
    struct object *dictionary = python->call(one->reference, NULL); /* no function of C for it is in all releases */
    if (!dictionary) {
        python->error_clear();
        return false;
    }
    python->release(dictionary); /* somebody else owns it, and cannot let go meanwhile */
    return dictionary == one->dictionary;
}

/* Interpreter's lock held. Owned; NULL: there are none. */
static struct object **take_the_dead(const struct python_api *python, size_t *dead_count) {
    struct object **dead = NULL;
    size_t kept = 0;
    *dead_count = 0;
    for (size_t i = 0; i < count; i++)
        if (is_alive(python, &watched[i]))
            watched[kept++] = watched[i];
        else {
            dead = dead ? dead : malloc(count * sizeof(struct object *));
            dead[(*dead_count)++] = watched[i].reference;
        }
    count = kept;
    return dead;
}

/* With what their hooks hold, which may put hooks on other tensors as it ends, and other threads may run meanwhile: none is in the list any more. */
static void release_the_dead(const struct python_api *python, struct object **dead, size_t dead_count) {
    for (size_t i = 0; i < dead_count; i++)
        python->release(dead[i]);
    free(dead);
}

static void interpreter_unlock(const int *state) {
    python_api()->unlock(*state);
}

static bool watched_find(const struct object *dictionary, struct watched *found) {
    const struct python_api *python = python_api();
    __attribute__((cleanup(interpreter_unlock), unused)) int state = python->lock();
    for (size_t i = count; i-- > 0;)
        if (watched[i].dictionary == dictionary && is_alive(python, &watched[i])) {
            *found = watched[i];
            return true;
        }
    return false;
}

/* The dead are looked for once for each backward, whichever thread runs it: what a program's hooks hold of one step is not held for many. */
static void watch(struct object *dictionary, struct tensor *tensor) {
    static uint64_t looked_at;
    const struct python_api *python = python_api();
    struct watched fresh = {dictionary, reference_to(python, dictionary), record_get(tensor), tensor_node(tensor),
                            tensor_node(tensor) ? NULL : tensor};
    struct object **dead = NULL;
    size_t dead_count = 0;
    if (count == room || looked_at != report_backwards_of_all())
        dead = take_the_dead(python, &dead_count);
    looked_at = report_backwards_of_all();
    if (count + dead_count == room) {
        room = 2 * count + 64;
        watched = realloc(watched, room * sizeof *watched);
    }
    watched[count++] = fresh;
    release_the_dead(python, dead, dead_count);
}

/* ---- the call: variable_list operator()(const variable_list &gradients) */

typedef void *hook_call(void *result, struct python_hook *hook, const struct vector *gradients);
static hook_call *original_call;

static void free_tensors(struct tensor ***tensors) {
    free(*tensors);
}

static void release_tensor(struct tensor **tensor) {
    tensor_release(*tensor);
}

static void *python_hook_called(void *result, struct python_hook *hook, const struct vector *gradients) {
    size_t index = (size_t)hook->index, all = vector_tensors(gradients);
    struct watched tensor = {0};
    if (!backward_is_divided() || index >= all || *vector_tensor(gradients, index) == torch_facts.undefined ||
        !watched_find(hook->dictionary, &tensor)) {
        {
            BOUNDARY_SCOPE;
            original_call(result, hook, gradients);
        }
        boundary_make_all_whole(result);
        return result;
    }
    struct record wanted = boundary_record_of_gradient(&tensor.record);
    __attribute__((cleanup(free_tensors))) struct tensor **copies = malloc(all * sizeof *copies); /* borrowed but for the one shown */
    memcpy(copies, gradients->begin, all * sizeof *copies);
    struct tensor *whole = half_show(tensor.leaf, copies[index]);
    __attribute__((cleanup(release_tensor))) struct tensor *seen = whole ? whole : boundary_show(copies[index], &wanted);
    copies[index] = seen;
    struct vector shown = {(char *)copies, (char *)(copies + all), (char *)(copies + all)};
    {
        BOUNDARY_SCOPE;
        original_call(result, hook, &shown);
    }
    struct tensor **returned = vector_tensor(result, index);
    *returned = boundary_return(*returned, &wanted);
    dispatch_client.hook_returned(tensor.node, *returned);
    return result;
}

/* Hooks of C++ that come this way have something else in the dictionary's place. */
static bool is_of_python(const struct python_hook *hook) {
    const struct python_api *python = python_api();
    return python && hook->dictionary &&
           (hook->dictionary->type == python->dictionary_type || hook->dictionary->type == python->ordered_dictionary_type);
}

/* The holder, shared_ptr or unique_ptr, begins with the object's address in every release. */
void python_hook_met(struct tensor *tensor, void *const *holder) {
    struct python_hook *hook = *holder;
    if (!shim_active() || dispatch_is_opaque() || !hook || !is_of_python(hook))
        return;
    hook_call *had = (hook_call *)virtual_replace(hook, CALL_SLOT, (void *)python_hook_called);
    if (had)
        original_call = had;
    watch(hook->dictionary, tensor);
}

/* ---- register_post_accumulate_grad_hook: called by AccumulateGrad when a parameter's gradient has arrived; the program makes its step there */

typedef void accumulated_call(void *hook, struct tensor *const *tensor);

/* What the tables of their classes had in the slot: Python has one class, a C++ program may have several. Read without the lock. */
static struct pairs accumulated_calls;
static pthread_mutex_t accumulated_mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void accumulated_start(void) {
    threads_renew_in_child(&accumulated_mutex);
}

static void accumulated_hook_called(void *hook, struct tensor *const *tensor) {
    accumulated_call *original = (accumulated_call *)pairs_get(&accumulated_calls, *(void **)hook);
    backward_has_arrived();
    BOUNDARY_SCOPE; /* makes it final */
    original(hook, tensor);
}

static void replace_accumulated_call(void *hook) {
    void *table = *(void **)hook;
    pthread_mutex_lock(&accumulated_mutex);
    if (!pairs_get(&accumulated_calls, table)) {
        pairs_put(&accumulated_calls, table, ((void **)table)[CALL_SLOT]); /* before the first call */
        virtual_replace(hook, CALL_SLOT, (void *)accumulated_hook_called);
    }
    pthread_mutex_unlock(&accumulated_mutex);
}

/* PostAccumulateGradHook has two destructors, then operator(). */
void hook_post_accumulate_hooks(struct tensor *const *tensor, void *holder) {
    void *hook = *(void **)holder;
    if (shim_active() && !dispatch_is_opaque() && hook)
        replace_accumulated_call(hook);
    ORIGINAL(post_accumulate_hooks)(tensor, holder);
}
