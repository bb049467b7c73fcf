/* Lists among libtorch's values (c10::ListImpl): where the elements are, and how to make one. */
#include <stdlib.h>
#include <string.h>

#include "functions.h"

static struct value tensor_list_template; /* the result of a chunk: kept for ever */
static char int_list_type[16];            /* ListImpl::elementType of a list of ints */
static void *bool_list_type;              /* the first word of that of a list of bools; NULL: not found */

/* The vector within a ListImpl: the triple that spans two tensor values. */
void lists_begin(struct tensor *tensor) {
    struct value equal = TORCH_CALL("aten::equal", "", value_tensor(tensor), value_tensor(tensor));
    torch_facts.tag_bool = equal.tag;
    tensor_list_template = TORCH_CALL("aten::chunk", "", value_tensor(tensor), value_int(2), value_int(0));
    torch_facts.tag_list = tensor_list_template.tag;
    for (long at = 8; at < 64 && !torch_facts.list; at += 8) {
        struct stack *vector = (struct stack *)((char *)tensor_list_template.pointer + at);
        if (vector->begin && (char *)vector->end - (char *)vector->begin == 32 && vector->capacity >= vector->end &&
            vector->begin->tag == TAG_TENSOR)
            torch_facts.list = at;
    }
    if (!torch_facts.list)
        torch_unsupported("lists", "no vector in the result of aten::chunk");
}

static char *argument_at(const char *name, int position) {
    struct handle handle;
    torch_functions.find_schema(&handle, torch_functions.dispatcher(), name, "");
    return *(char **)(handle.definition + torch_facts.arguments) + position * torch_facts.argument_bytes;
}

/* A list of ints to copy the element type from: the default of max_pool2d's dilation (int[2] dilation=1) in its schema. */
static void find_int_list(void) {
    char *argument = argument_at("aten::max_pool2d", 4);
    for (long at = 0; at + 16 <= torch_facts.argument_bytes; at += 8) {
        struct value *value = (struct value *)(argument + at);
        void *begin, *end;
        if (value->tag != torch_facts.tag_list || !peek_word((char *)value->pointer + torch_facts.list, &begin) ||
            !peek_word((char *)value->pointer + torch_facts.list + 8, &end))
            continue;
        struct value *elements = begin;
        if ((char *)end - (char *)begin == 32 && elements[0].tag == TAG_INT && elements[0].integer == 1 && elements[1].integer == 1) {
            memcpy(int_list_type, (char *)value->pointer + torch_facts.list + 24, sizeof int_list_type);
            return;
        }
    }
    torch_unsupported("lists", "no default list of ints in the schema of aten::max_pool2d");
}

/* No schema has a list of bools as a default. But the type of that argument, a list's, names the elements' type, which is known, and so tells where another
   argument's type, that of bool[3] output_mask, names its own. */
static void find_bool_list(void) {
    enum { TYPE_BYTES = 96 };
    char *ints = argument_at("aten::max_pool2d", 4), *bools = argument_at("aten::native_batch_norm_backward", 9);
    for (long at = 0; at < torch_facts.argument_bytes; at += 8) {
        char *int_list = *(char **)(ints + at), *bool_list = *(char **)(bools + at);
        void *element;
        for (long inside = 0; inside < TYPE_BYTES && peek_word(int_list + inside, &element); inside += 8)
            if (element == *(void **)int_list_type && peek_word(bool_list + inside, &bool_list_type) && bool_list_type)
                return;
    }
    bool_list_type = NULL;
}

void lists_find_types(void) {
    find_int_list();
    find_bool_list();
}

/* A ListImpl of our own: header (vtable, counts of a fresh object) of the template, a vector of ours, the element type. Freed by libtorch with operator delete,
   which is free() unless the program replaces both. */
static struct value list_make(size_t count, const void *element_type) {
    char *list = calloc(1, (size_t)torch_facts.list + 24 + 16);
    memcpy(list, tensor_list_template.pointer, (size_t)torch_facts.list);
    struct stack *vector = (struct stack *)(list + torch_facts.list);
    if (count)
        vector->begin = malloc(count * sizeof *vector->begin);
    vector->end = vector->capacity = vector->begin + count;
    memcpy(list + torch_facts.list + 24, element_type,
           8); /* the pointer without its owner: a copied owner that is not counted would free the type */
    return (struct value){.pointer = list, .tag = torch_facts.tag_list};
}

static bool has_tensors_alone(const struct stack *list) {
    for (const struct value *element = list->begin; element < list->end; element++)
        if (!value_is_tensor(element) && element->tag != TAG_NONE)
            return false;
    return list->begin < list->end;
}

struct value value_list_copy(const struct value *shared) {
    const struct stack *from = value_list(shared);
    size_t count = (size_t)(from->end - from->begin);
    struct value list = list_make(count, (char *)shared->pointer + torch_facts.list + 24);
    for (size_t i = 0; i < count; i++) {
        if (value_is_tensor(&from->begin[i]))
            tensor_retain(from->begin[i].tensor);
        value_list(&list)->begin[i] = from->begin[i];
    }
    return list;
}

void lists_unshare(struct value *values, const struct value *end) {
    for (struct value *value = values; value < end; value++)
        if (value_is_list(value) && tensor_owners(value->pointer) > 1 && has_tensors_alone(value_list(value)))
            value_replace(value, value_list_copy(value));
}

struct value value_int_list(const int64_t *integers, size_t count) {
    struct value list = list_make(count, int_list_type);
    for (size_t i = 0; i < count; i++)
        value_list(&list)->begin[i] = value_int(integers[i]);
    return list;
}

bool value_bool_list(const bool *flags, size_t count, struct value *list) {
    if (!bool_list_type)
        return false;
    *list = list_make(count, &bool_list_type);
    for (size_t i = 0; i < count; i++)
        value_list(list)->begin[i] = value_bool(flags[i]);
    return true;
}

struct value value_tensor_list(struct tensor *const *tensors, size_t count) {
    struct value list = list_make(count, (char *)tensor_list_template.pointer + torch_facts.list + 24);
    for (size_t i = 0; i < count; i++) {
        tensor_retain(tensors[i]);
        value_list(&list)->begin[i] = value_tensor(tensors[i]);
    }
    return list;
}
