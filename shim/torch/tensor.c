/* Tensors: metadata, references, marks, hooks. */
#include <stdlib.h>

#include "../python.h"
#include "../shim.h"
#include "functions.h"

/* Refcounts: since 2.7 by the C ABI (later layouts pack both counts and a Python bit into one word). Before, two counters that calibration found:
   both of a machine word (1.13 to 2.1), or both of 32 bits (2.3 to 2.6). */
static bool references_by_abi(void) {
    return torch_functions.new_tensor_handle && torch_functions.delete_tensor_object;
}

static bool counts_are_words(void) {
    return torch_facts.weak_count == 16;
}

/* Adds to the counter at `at` and returns the new count. */
static size_t count_add(struct tensor *tensor, long at, int change) {
    char *count = (char *)tensor + at;
    if (counts_are_words())
        return __atomic_add_fetch((size_t *)count, (size_t)change, __ATOMIC_ACQ_REL);
    return __atomic_add_fetch((uint32_t *)count, (uint32_t)change, __ATOMIC_ACQ_REL);
}

enum { STRONG_COUNT = 8 };

/* intrusive_ptr_target: the low half of the word at +8 in every layout. */
uint32_t tensor_owners(const void *object) {
    return __atomic_load_n((const uint32_t *)((const char *)object + 8), __ATOMIC_ACQUIRE);
}

void tensor_retain(struct tensor *tensor) {
    if (tensor == torch_facts.undefined)
        return;
    if (references_by_abi()) {
        void *cell = tensor, *box = NULL;
        torch_functions.new_tensor_handle(&cell, &box);
        free(box); /* the box only: the reference stays */
    } else
        count_add(tensor, STRONG_COUNT, 1);
}

/* Is Python's object of it the only owner, and what its first further one retains? libtorch 2.13 and later say so (the count's highest bit). Before, the object
   may be about to end, and does not expect another owner (1.13: "!isResurrectable", an abort, once in some hundred runs): it is taken for Python's on a thread
   that knows the interpreter, whose lock goes from thread to thread then. */
static bool is_pythons_alone(uint64_t counts) {
    const struct python_api *python = (uint32_t)counts == 1 ? python_api() : NULL;
    if (!python || torch_functions.try_incref_pyobject)
        return python && counts >> 63;
    return python->is_alive() && python->own_state();
}

enum living { GONE, PYTHONS_ALONE, RETAINED };

static enum living retain_but_pythons(struct tensor *tensor) {
    uint64_t *counts = (uint64_t *)((char *)tensor + STRONG_COUNT), now = __atomic_load_n(counts, __ATOMIC_ACQUIRE);
    while ((uint32_t)now) {
        if (is_pythons_alone(now))
            return PYTHONS_ALONE;
        if (__atomic_compare_exchange_n(counts, &now, now + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return RETAINED;
    }
    return GONE;
}

/* With the interpreter's lock, as weak_intrusive_ptr::lock of c10/util/intrusive_ptr.h does since 2.13. Its Python object may be ending all the same: it gives
   up that lock before it lets go of the tensor (THPVariable_clear), and to retain it then was a crash, once in some hundred runs on a busy machine. Before 2.13
   the tensor has no count of its object's. */
static enum living retain_with_object(struct tensor *tensor) {
    if (!torch_functions.try_incref_pyobject || !torch_functions.decref_pyobject) {
        tensor_retain(tensor);
        return RETAINED;
    }
    if (!torch_functions.try_incref_pyobject(tensor))
        return GONE;
    uint64_t *counts = (uint64_t *)((char *)tensor + STRONG_COUNT);
    uint64_t had = __atomic_fetch_add(counts, 1, __ATOMIC_ACQ_REL);
    if ((uint32_t)had != 1) /* whoever was the second owner has retained the object, too */
        torch_functions.decref_pyobject(tensor);
    return RETAINED;
}

/* Nobody lets go of a Python object who has not the interpreter's lock. Else it is not taken: the main thread of a program may have it until it ends. */
bool tensor_retain_living(struct tensor *tensor) {
    enum living living = retain_but_pythons(tensor);
    if (living != PYTHONS_ALONE)
        return living == RETAINED;
    const struct python_api *python = python_api();
    int state = python->lock();
    living = retain_but_pythons(tensor);
    if (living == PYTHONS_ALONE)
        living = retain_with_object(tensor);
    python->unlock(state);
    return living != GONE;
}

bool tensor_is_let_go(struct tensor *tensor, uint32_t own) {
    uint64_t counts = __atomic_load_n((const uint64_t *)((const char *)tensor + STRONG_COUNT), __ATOMIC_ACQUIRE);
    if ((uint32_t)counts == own)
        return true;
    bool may_be = (uint32_t)counts == own + 1 && counts >> 63 && torch_functions.try_incref_pyobject;
    const struct python_api *python = may_be ? python_to_lock() : NULL;
    if (!python)
        return false;
    int state = python->lock();
    struct object *object = python_object(tensor);
    bool is_ours = object && (uint32_t)object->references == 2; /* the tensor's, and the one that we have just got */
    if (object)
        python->release(object);
    python->unlock(state);
    return is_ours;
}

/* intrusive_ptr::reset_ of the releases before the C ABI (c10/util/intrusive_ptr.h of 1.13 to 2.5). */
static void release_by_hand(struct tensor *tensor) {
    if (count_add(tensor, STRONG_COUNT, -1))
        return;
    void (**virtual)(void *) = *(void (***)(void *))tensor;
    bool last = count_add(tensor, torch_facts.weak_count, 0) == 1;
    if (!last) {
        virtual[2](tensor); /* release_resources */
        last = count_add(tensor, torch_facts.weak_count, -1) == 0;
    }
    if (last)
        virtual[1](tensor); /* deleting destructor */
}

void tensor_release(struct tensor *tensor) {
    if (!tensor || tensor == torch_facts.undefined)
        return;
    if (references_by_abi()) {
        void **box = malloc(sizeof *box);
        *box = tensor;
        torch_functions.delete_tensor_object(box);
    } else
        release_by_hand(tensor);
}

void value_drop(struct value value) {
    if (value.tag == TAG_TENSOR) {
        tensor_release(value.tensor);
        return;
    }
    if (!torch_facts.tag_list || !value_is_list(&value))
        return;
    /* The low 32 bits at +8 are the strong count in every layout; the last owner calls the deleting destructor. */
    if (__atomic_sub_fetch((uint32_t *)((char *)value.pointer + 8), 1, __ATOMIC_ACQ_REL) == 0)
        (*(void (***)(void *))value.pointer)[1](value.pointer);
}

struct sizes tensor_sizes(struct tensor *tensor) {
    return torch_functions.sizes(tensor);
}

struct sizes tensor_strides(struct tensor *tensor) {
    return torch_functions.strides(tensor);
}

int64_t tensor_elements(struct tensor *tensor) {
    struct sizes sizes = tensor_sizes(tensor);
    int64_t elements = 1;
    for (size_t i = 0; i < sizes.count; i++)
        elements *= sizes.data[i];
    return elements;
}

/* Types without arithmetic here, by their codes (c10/core/ScalarType.h, the later ones of 2.1, 2.3 and 2.7): they are gathered as bytes. */
enum { CODE_COMPLEX32 = 8, CODE_FLOAT8_FIRST = 23, CODE_FLOAT8_LAST = 26, CODE_UINT16, CODE_UINT32, CODE_UINT64, CODE_FLOAT8_E8M0 = 44 };

static size_t bytes_of_code(int code) {
    if ((code >= CODE_FLOAT8_FIRST && code <= CODE_FLOAT8_LAST) || code == CODE_FLOAT8_E8M0)
        return 1;
    return code == CODE_UINT16 ? 2 : code == CODE_COMPLEX32 || code == CODE_UINT32 ? 4 : code == CODE_UINT64 ? 8 : 0;
}

size_t dtype_bytes(enum torch_dtype dtype) {
    switch (dtype) {
    case DTYPE_UINT8:
    case DTYPE_INT8:
    case DTYPE_BOOL:
        return 1;
    case DTYPE_INT16:
    case DTYPE_FLOAT16:
    case DTYPE_BFLOAT16:
        return 2;
    case DTYPE_INT32:
    case DTYPE_FLOAT32:
        return 4;
    case DTYPE_INT64:
    case DTYPE_FLOAT64:
    case DTYPE_COMPLEX64:
        return 8;
    case DTYPE_COMPLEX128:
        return 16;
    }
    return bytes_of_code((int)dtype);
}

bool dtype_for_comm(enum torch_dtype dtype, enum comm_dtype *comm, size_t *factor) {
    static const int8_t table[16] = {
        [DTYPE_UINT8] = COMM_UINT8 + 1,        [DTYPE_INT8] = COMM_INT8 + 1,       [DTYPE_INT16] = COMM_INT16 + 1,
        [DTYPE_INT32] = COMM_INT32 + 1,        [DTYPE_INT64] = COMM_INT64 + 1,     [DTYPE_FLOAT16] = COMM_FLOAT16 + 1,
        [DTYPE_FLOAT32] = COMM_FLOAT32 + 1,    [DTYPE_FLOAT64] = COMM_FLOAT64 + 1, [DTYPE_COMPLEX64] = COMM_FLOAT32 + 1,
        [DTYPE_COMPLEX128] = COMM_FLOAT64 + 1, [DTYPE_BOOL] = COMM_BOOL + 1,       [DTYPE_BFLOAT16] = COMM_BFLOAT16 + 1};
    if ((unsigned)dtype >= 16 || !table[dtype])
        return false;
    *comm = (enum comm_dtype)(table[dtype] - 1);
    *factor = dtype == DTYPE_COMPLEX64 || dtype == DTYPE_COMPLEX128 ? 2 : 1;
    return true;
}

void *tensor_storage(struct tensor *tensor) {
    return *(void **)((char *)tensor + torch_facts.storage);
}

int64_t tensor_storage_offset(struct tensor *tensor) {
    return *(int64_t *)((char *)tensor + torch_facts.storage_offset);
}

void *tensor_data(struct tensor *tensor) {
    char *base = *(char **)((char *)tensor_storage(tensor) + torch_facts.storage_data);
    return base + *(int64_t *)((char *)tensor + torch_facts.storage_offset) * (int64_t)dtype_bytes(tensor_dtype(tensor));
}

bool tensor_is_on_host(struct tensor *tensor) {
    return *tensor_key_set(tensor) & torch_facts.bit_cpu;
}

bool tensor_has_no_values(struct tensor *tensor) {
    return tensor_is_plain(tensor) && tensor_elements(tensor) && !*(void **)((char *)tensor_storage(tensor) + torch_facts.storage_data);
}

size_t tensor_bytes(struct tensor *tensor) {
    return (size_t)tensor_elements(tensor) * dtype_bytes(tensor_dtype(tensor));
}

bool tensor_is_plain(struct tensor *tensor) {
    return *(void **)tensor == torch_facts.tensor_vtable && tensor_storage(tensor);
}

bool tensor_has_memory(struct tensor *tensor) {
    return tensor_is_plain(tensor) && (tensor_data(tensor) || !tensor_elements(tensor));
}

bool tensor_is_ordinary(struct tensor *tensor) {
    uint64_t keys = *tensor_key_set(tensor) & ~keys_ours();
    return keys == torch_facts.plain_keys && tensor_is_plain(tensor) && !tensor_requires_grad(tensor);
}

bool tensor_is_contiguous(struct tensor *tensor) {
    struct sizes sizes = tensor_sizes(tensor), strides = tensor_strides(tensor);
    int64_t stride = 1;
    for (size_t dim = sizes.count; dim-- > 0; stride *= sizes.data[dim])
        if (strides.data[dim] != stride)
            return false;
    return true;
}

bool tensor_is_dense(struct tensor *tensor) {
    struct sizes sizes = tensor_sizes(tensor), strides = tensor_strides(tensor);
    int64_t covered = 1, elements = tensor_elements(tensor);
    while (covered < elements) { /* the dimension whose stride is what the inner ones cover must exist */
        size_t next = 0;
        while (next < sizes.count && (sizes.data[next] == 1 || strides.data[next] != covered))
            next++;
        if (next == sizes.count)
            return false;
        covered *= sizes.data[next];
    }
    return true;
}

static bool are_equal(struct sizes a, struct sizes b) {
    return a.count == b.count && !memcmp(a.data, b.data, a.count * sizeof *a.data);
}

bool tensor_same_layout(struct tensor *one, struct tensor *other) {
    return tensor_dtype(one) == tensor_dtype(other) && are_equal(tensor_sizes(one), tensor_sizes(other)) &&
           are_equal(tensor_strides(one), tensor_strides(other));
}

bool tensor_requires_grad(struct tensor *tensor) {
    return torch_functions.requires_grad(tensor);
}

void *tensor_node(struct tensor *tensor) {
    void *cell = tensor;
    return torch_functions.grad_fn(&cell);
}

bool tensor_is_view(struct tensor *tensor) {
    return torch_functions.view_meta(&tensor);
}

struct tensor **tensor_grad_slot(struct tensor *tensor) {
    return torch_functions.mutable_grad(tensor);
}

void tensor_mark_parameter(struct tensor *tensor) {
    *tensor_key_set(tensor) |= torch_facts.bit_parameter;
}

bool grad_mode_is_enabled(void) {
    return torch_functions.grad_mode();
}

bool tensor_is_recorded(struct tensor *tensor) {
    uint64_t excluded = dispatch_thread_keys()[1] ^ torch_facts.default_excluded;
    return torch_functions.grad_mode() && !(excluded & torch_facts.bit_autograd) && tensor_requires_grad(tensor);
}

/* ---- a std::function<TensorBase(const TensorBase &)> of our own (libstdc++: two words of functor, manager, invoker) */

struct closure_box {
    struct hook_closure closure;
    _Atomic int references;
};

static void closure_release(struct closure_box *box) {
    if (atomic_fetch_sub(&box->references, 1) > 1)
        return;
    if (box->closure.release)
        box->closure.release(box->closure.data);
    free(box);
}

enum { FUNCTION_TYPE, FUNCTION_POINTER, FUNCTION_CLONE, FUNCTION_DESTROY };

static int closure_manage(void **to, void *const *from, int operation) {
    struct closure_box *box;
    if (operation == FUNCTION_CLONE) {
        box = from[0];
        atomic_fetch_add(&box->references, 1);
        to[0] = box;
        to[1] = NULL;
    } else if (operation == FUNCTION_DESTROY)
        closure_release(to[0]);
    else if (operation == FUNCTION_POINTER)
        to[0] = (void *)from;
    else
        to[0] = NULL;
    return 0;
}

static void *closure_invoke(struct tensor **result, void *const *functor, struct tensor *const *gradient) {
    struct closure_box *box = functor[0];
    bool flows_on = *gradient == torch_facts.undefined && !box->closure.sees_none;
    *result = flows_on ? torch_facts.undefined : box->closure.function(*gradient, box->closure.data);
    return result;
}

unsigned tensor_add_hook(struct tensor *tensor, struct hook_closure closure) {
    struct closure_box *box = malloc(sizeof *box);
    *box = (struct closure_box){.closure = closure, .references = 1};
    void *function[4] = {box, NULL, (void *)closure_manage, (void *)closure_invoke};
    void *cell = tensor;
    OPAQUE_SCOPE; /* this is not the program putting a hook on a tensor (hooks/reduce/boundary.c) */
    unsigned number = torch_functions.register_hook(&cell, function);
    if (function[2]) /* not moved from */
        closure_release(box);
    return number;
}
