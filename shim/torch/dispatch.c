/*
 * The dispatch key. A boxed fallback for two keys above Autograd receives every operator on a marked tensor; running an operator below our keys is
 * reading its own dispatch table (Dispatcher::redispatchBoxed is not exported by any release, callBoxed by the old ones only).
 */
#include <stdlib.h>

#include "../shim.h"
#include "../resolve.h"
#include "functions.h"

typedef void boxed_kernel(void *functor, const struct handle *handle, uint64_t key_set, struct stack *stack);

/* Of this thread; together, for there is little room for such. */
static __thread struct {
    uint64_t *keys; /* libc10's: {included ^ default, excluded ^ default} */
    uint16_t python_calls;
    bool is_registered; /* its keys, with regions */
    bool has_divided;
} of_thread;

/* dlsym gives this thread's address. */
uint64_t *dispatch_thread_keys(void) {
    if (!of_thread.keys)
        of_thread.keys = resolve_function("libc10", "_ZN3c104impl26raw_local_dispatch_key_setE");
    if (!of_thread.keys)
        torch_unsupported("thread key set", "no raw_local_dispatch_key_set in libc10");
    return of_thread.keys;
}

bool dispatch_is_opaque(void) {
    return dispatch_thread_keys()[1] & torch_facts.bit_shard; /* our keys are not excluded by default, so the stored bit is the real one */
}

uint16_t *dispatch_python_calls(void) {
    return &of_thread.python_calls;
}

bool dispatch_in_transform(void) {
    return dispatch_thread_keys()[0] & torch_facts.bits_transform; /* not included by default either */
}

bool dispatch_in_mode(void) {
    return dispatch_thread_keys()[0] & torch_facts.bits_mode;
}

bool dispatch_is_of_subclass(uint64_t key_set) {
    return key_set & torch_facts.bits_mode && !(dispatch_thread_keys()[0] & torch_facts.bits_mode);
}

bool dispatch_in_trace(void) {
    return dispatch_in_mode() && !(torch_functions.any_modes_set && torch_functions.any_modes_set(true));
}

struct opaque_scope opaque_enter(void) {
    uint64_t *excluded = &dispatch_thread_keys()[1];
    if (*excluded & torch_facts.bit_shard)
        return (struct opaque_scope){NULL};
    loans_return();
    if (__builtin_expect(!of_thread.is_registered, 0))
        of_thread.is_registered = regions_register(excluded);
    *excluded |= keys_ours();
    return (struct opaque_scope){excluded};
}

void opaque_leave(struct opaque_scope *scope) {
    if (scope->excluded)
        *scope->excluded &= ~keys_ours();
}

struct opaque_scope user_enter(void) {
    uint64_t *excluded = &dispatch_thread_keys()[1];
    if (!(*excluded & torch_facts.bit_shard))
        return (struct opaque_scope){NULL};
    *excluded &= ~keys_ours();
    return (struct opaque_scope){excluded};
}

void user_leave(struct opaque_scope *scope) {
    if (!scope->excluded)
        return;
    loans_return();
    *scope->excluded |= keys_ours();
}

struct transform_scope transform_leave(void) {
    uint64_t *keys = dispatch_thread_keys();
    struct transform_scope scope = {.included = keys[0], .excluded = keys[1]};
    if (keys[0] & torch_facts.bits_mode) /* a mode would be told of copies by shallow_copy_and_detach, and be included again behind it */
        keys[1] |= torch_facts.bits_mode;
    keys[0] &= ~(torch_facts.bits_transform | torch_facts.bits_mode);
    return scope;
}

void transform_return(struct transform_scope *scope) {
    dispatch_thread_keys()[0] = scope->included;
    dispatch_thread_keys()[1] = scope->excluded;
}

/* ---- the table */

static int highest_bit(uint64_t bits) { /* 1-based; 0: none */
    return bits ? 64 - __builtin_clzll(bits) : 0;
}

static char *table_row(const struct handle *handle, int functionality, uint64_t key_set) {
    int index = torch_facts.offset[functionality];
    if (torch_facts.mask[functionality])
        index += highest_bit((key_set & torch_facts.mask[functionality]) >> 1);
    return handle->definition + torch_facts.table + index * torch_facts.table_stride;
}

/* For calls that we begin, every bit whose row is the fallthrough kernel must go beforehand: the kernels below redispatch without masking and would
   execute it. */
uint64_t dispatch_without_fallthrough(const struct handle *handle, uint64_t key_set) {
    for (uint64_t left = key_set >> torch_facts.backend_count; left; left &= left - 1) {
        int bit = __builtin_ctzll(left);
        if (*(void **)table_row(handle, bit + 1, key_set) == (void *)torch_functions.fallthrough)
            key_set &= ~(1ull << (torch_facts.backend_count + bit));
    }
    return key_set;
}

char *dispatch_row(const struct handle *handle, uint16_t key) {
    return table_row(handle, key, 0);
}

char *dispatch_row_below(const struct handle *handle, uint64_t *key_set) {
    for (;;) {
        int functionality = highest_bit(*key_set >> torch_facts.backend_count);
        char *row = table_row(handle, functionality, *key_set);
        if (*(void **)row != (void *)torch_functions.fallthrough)
            return row;
        *key_set &= ~(1ull << (torch_facts.backend_count + functionality - 1));
    }
}

void dispatch_kernel(const struct handle *handle, uint64_t key_set, struct stack *stack) {
    char *row = dispatch_row_below(handle, &key_set);
    boxed_kernel *kernel = *(boxed_kernel **)row;
    if (!kernel)
        shim_problem("AR-NO-KERNEL", "Please report the operator; run the program without accel-run meanwhile.",
                     "operator %s has no boxed kernel for the keys %llx", *(char **)handle->definition, (unsigned long long)key_set);
    kernel(*(void **)(row - 8), handle, key_set, stack);
}

void dispatch_run_opaque(struct operator *op, const struct handle *handle, uint64_t key_set, struct stack *stack) {
    OPAQUE_SCOPE;
    dispatch_kernel(handle, key_set, stack);
}

void dispatch_run_user(struct operator *op, const struct handle *handle, uint64_t key_set, struct stack *stack) {
    dispatch_kernel(handle, key_set, stack);
}

void dispatch_set_divided(bool has_divided) {
    of_thread.has_divided = has_divided;
}

bool dispatch_has_divided(void) {
    return of_thread.has_divided;
}

/* ---- the fallback */

static void stack_append(struct stack *stack, const struct value *values, size_t count) {
    if ((size_t)(stack->capacity - stack->end) < count) {
        size_t length = (size_t)(stack->end - stack->begin), room = 2 * (length + count);
        struct value *grown = malloc(room * sizeof *grown); /* std::vector's memory is operator new's: malloc and free by default */
        memcpy(grown, stack->begin, length * sizeof *grown);
        free(stack->begin);
        stack->begin = grown;
        stack->end = grown + length;
        stack->capacity = grown + room;
    }
    memcpy(stack->end, values, count * sizeof *values);
    stack->end += count;
}

static void fallback(void *functor, const struct handle *handle, uint64_t key_set, struct stack *stack);

/* The TorchScript interpreter shares one stack among calls: work on a private one that holds this operator's arguments only. */
static void fallback_on_shared_stack(const struct handle *handle, uint64_t key_set, struct stack *stack, int count) {
    __attribute__((cleanup(stack_free))) struct stack own;
    size_t room = (size_t)count > 24 ? (size_t)count : 24;
    own.begin = malloc(room * sizeof(struct value));
    own.end = own.begin + count;
    own.capacity = own.begin + room;
    stack->end -= count;
    memcpy(own.begin, stack->end, (size_t)count * sizeof(struct value));
    fallback(NULL, handle, key_set, &own);
    stack_append(stack, own.begin, (size_t)(own.end - own.begin));
    own.end = own.begin;
}

/* Parameters and divided tensors that a child has inherited through fork are still marked. It computes with parameters alone, as a child of one process
   does (a loader's worker whose data set runs a model, an evaluation on the side), and with copies of whole batches, which divided tensors become when they
   are used first; other rows are beyond its reach. */
static void make_whole(const struct value *values, const struct value *end) {
    for (; values < end; values++)
        if (value_is_list(values))
            make_whole(value_list(values)->begin, value_list(values)->end);
        else if (value_is_tensor(values) && tensor_is_marked(values->tensor))
            dispatch_client.memory(values->tensor, &(int64_t){0});
}

static void fallback_in_worker(const struct handle *handle, uint64_t key_set, struct stack *stack) {
    int count = operator_of(handle)->argument_count;
    lists_unshare(stack->end - count, stack->end);
    loans_return_operands(stack->end - count, stack->end);
    /* whatever the keys: what comes unboxed has left the mark of rows behind (direct.c) */
    make_whole(stack->end - count, stack->end);
    dispatch_kernel(handle, key_set & ~keys_ours(), stack);
}

static void fallback(void *functor, const struct handle *handle, uint64_t key_set, struct stack *stack) {
    if (shim_is_worker()) {
        fallback_in_worker(handle, key_set, stack);
        return;
    }
    struct operator *op = operator_of(handle);
    if (stack->end - stack->begin > op->argument_count) {
        fallback_on_shared_stack(handle, key_set, stack, op->argument_count);
        return;
    }
    key_set &= ~keys_ours();
    lists_unshare(stack->begin, stack->end);
    loans_return_operands(stack->begin, stack->end);
    /* Kernels that slice their tensors inside a parallel region do so on threads that do not have our exclusion (slow convolutions). */
    if (regions_is_helper()) {
        dispatch_run_opaque(op, handle, key_set, stack);
        return;
    }
    struct dispatch_call call = {op, handle, key_set, stack};
    RUNNING_SCOPE(op->name);
    dispatch_client.call(&call);
    RUNNING_ENDS;
    shim_run_signals(); /* at user level: below it our keys do not lead here */
}

/* ---- registration */

/* Zeros that are never freed, and are seen to be in use by who looks for leaks. 16 bytes' alignment. */
static void *for_ever(size_t bytes) {
    static _Alignas(16) char memory[1024];
    static size_t used;
    char *block = memory + used;
    used += (bytes + 15) / 16 * 16;
    if (used > sizeof memory)
        torch_unsupported("registration", "more than %zu bytes", sizeof memory);
    return block;
}

/* A std::string in either ABI holding a text of at most 15 characters; never freed. */
static void *string_make(const char *text, bool new_abi) {
    char *string = for_ever(64);
    size_t length = strlen(text);
    if (new_abi) {
        *(char **)string = string + 16;
        *(size_t *)(string + 8) = length;
        memcpy(string + 16, text, length);
    } else { /* copy-on-write: length, capacity, references before the characters; a count that never reaches zero */
        size_t *header = for_ever(64);
        header[0] = header[1] = length;
        header[2] = 1000;
        memcpy(header + 3, text, length);
        *(void **)string = header + 3;
    }
    return string;
}

/* A KernelFunction is zero but for the boxed function's address at +8, in every release; the handle that comes back would unregister when destroyed: kept. */
static void register_key(uint16_t key) {
    char kernel[128] = {0};
    *(void **)(kernel + 8) = (void *)fallback;
    void *kept = for_ever(256);
    bool new_abi = torch_functions.register_fallback_new_string != NULL;
    void *(*register_fallback)(void *, void *, uint16_t, void *, void *) =
        new_abi ? torch_functions.register_fallback_new_string : torch_functions.register_fallback_old_string;
    if (!register_fallback)
        torch_unsupported("registration", "no Dispatcher::registerFallback");
    register_fallback(kept, torch_functions.dispatcher(), key, kernel, string_make("accel-run", new_abi));
}

void dispatch_register(void) {
    register_key(torch_facts.key_shard);
    register_key(torch_facts.key_parameter);
    calibrate_table(torch_facts.key_shard, torch_facts.key_parameter, (void *)fallback);
    extractor_find();
}
