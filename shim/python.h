/*
 * The Python interpreter in this process, if there is one. It is reached by names resolved at run time, as libtorch is. Whoever calls into it
 * holds its lock (api->lock); what it says is owned must be given back with api->release.
 */
#ifndef ACCEL_SHIM_PYTHON_H
#define ACCEL_SHIM_PYTHON_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct tensor;

struct object { /* PyObject of every CPython with a global lock */
    int64_t references;
    const void *type;
};

/* PyMethodDef. Lives as long as the process. */
struct python_method {
    const char *name;
    struct object *(*body)(struct object *self,
                           struct object *arguments); /* self borrowed; arguments: a borrowed tuple; result owned, NULL: raised */
    int flags;                                        /* PYTHON_VARARGS */
    const char *documentation;
};
enum { PYTHON_VARARGS = 1 };

struct python_api { /* functions as they are in C, objects by address: python.def */
#define PYTHON(name, type, arguments, symbol) type(*name) arguments;
#include "python.def"
#undef PYTHON
};

/* A function of the interpreter; NULL in a program without one. */
void *resolve_python(const char *symbol);
/* NULL when there is no interpreter, or one that lacks a function. */
const struct python_api *python_api(void);
/* The same for who is to lock it now, on a thread that may: NULL, too, where the interpreter has not begun or ends, and on a thread that has never been in it.
   Such a one might wait for ever: a program that embeds Python may keep the lock while its own threads work. */
const struct python_api *python_to_lock(void);
/* What features do once Python's types are there, and when a rank begins. */
#define HOOK(...)
#define READY(function) void function(struct object *base);
#define IMPORTED READY
#include "../hooks/hooks.def"
#undef IMPORTED
#undef READY
#undef HOOK
/* Free-threaded builds stop here, by name. */
void python_refuse_other_objects(void);
/* Has this thread the interpreter's lock? Of any interpreter, or none; false in a thread that runs another than the main interpreter. */
bool python_holds_lock(void);
/* This thread is to wait for what another of this process may have to do first: it gives up the interpreter's lock, if it has it, as Python does around
   its own system calls. The result is for python_take_again(). */
void *python_let_go(void);
void python_take_again(void *state);
/* Runs the functions of the program that are to handle signals, on the main thread with the interpreter's lock; elsewhere nothing happens. Not in a signal
   handler. What they raise is raised when the interpreter goes on with the program. */
void python_handle_signals(void);
/* Gives this thread, which has none yet, a state of the interpreter, which is alive, that lasts as long as the process; does not keep the lock. */
void python_keep_state(void);
/* Locks a mutex whose owner may need the interpreter's lock meanwhile (a tensor that it releases may have a Python object): who waits for it gives that up. */
void python_lock(pthread_mutex_t *mutex);
/* The tensor behind a Python object, borrowed from it; NULL: it is none. */
struct tensor *python_tensor(struct object *object);
/* A Python object for a tensor (its own, if it has one). Owned. */
struct object *python_object(struct tensor *tensor);
/* Replaces the function of a method (METH_O or METH_VARARGS...: of the same convention) in the interpreter's table that a built-in type has; for all types that
   share it. Returns the one that stood there; NULL: there is no such method of the type's own. */
void *python_method_replace(struct object *type, const char *name, void *function);
/* Executes code in a new dictionary, in which `name` (may be NULL) already stands for `value` (borrowed). The dictionary, owned; NULL: it raised. */
struct object *python_run(const char *code, const char *name, struct object *value);
/* Executes code in which method's name is a function of ours; base is its self. What the code leaves in use stays. names_of_modules() is there as well: yields
   each module and its dictionary, and loads none. */
void python_extend(const char *code, const struct python_method *method, struct object *base);
/* A function of ours that Python code can call; self (a reference is taken) is handed to its body. Owned. */
struct object *python_function(const struct python_method *method, struct object *self);

#endif
