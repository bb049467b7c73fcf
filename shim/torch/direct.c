/*
 * Operators without a stack of boxed values. The dispatcher boxes the arguments for a fallback, and the kernel below takes them out again: 60 to 150 ns.
 * For operators that take two tensors and a number at most, and return one tensor, a function of ours stands beside the fallback in the operator's own
 * table (c10::KernelFunction: functor, boxed function, unboxed function). All their arguments are addresses, so that one function does for all: it hands
 * the registers on. What it cannot decide by itself goes on to the fallback, boxed by libtorch, through the key for parameters, whose row has none.
 *
 * Only a matter of speed: where the place is not what is expected, and for operators whose tables libtorch makes anew because a kernel is registered, all
 * is boxed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "../resolve.h"
#include "../shim.h"
#include "functions.h"

typedef void *value_kernel(struct tensor **result, void *functor, uint64_t key_set, const void *a, const void *b, const void *c);
typedef struct tensor **reference_kernel(void *functor, uint64_t key_set, const void *a, const void *b, const void *c);
typedef void *value_redispatch(struct tensor **result, uint64_t key_set, const void *a, const void *b, const void *c);
typedef struct tensor **reference_redispatch(uint64_t key_set, const void *a, const void *b, const void *c);

/* The functor of such a row: an object of libtorch's with counts that never reach zero, whatever their layout is. */
struct direct {
    void *vtable;
    uint32_t counts[4];
    struct operator *op;
    struct handle handle;
    void *redispatch;
    const char *kinds;
};

/* Arguments of at::_ops::X::redispatch after the key set, as they are spelled, and what each is: a tensor or a number. */
static const struct signature {
    const char *spelled, *kinds;
    bool is_in_place;
} signatures[] = {
    {"RKNS_6TensorE", "T", false},
    {"RKNS_6TensorES6_", "TT", false},
    {"RKNS_6TensorERKNS2_6ScalarE", "TS", false},
    {"RKNS_6TensorES6_RKNS2_6ScalarE", "TTS", false},
    {"RKNS_6TensorES6_S6_", "TTT", false},
    {"RNS_6TensorE", "T", true},
    {"RNS_6TensorERKS4_", "TT", true},
    {"RNS_6TensorERKNS2_6ScalarE", "TS", true},
    {"RNS_6TensorERKS4_RKNS2_6ScalarE", "TTS", true},
};

static bool is_usable; /* add.Tensor's row for the host has an unboxed function where it is expected, and ours has none */

/* The kernel below our keys, and its functor; NULL: it has no unboxed function. */
static void *kernel_below(const struct handle *handle, uint64_t *key_set, void **functor) {
    char *row = dispatch_row_below(handle, key_set);
    *functor = *(void **)(row - 8);
    return *(void **)(row + 8);
}

/* All divided, or single numbers: a whole tensor among them may have to be cut first. */
static bool are_alike(const struct direct_call *call) {
    for (int i = 0; i < call->count; i++)
        if (call->tensors[i] && !tensor_is_marked(call->tensors[i]) &&
            (tensor_dims(call->tensors[i]) || !tensor_is_plain(call->tensors[i])))
            return false;
    return true;
}

static struct direct_call call_of(const struct direct *direct, uint64_t key_set, const void *a, const void *b, const void *c) {
    const void *arguments[] = {a, b, c};
    struct direct_call call = {.op = direct->op, .count = (int)strlen(direct->kinds)};
    call.key_set = key_set & ~(torch_facts.bit_shard | torch_facts.bit_parameter);
    for (int i = 0; i < call.count; i++)
        call.tensors[i] = direct->kinds[i] == 'T' ? *(struct tensor *const *)arguments[i] : NULL;
    return call;
}

static bool begin(const struct direct *direct, struct direct_call *call, void **kernel, void **functor) {
    if (!are_alike(call) || shim_is_worker())
        return false;
    loans_return();
    *kernel = torch_functions.in_parallel_region() ? NULL : kernel_below(&direct->handle, &call->key_set, functor);
    return *kernel && dispatch_client.decide_direct(call);
}

static void *direct_value(struct tensor **result, struct direct *direct, uint64_t key_set, const void *a, const void *b, const void *c) {
    struct direct_call call = call_of(direct, key_set, a, b, c);
    void *kernel, *functor;
    if (!begin(direct, &call, &kernel, &functor))
        return ((value_redispatch *)direct->redispatch)(result, call.key_set | torch_facts.bit_parameter, a, b, c);
    OPAQUE_SCOPE;
    ((value_kernel *)kernel)(result, functor, call.key_set, a, b, c);
    dispatch_client.mark_direct(&call, *result);
    return result;
}

static struct tensor **direct_reference(struct direct *direct, uint64_t key_set, const void *a, const void *b, const void *c) {
    struct direct_call call = call_of(direct, key_set, a, b, c);
    void *kernel, *functor;
    if (!begin(direct, &call, &kernel, &functor))
        return ((reference_redispatch *)direct->redispatch)(call.key_set | torch_facts.bit_parameter, a, b, c);
    OPAQUE_SCOPE;
    struct tensor **result = ((reference_kernel *)kernel)(functor, call.key_set, a, b, c);
    dispatch_client.mark_direct(&call, *result);
    return result;
}

/* at::_ops::add__Tensor::redispatch(c10::DispatchKeySet, ...) */
static void *find_redispatch(const struct operator *op, const struct signature *signature) {
    char name[160], symbol[320];
    snprintf(name, sizeof name, "%s%s%s", op->short_name, *op->overload ? "_" : "", op->overload);
    int length =
        snprintf(symbol, sizeof symbol, "_ZN2at4_ops%zu%s10redispatchEN3c1014DispatchKeySetE%s", strlen(name), name, signature->spelled);
    return length < (int)sizeof symbol ? resolve_function("libtorch_cpu", symbol) : NULL;
}

static int result_count(const struct handle *handle) {
    char *begin = *(char **)(handle->definition + torch_facts.arguments + 24),
         *end = *(char **)(handle->definition + torch_facts.arguments + 32);
    return (int)((end - begin) / torch_facts.argument_bytes);
}

void direct_install(struct operator *op, const struct handle *handle) {
    char *row = dispatch_row(handle, torch_facts.key_shard);
    if (!is_usable || strncmp(op->name, "aten::", 6) || op->is_composite || op->is_out || result_count(handle) != 1 || *(void **)(row + 8))
        return;
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
        const struct signature *signature = &signatures[i];
        void *redispatch = (int)strlen(signature->kinds) == op->argument_count && signature->is_in_place == op->is_in_place
                               ? find_redispatch(op, signature)
                               : NULL;
        if (!redispatch)
            continue;
        struct direct *direct = calloc(1, sizeof *direct);
        *direct = (struct direct){.counts = {1u << 30, 1u << 30, 1u << 30, 1u << 30},
                                  .op = op,
                                  .handle = *handle,
                                  .redispatch = redispatch,
                                  .kinds = signature->kinds};
        __atomic_store_n((void **)(row - 8), direct, __ATOMIC_RELEASE); /* of no interest to the fallback */
        __atomic_store_n((void **)(row + 8), op->is_in_place ? (void *)direct_reference : (void *)direct_value, __ATOMIC_RELEASE);
        return;
    }
}

static bool is_of_libtorch(const void *function) {
    Dl_info info;
    return dladdr(function, &info) && info.dli_fname && strstr(info.dli_fname, "libtorch_cpu");
}

void direct_begin(void) {
    struct handle handle;
    void *functor;
    torch_functions.find_schema(&handle, torch_functions.dispatcher(), "aten::add", "Tensor");
    char *own = dispatch_row(&handle, torch_facts.key_shard);
    uint64_t key_set = torch_facts.plain_keys;
    void *kernel = torch_facts.table_stride >= 24 ? kernel_below(&handle, &key_set, &functor) : NULL;
    is_usable = kernel && is_of_libtorch(kernel) && !*(void **)(own - 8) && !*(void **)(own + 8);
    shim_log('d', "element-wise operators are called %s", is_usable ? "without boxing" : "boxed");
}
