/*
 * Operators without a stack of boxed values. The dispatcher boxes the arguments for a fallback, and the kernel below takes them out again: 60 to 150 ns, and
 * more where they are lists. For operators that take a few words and return one tensor, a function of ours stands beside the fallback in the operator's own
 * table (c10::KernelFunction: functor, boxed function, unboxed function, unboxed function for symbolic integers). Addresses, integers and lists of integers
 * all come in registers, the last one perhaps on the stack: one function does for all, and hands the words on. What it cannot decide by itself goes on to
 * the fallback, boxed by libtorch, through the other one of our two keys, whose row has no such function: a call that has a parameter among its arguments
 * comes through the key for parameters, so that is where a layer's stands.
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

enum { WORDS = 4 }; /* more than an operator has are passed and read all the same: what happens to lie there */
#define WORDS_OF(words) (words)[0], (words)[1], (words)[2], (words)[3]
typedef const void *word;
typedef void *value_kernel(struct tensor **result, void *functor, uint64_t key_set, word a, word b, word c, word d);
typedef struct tensor **reference_kernel(void *functor, uint64_t key_set, word a, word b, word c, word d);
typedef void *value_redispatch(struct tensor **result, uint64_t key_set, word a, word b, word c, word d);
typedef struct tensor **reference_redispatch(uint64_t key_set, word a, word b, word c, word d);

/* The functor of such a row: an object of libtorch's with counts that never reach zero, whatever their layout is. */
struct direct {
    void *vtable;
    uint32_t counts[4];
    struct operator *op;
    struct handle handle;
    void *redispatch;
    uint64_t way_out; /* the key to the fallback */
    const char *kinds;
};

/* Arguments of at::_ops::X::redispatch after the key set, as they are spelled, and what each is:
     T a tensor   O an optional one, std::optional   o c10::optional, which libtorch has in 1.13 and 2.1, no more in 2.5
     D an optional type that is not given, std::optional   d c10::optional   - of no interest: a flag
     i an integer   L a list of them: two words   s a number, c10::Scalar */
static const struct signature {
    const char *spelled, *kinds;
    bool is_in_place;
} signatures[] = {
    {"RKNS_6TensorE", "T", false},
    {"RKNS_6TensorES6_", "TT", false},
    {"RKNS_6TensorERKNS2_6ScalarE", "Ts", false},
    {"RKNS_6TensorES6_RKNS2_6ScalarE", "TTs", false},
    {"RKNS_6TensorES6_S6_", "TTT", false},
    {"RNS_6TensorE", "T", true},
    {"RNS_6TensorERKS4_", "TT", true},
    {"RNS_6TensorERKNS2_6ScalarE", "Ts", true},
    {"RNS_6TensorERKS4_RKNS2_6ScalarE", "TTs", true},
    {"RKNS_6TensorENS2_8ArrayRefINS2_6SymIntEEE", "TL", false},
    {"RKNS_6TensorENS2_8ArrayRefINS2_6SymIntEEEb", "TL-", false},
    {"RKNS_6TensorENS2_8ArrayRefIlEE", "TL", false},
    {"RKNS_6TensorEl", "Ti", false},
    {"RKNS_6TensorEll", "Tii", false},
    {"RKNS_6TensorElb", "Ti-", false},
    {"RKNS_6TensorESt8optionalINS2_10ScalarTypeEE", "TD", false},
    {"RKNS_6TensorENS2_8optionalINS2_10ScalarTypeEEE", "Td", false},
    {"RKNS_6TensorElSt8optionalINS2_10ScalarTypeEE", "TiD", false},
    {"RKNS_6TensorElNS2_8optionalINS2_10ScalarTypeEEE", "Tid", false},
    {"RKNS_6TensorES6_RKSt8optionalIS4_E", "TTO", false},
    {"RKNS_6TensorES6_RKNS2_8optionalIS4_EE", "TTo", false},
};

/* What calibration found: add.Tensor's row for the host has an unboxed function where it is expected, and ours has none; view's has one for symbolic
   integers, and ours has none. */
static bool is_usable, has_symbolic;
enum { UNBOXED = 8, SYMBOLIC = 16 }; /* from a row's address on */

/* What it is, then a double or an integer, aligned as a complex number is. Proven by multiplying with two that we make. */
struct scalar {
    uint32_t kind;
    union {
        double real;
        int64_t integer;
    } value __attribute__((aligned(16)));
};
enum { SCALAR_REAL = 0, SCALAR_INTEGER = 1 };
static bool has_scalars;

/* The kernel below our keys, and its functor; NULL: it has no unboxed function. Lists of integers look the same to both. */
static void *kernel_below(const struct handle *handle, uint64_t *key_set, void **functor) {
    char *row = dispatch_row_below(handle, key_set);
    *functor = *(void **)(row - 8);
    void *unboxed = *(void **)(row + UNBOXED);
    return unboxed || !has_symbolic ? unboxed : *(void **)(row + SYMBOLIC);
}

struct invocation {
    struct direct_call call;
    word words[WORDS];
    int64_t integers[TORCH_DIMS_MAX]; /* a copy of the list */
    int list;                         /* its first word; 0: none */
};

/* False: too long, or symbolic. */
static bool copy_list(struct invocation *invocation, int first, struct value *value) {
    const int64_t *integers = invocation->words[first];
    uintptr_t count = (uintptr_t)invocation->words[first + 1];
    if (count > TORCH_DIMS_MAX)
        return false;
    for (uintptr_t i = 0; i < count; i++) {
        if (integers[i] < INT64_MIN / 2)
            return false;
        invocation->integers[i] = integers[i];
    }
    invocation->list = first;
    *value = (struct value){.integers = invocation->integers, .tag = TAG_INTS, .count = (uint32_t)count};
    return true;
}

/* c10::optional has the flag before the value, std::optional behind it. */
static struct value optional_tensor(const void *optional, bool is_flag_first) {
    const struct tensor *const *words = optional;
    bool has_value = *((const char *)optional + (is_flag_first ? 0 : 8));
    return has_value ? value_tensor((struct tensor *)words[is_flag_first]) : value_none();
}

/* A type of one byte and its flag, in a register. */
static bool has_type(word one, bool is_flag_first) {
    return (uintptr_t)one >> (is_flag_first ? 0 : 8) & 1;
}

/* False: a flag, complex or symbolic. */
static bool read_scalar(const struct scalar *scalar, struct value *value) {
    if (scalar->kind == SCALAR_REAL)
        *value = value_real(scalar->value.real);
    else if (scalar->kind == SCALAR_INTEGER)
        *value = value_int(scalar->value.integer);
    return scalar->kind <= SCALAR_INTEGER;
}

/* The arguments; false: a list that cannot be copied, a number that cannot be read, or a type that is given. */
static bool read_words(struct invocation *invocation, const char *kinds) {
    struct value *value = invocation->call.values;
    for (int at = 0; *kinds; kinds++, at++, value++) {
        word one = invocation->words[at];
        switch (*kinds) {
        case 'T':
            *value = value_tensor(*(struct tensor *const *)one);
            break;
        case 'O':
        case 'o':
            *value = optional_tensor(one, *kinds == 'o');
            break;
        case 'i':
            *value = value_int((int64_t)(intptr_t)one);
            break;
        case 's':
            if (!has_scalars || !read_scalar(one, value))
                return false;
            break;
        case 'D':
        case 'd':
            if (has_type(one, *kinds == 'd'))
                return false;
            *value = value_none();
            break;
        default:
            *value = value_none();
        }
        if (*kinds == 'L' && !copy_list(invocation, at++, value))
            return false;
    }
    invocation->call.count = (int)(value - invocation->call.values);
    return true;
}

/* Fills it in, field by field: zeros that are written over cost more than all else here. False: for the fallback. */
static bool begin(struct invocation *invocation, const struct direct *direct, uint64_t key_set, const word *words, void **kernel,
                  void **functor) {
    struct direct_call *call = &invocation->call;
    call->op = direct->op;
    call->key_set = key_set & ~keys_ours();
    memcpy(invocation->words, words, sizeof invocation->words);
    invocation->list = 0;
    call->lent = 0;
    if (!read_words(invocation, direct->kinds) || shim_is_worker())
        return false;
    loans_return_operands(call->values, call->values + call->count);
    *kernel = regions_is_helper() ? NULL : kernel_below(&direct->handle, &call->key_set, functor);
    if (!*kernel || !dispatch_client.decide_direct(call))
        return false;
    if (invocation->list)
        invocation->words[invocation->list] = invocation->integers;
    for (unsigned lent = call->lent; lent; lent &= lent - 1) /* tensors come before lists: a value's number is its word's */
        invocation->words[__builtin_ctz(lent)] = &call->values[__builtin_ctz(lent)].tensor;
    return true;
}

static void release_lent(struct invocation *invocation) {
    for (unsigned lent = invocation->call.lent; lent; lent &= lent - 1)
        rows_give_back(invocation->call.values[__builtin_ctz(lent)].tensor);
}

#define INVOCATION __attribute__((cleanup(release_lent))) struct invocation invocation

static void *direct_value(struct tensor **result, struct direct *direct, uint64_t key_set, word a, word b, word c, word d) {
    INVOCATION;
    void *kernel, *functor;
    if (!begin(&invocation, direct, key_set, (word[]){a, b, c, d}, &kernel, &functor))
        return ((value_redispatch *)direct->redispatch)(result, (key_set & ~keys_ours()) | direct->way_out, a, b, c, d);
    OPAQUE_SCOPE;
    RUNNING_SCOPE(direct->op->name);
    ((value_kernel *)kernel)(result, functor, invocation.call.key_set, WORDS_OF(invocation.words));
    RUNNING_ENDS;
    dispatch_client.mark_direct(&invocation.call, *result);
    return result;
}

static struct tensor **direct_reference(struct direct *direct, uint64_t key_set, word a, word b, word c, word d) {
    INVOCATION;
    void *kernel, *functor;
    if (!begin(&invocation, direct, key_set, (word[]){a, b, c, d}, &kernel, &functor))
        return ((reference_redispatch *)direct->redispatch)((key_set & ~keys_ours()) | direct->way_out, a, b, c, d);
    OPAQUE_SCOPE;
    RUNNING_SCOPE(direct->op->name);
    struct tensor **result = ((reference_kernel *)kernel)(functor, invocation.call.key_set, WORDS_OF(invocation.words));
    RUNNING_ENDS;
    dispatch_client.mark_direct(&invocation.call, *result);
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

/* Which of them is the operator's; NULL: none. */
static const struct signature *find_signature(const struct operator *op, void **redispatch) {
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
        const struct signature *signature = &signatures[i];
        if ((int)strlen(signature->kinds) != op->argument_count || signature->is_in_place != op->is_in_place)
            continue;
        *redispatch = find_redispatch(op, signature);
        if (*redispatch)
            return signature;
    }
    return NULL;
}

/* What is of no interest here is none for who compares calls, boxed or not. */
static uint64_t without_interest(const struct signature *signature) {
    uint64_t places = 0;
    for (int i = 0; signature->kinds[i]; i++)
        places |= (uint64_t)(signature->kinds[i] == '-') << i;
    return places;
}

void direct_install(struct operator *op, const struct handle *handle) {
    void *redispatch;
    if (!is_usable || strncmp(op->name, "aten::", 6) || op->is_out || op->result_count != 1)
        return;
    const struct signature *signature = find_signature(op, &redispatch);
    bool is_layer = signature && strpbrk(signature->kinds, "Oo");
    bool is_symbolic = signature && strstr(signature->spelled, "SymInt");
    char *row = dispatch_row(handle, is_layer ? torch_facts.key_parameter : torch_facts.key_shard);
    void **place = (void **)(row + (is_symbolic ? SYMBOLIC : UNBOXED));
    if (!signature || (is_symbolic && !has_symbolic) || *place)
        return;
    op->without_interest = without_interest(signature);
    struct direct *direct = calloc(1, sizeof *direct);
    *direct = (struct direct){.counts = {1u << 30, 1u << 30, 1u << 30, 1u << 30},
                              .op = op,
                              .handle = *handle,
                              .redispatch = redispatch,
                              .way_out = is_layer ? torch_facts.bit_shard : torch_facts.bit_parameter,
                              .kinds = signature->kinds};
    __atomic_store_n((void **)(row - 8), direct, __ATOMIC_RELEASE); /* of no interest to the fallback */
    __atomic_store_n(place, op->is_in_place ? (void *)direct_reference : (void *)direct_value, __ATOMIC_RELEASE);
}

bool torch_has_function(const void *function) {
    return function && !strncmp(shim_file_at(function), "libtorch_cpu.", 13);
}

/* Is the place where an operator's kernel for the host has an unboxed function of libtorch's empty in our own row? */
static bool has_place(const char *name, const char *overload, long place) {
    struct handle handle;
    uint64_t key_set = torch_facts.plain_keys;
    torch_functions.find_schema(&handle, torch_functions.dispatcher(), name, overload);
    char *own = dispatch_row(&handle, torch_facts.key_shard), *row = dispatch_row_below(&handle, &key_set);
    return torch_facts.table_stride >= place + 16 && torch_has_function(*(void **)(row + place)) && !*(void **)(own - 8) &&
           !*(void **)(own + place);
}

typedef void *multiply(struct tensor **result, struct tensor *const *tensor, const struct scalar *scalar);

static bool multiplies_by(multiply *function, const struct scalar *scalar, double expected) {
    struct value one =
        TORCH_CALL("aten::scalar_tensor", "", value_real(1), value_int(DTYPE_FLOAT64), value_none(), value_none(), value_none());
    struct tensor *product = NULL;
    function(&product, &one.tensor, scalar);
    bool is_right = *(double *)tensor_data(product) == expected;
    tensor_release(product);
    value_drop(one);
    return is_right;
}

static bool can_read_scalars(void) {
    multiply *function = resolve_function("libtorch_cpu", "_ZN2at4_ops10mul_Scalar4callERKNS_6TensorERKN3c106ScalarE");
    struct scalar real = {.kind = SCALAR_REAL, .value.real = 2.5}, integer = {.kind = SCALAR_INTEGER, .value.integer = 3};
    return function && multiplies_by(function, &real, 2.5) && multiplies_by(function, &integer, 3);
}

void direct_begin(void) {
    has_scalars = can_read_scalars();
    is_usable = has_place("aten::add", "Tensor", UNBOXED);
    has_symbolic = is_usable && has_place("aten::view", "", SYMBOLIC);
    shim_log('d', "operators on divided rows are called %s%s%s", is_usable ? "without boxing" : "boxed",
             is_usable && !has_symbolic ? ", but for those with lists of sizes" : "", is_usable && !has_scalars ? ", or with numbers" : "");
}
