/* The interpreter's functions, and the way between its tensors and libtorch's. */
#include "python.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "resolve.h"
#include "shim.h"

struct method { /* PyMethodDef */
    const char *name;
    void *function;
    int flags;
    const char *documentation;
};

struct method_descriptor { /* PyMethodDescrObject of every CPython with a global lock */
    struct object base;
    void *type, *name, *qualified_name;
    struct method *method;
};

static struct python_api api;

static bool api_find(void) {
#define PYTHON(name, type, arguments, symbol)                                                                                              \
    if (!(api.name = (__typeof__(api.name))resolve_python(symbol)))                                                                        \
        return false;
#include "python.def"
#undef PYTHON
    return true;
}

const struct python_api *python_api(void) {
    static _Atomic int known; /* 0: not asked, 1: there, 2: not. A race finds the same twice. */
    int state = atomic_load_explicit(&known, memory_order_acquire);
    if (!state)
        atomic_store_explicit(&known, state = api_find() ? 1 : 2, memory_order_release);
    return state == 1 ? &api : NULL;
}

void python_refuse_other_objects(void) {
    if (resolve_python("_Py_MergeZeroLocalRefcount"))
        shim_problem("AR-PYTHON", "Use the interpreter that has one (python3.13, not python3.13t); or run it without accel-run.",
                     "this Python has no global lock: its objects are laid out otherwise than accel-run knows");
}

/* What it calls is gone then, and who locks it may never come back. */
static bool is_ending(void) {
    int (*ending)(void) = resolve_python("Py_IsFinalizing"); /* 3.13 */
    if (!ending)
        ending = resolve_python("_Py_IsFinalizing");
    return ending && ending();
}

const struct python_api *python_to_lock(void) {
    const struct python_api *python = python_api();
    bool may_lock = python && python->is_alive() && python->own_state() && !is_ending();
    return may_lock ? python : NULL;
}

bool shim_has_python(void) {
    int (*is_initialised)(void) = resolve_python("Py_IsInitialized");
    return is_initialised && is_initialised();
}

/* PyGILState_Check() says yes before the interpreter begins, after it has ended, and everywhere once there was a second one in the process. Up to 3.11 the
   current state is that of whichever thread has the lock, later the thread's own. */
bool python_holds_lock(void) {
    void *(*own)(void) = resolve_python("PyGILState_GetThisThreadState");
    void *(*current)(void) = resolve_python("PyThreadState_GetUnchecked"); /* 3.13 */
    if (!current)
        current = resolve_python("_PyThreadState_UncheckedGet");
    if (!shim_has_python() || !own || !current)
        return false;
    void *state = own();
    return state && state == current();
}

/* Asked for by name each time, without python_api(): a program may load an interpreter later, or one that it never starts. */
void *python_let_go(void) {
    void *(*leave)(void) = resolve_python("PyEval_SaveThread");
    return leave && python_holds_lock() ? leave() : NULL;
}

void python_take_again(void *state) {
    void (*take)(void *) = state ? resolve_python("PyEval_RestoreThread") : NULL;
    if (take)
        take(state);
}

struct raised {
    struct object *type, *value, *trace;
};

static void drop(struct raised raised) {
    void (*release)(struct object *) = resolve_python("Py_DecRef"); /* takes NULL */
    release(raised.type);
    release(raised.value);
    release(raised.trace);
}

static int raise_now(void *error) {
    struct raised raised = *(struct raised *)error;
    void (*restore)(struct object *, struct object *, struct object *) = resolve_python("PyErr_Restore");
    free(error);
    restore(raised.type, raised.value, raised.trace);
    return -1;
}

/* Not within the call in which we are, which would say something else of it, or that it has been done well. */
void python_handle_signals(void) {
    int (*check)(void) = resolve_python("PyErr_CheckSignals");
    void (*fetch)(struct object **, struct object **, struct object **) = resolve_python("PyErr_Fetch");
    void (*restore)(struct object *, struct object *, struct object *) = resolve_python("PyErr_Restore");
    int (*call_later)(int (*)(void *), void *) = resolve_python("Py_AddPendingCall");
    if (!check || !fetch || !restore || !call_later || !python_holds_lock() || is_ending())
        return;
    struct raised before, *raised = malloc(sizeof *raised);
    if (!raised)
        return;
    fetch(&before.type, &before.value, &before.trace);
    bool has_raised = check() != 0;
    if (has_raised)
        fetch(&raised->type, &raised->value, &raised->trace);
    if (has_raised && call_later(raise_now, raised)) { /* too many wait: in place of what has been raised already */
        drop(before);
        raise_now(raised);
        return;
    }
    if (!has_raised)
        free(raised);
    restore(before.type, before.value, before.trace);
}

void python_keep_state(void) {
    const struct python_api *python = python_api();
    python->lock();
    python->leave();
}

void python_lock(pthread_mutex_t *mutex) {
    if (!pthread_mutex_trylock(mutex))
        return;
    /* Not taken back while the mutex is held: it ends a daemon thread, once the interpreter ends (pthread_exit; for ever waiting since 3.14). */
    do {
        void *python = python_let_go();
        pthread_mutex_lock(mutex);
        pthread_mutex_unlock(mutex);
        python_take_again(python);
    } while (pthread_mutex_trylock(mutex));
}

struct tensor *python_tensor(struct object *object) {
    struct object *address = api.attribute(object, "_cdata"); /* torch.Tensor has it in every release */
    if (!address) {
        api.error_clear();
        return NULL;
    }
    struct tensor *tensor = api.number_address(address);
    api.release(address);
    return tensor;
}

/* PyObject *THPVariable_Wrap(at::TensorBase), later (const at::TensorBase &): both get an address; the former may leave nothing there. */
struct object *python_object(struct tensor *tensor) {
    static struct object *(*wrap)(struct tensor **);
    if (!wrap)
        wrap = resolve_function("libtorch_python", "_Z16THPVariable_WrapRKN2at10TensorBaseE");
    if (!wrap)
        wrap = resolve_function("libtorch_python", "_Z16THPVariable_WrapN2at10TensorBaseE");
    if (!wrap)
        torch_unsupported("functions", "THPVariable_Wrap is missing");
    tensor_retain(tensor);
    struct tensor *cell = tensor;
    struct object *object = wrap(&cell);
    tensor_release(cell);
    return object;
}

struct object *python_function(const struct python_method *method, struct object *self) {
    return api.function_new(method, self, NULL);
}

void *python_method_replace(struct object *type, const char *name, void *function) {
    struct object *found = api.attribute(type, name);
    if (!found) {
        api.error_clear();
        return NULL;
    }
    struct method *method = found->type == api.method_type ? ((struct method_descriptor *)found)->method : NULL;
    api.release(found); /* the type holds it */
    if (!method || strcmp(method->name, name))
        return NULL;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)&method->function & ~(page - 1);
    if (mprotect((void *)begin, page, PROT_READ | PROT_WRITE))
        return NULL;
    void *had = method->function;
    method->function = function;
    return had;
}

/* builtins.NAME, owned; NULL: none. */
static struct object *builtin(const char *name) {
    struct object *module = api.item(api.modules(), "builtins");
    return module ? api.attribute(module, name) : NULL;
}

/* False: it raised. */
static bool run_in(struct object *names, const char *code) {
    struct object *run = builtin("exec"), *arguments = api.tuple_new(2), *result = NULL;
    if (run && arguments) {
        api.retain(names); /* the tuple takes one */
        api.tuple_set(arguments, 0, api.bytes_new(code, (int64_t)strlen(code)));
        api.tuple_set(arguments, 1, names);
        result = api.call(run, arguments);
    }
    bool has_run = result;
    struct object *own[] = {run, arguments, result};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i])
            api.release(own[i]);
    if (!has_run)
        api.error_clear();
    return has_run;
}

struct object *python_run(const char *code, const char *name, struct object *value) {
    struct object *make = builtin("dict"), *none = api.tuple_new(0), *names = make && none ? api.call(make, none) : NULL;
    bool has_run = names && (!name || !api.dictionary_set(names, name, value)) && run_in(names, code);
    struct object *own[] = {make, none, has_run ? NULL : names};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i])
            api.release(own[i]);
    return has_run ? names : NULL;
}

/* What is replaced in Python is replaced also where it has been imported by its name. */
static const char prelude[] =
    "import sys\n"
    "def names_of_modules():\n"
    "    for module in list(sys.modules.values()):\n"
    "        try:\n"
    "            yield module, object.__getattribute__(module, '__dict__')\n" /* one that is still to be loaded stays so */
    "        except AttributeError:\n"
    "            continue\n";

void python_extend(const char *code, const struct python_method *method, struct object *base) {
    struct object *function = python_function(method, base), *names = function ? python_run(prelude, method->name, function) : NULL;
    if (names) {
        run_in(names, code);
        api.release(names);
    }
    if (function)
        api.release(function);
}
