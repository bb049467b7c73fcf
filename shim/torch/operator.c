/* Operators: what we know of each, and our own calls to them. */
#include <stdlib.h>

#include "../shim.h"
#include "functions.h"

enum { OPERATORS_MAX = 8192 }; /* libtorch 2.15 has about 3500 */

static _Atomic(struct operator *) operators[OPERATORS_MAX];

static bool name_is_in_place(const char *name) {
    size_t length = strlen(name);
    if (!strncmp(name, "__i", 3)) /* __iadd__, __iand__... */
        return true;
    return length > 1 && name[length - 1] == '_' && name[length - 2] != '_';
}

static const char *alias_of_argument(const char *arguments, int index) {
    return torch_facts.alias ? *(char *const *)(arguments + index * torch_facts.argument_bytes + torch_facts.alias) : NULL;
}

static bool some_may_alias(const char *arguments, int count) {
    for (int i = 0; i < count; i++)
        if (alias_of_argument(arguments, i))
            return true;
    return false;
}

/* Names do not tell: max.dim_max, topk.values and xlogy.OutTensor write, too. What a method of libtorch's writes (retain_grad, set_data) is no value; operators
   of the program's own may write to their first argument, whatever they are called. */
static uint64_t written_arguments(const char *arguments, int count, bool is_in_place, bool is_of_libtorch) {
    uint64_t written = 0;
    for (int i = 0; i < count && i < 64; i++) {
        const char *alias = alias_of_argument(arguments, i);
        if (alias && alias[torch_facts.alias_write])
            written |= 1ull << i;
    }
    return is_in_place ? written | 1 : is_of_libtorch ? written & ~1ull : written;
}

static int count_of(const struct vector *arguments) {
    return (int)((arguments->end - arguments->begin) / torch_facts.argument_bytes);
}

static struct operator *operator_new(const struct handle *handle) {
    struct operator *op = calloc(1, sizeof *op);
    op->definition = handle->definition;
    op->name = strdup(*(char **)handle->definition); /* an operator of the program's own ends with its library */
    op->short_name = strncmp(op->name, "aten::", 6) ? op->name : op->name + 6;
    op->overload = strdup(*(char **)(handle->definition + torch_facts.overload));
    const struct vector *arguments = (const struct vector *)(handle->definition + torch_facts.arguments); /* the results' follows */
    op->argument_count = count_of(&arguments[0]);
    op->result_count = count_of(&arguments[1]);
    op->is_composite = torch_functions.has_kernel_for_key(handle->definition, torch_facts.key_composite);
    op->is_in_place = name_is_in_place(op->short_name);
    op->written = written_arguments(arguments->begin, op->argument_count, op->is_in_place, op->short_name != op->name);
    op->is_out = op->written && !op->is_in_place;
    op->may_alias = some_may_alias(arguments->begin, op->argument_count);
    dispatch_client.operator_met(op);
    if (op->only_records)
        extractor_skip_parameters(op);
    if (op->suits_direct)
        direct_install(op, handle);
    return op;
}

/* One of the program's own may have ended (torch.library, custom_op), and another one's definition stand at its address. */
static bool is_still(const struct operator *op) {
    if (op->short_name != op->name)
        return true;
    const char *definition = op->definition;
    const struct vector *arguments = (const struct vector *)(definition + torch_facts.arguments);
    return !strcmp(op->name, *(char *const *)definition) && !strcmp(op->overload, *(char *const *)(definition + torch_facts.overload)) &&
           op->argument_count == count_of(&arguments[0]) && op->result_count == count_of(&arguments[1]) &&
           op->written == written_arguments(arguments->begin, op->argument_count, op->is_in_place, false) &&
           op->may_alias == some_may_alias(arguments->begin, op->argument_count);
}

/* Open addressing; places are filled once, and filled again where a definition has ended. What stood there, or has lost a race, is left behind: it may stand in
   the operator's table (direct_install). */
struct operator *operator_of(const struct handle *handle) {
    unsigned home = (unsigned)(((uintptr_t)handle->definition >> 5) * 2654435761u) % OPERATORS_MAX, place = home;
    for (;;) {
        struct operator *op = atomic_load_explicit(&operators[place], memory_order_acquire);
        bool is_its = op && op->definition == handle->definition;
        if (is_its && is_still(op))
            return op;
        if (!op || is_its) {
            struct operator *fresh = operator_new(handle);
            if (atomic_compare_exchange_strong(&operators[place], &op, fresh))
                return fresh;
            continue;
        }
        place = (place + 1) % OPERATORS_MAX;
        if (place == home)
            torch_unsupported("operators", "more than %d of them are used", OPERATORS_MAX);
    }
}

static uint64_t value_key_set(const struct value *value) {
    if (value_is_tensor(value))
        return *tensor_key_set(value->tensor);
    if (!torch_facts.list || !value_is_list(value))
        return 0;
    uint64_t keys = 0;
    struct stack *list = value_list(value);
    for (struct value *element = list->begin; element < list->end; element++)
        if (value_is_tensor(element))
            keys |= *tensor_key_set(element->tensor);
    return keys;
}

void stack_free(struct stack *stack) {
    for (struct value *value = stack->begin; value < stack->end; value++)
        value_drop(*value);
    free(stack->begin);
}

static void reference_resolve(struct operator_reference *reference) {
    if (__atomic_load_n(&reference->handle.definition, __ATOMIC_ACQUIRE))
        return;
    struct handle handle;
    torch_functions.find_schema(&handle, torch_functions.dispatcher(), reference->name, reference->overload);
    reference->handle.entry = handle.entry;
    __atomic_store_n(&reference->handle.definition, handle.definition, __ATOMIC_RELEASE);
}

int operator_argument_count(struct operator_reference *reference) {
    reference_resolve(reference);
    return operator_of(&reference->handle)->argument_count;
}

struct value operator_call(struct operator_reference *reference, int count, const struct value *arguments, struct value *more,
                           int more_count) {
    reference_resolve(reference);
    __attribute__((cleanup(stack_free))) struct stack stack;
    stack.begin = malloc(24 * sizeof(struct value));
    stack.capacity = stack.begin + 24;
    stack.end = stack.begin + count;
    uint64_t keys = 0;
    for (int i = 0; i < count; i++) {
        stack.begin[i] = arguments[i];
        if (arguments[i].tag == TAG_TENSOR)
            tensor_retain(arguments[i].tensor);
        keys |= value_key_set(&arguments[i]);
    }
    OPAQUE_SCOPE;
    uint64_t *thread = dispatch_thread_keys();
    keys |= thread[0] ^ torch_facts.default_included;
    keys &= ~(thread[1] ^ torch_facts.default_excluded) & ~keys_ours();
    dispatch_kernel(&reference->handle, dispatch_without_fallthrough(&reference->handle, keys), &stack);
    struct value first = stack.end > stack.begin ? stack.begin[0] : value_none();
    for (struct value *result = stack.begin + 1; result < stack.end; result++) {
        if (result - stack.begin <= more_count)
            more[result - stack.begin - 1] = *result;
        else
            value_drop(*result);
    }
    stack.end = stack.begin;
    return first;
}
