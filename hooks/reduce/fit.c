/*
 * Gradients that the program gives, and their sizes. The engine compares what a rank has with a rank's rows: a gradient that has, by chance, as many rows as
 * this rank would pass, where one process throws. So the sizes of the whole batch are compared first, as the engine does (validate_outputs): what is as large
 * passes, what is expanded is summed, all else is an error. Every rank decides alike.
 */
#include <stdio.h>
#include <stdlib.h>

#include "reduce.h"

enum { TEXT_CHARS = 640, SIZES_CHARS = 22 * TORCH_DIMS_MAX };

static struct fit_size size_of(struct tensor *tensor) {
    struct fit_size size = {.dims = FIT_ANY};
    const struct record_told *told = record_told(tensor);
    if (!told && tensor_dims(tensor) > TORCH_DIMS_MAX)
        return size;
    size.dims = told ? told->dims : tensor_dims(tensor);
    for (int dim = 0; dim < size.dims; dim++)
        size.sizes[dim] = told ? told->sizes[dim] : tensor_size(tensor, dim);
    return size;
}

struct fit_size fit_size_of(struct tensor *tensor, const struct record *record) {
    return record->kind == RECORD_SHARD ? size_of(tensor) : (struct fit_size){.dims = FIT_ANY};
}

static bool is_same(const struct fit_size *one, const struct fit_size *other) {
    return one->dims == other->dims && !memcmp(one->sizes, other->sizes, (size_t)one->dims * sizeof *one->sizes);
}

/* c10's is_expandable_to. */
static bool is_expanded(const struct fit_size *size, const struct fit_size *gradient) {
    int more = gradient->dims - size->dims;
    bool is_so = more >= 0;
    for (int dim = 0; is_so && dim < size->dims; dim++)
        is_so = size->sizes[dim] == 1 || size->sizes[dim] == gradient->sizes[dim + more];
    return is_so;
}

static void write_size(char *text, const struct fit_size *size) {
    size_t used = 1;
    strcpy(text, "[");
    for (int dim = 0; dim < size->dims; dim++)
        used += (size_t)snprintf(text + used, SIZES_CHARS - used, "%s%lld", dim ? ", " : "", (long long)size->sizes[dim]);
    strcat(text, "]");
}

__attribute__((noreturn)) static void refuse(void *node, size_t index, const struct fit_size *size, const struct fit_size *gradient) {
    char text[2 * SIZES_CHARS + TEXT_CHARS], have[SIZES_CHARS + 2], wanted[SIZES_CHARS + 2], who[TEXT_CHARS / 2] = "";
    char *class = node ? virtual_class_shown(node) : NULL;
    write_size(have, gradient);
    write_size(wanted, size);
    bool is_shown = class && !strstr(class, "PyNode"); /* the one class of all of Python's functions */
    if (node)
        snprintf(who, sizeof who, "Function%s%s returned an ", is_shown ? " " : "", is_shown ? class : "");
    snprintf(text, sizeof text, "%sinvalid gradient at index %zu - got %s but expected shape compatible with %s", who, index, have, wanted);
    free(class);
    shim_throw("validate_outputs", text);
}

struct tensor *fit_summed(struct tensor *gradient, const struct fit_size *size, void *node, size_t index) {
    if (gradient == torch_facts.undefined || size->dims == FIT_ANY)
        return gradient;
    struct fit_size given = size_of(gradient);
    if (given.dims == FIT_ANY || is_same(size, &given))
        return gradient;
    if (!is_expanded(size, &given)) {
        tensor_release(gradient);
        refuse(node, index, size, &given);
    }
    struct tensor *whole = dispatch_client.whole(gradient);
    tensor_release(gradient);
    struct value sum = TORCH_CALL("aten::sum_to_size", "", value_tensor(whole), value_int_list(size->sizes, (size_t)size->dims));
    tensor_release(whole);
    return sum.tensor;
}

struct tensor *fit_exact(struct tensor *gradient, const struct fit_size *size) {
    if (gradient == torch_facts.undefined || size->dims == FIT_ANY)
        return gradient;
    struct fit_size given = size_of(gradient);
    if (given.dims == FIT_ANY || is_same(size, &given))
        return gradient;
    struct tensor *whole = dispatch_client.whole(gradient);
    struct tensor *other = TORCH_CALL("aten::unsqueeze", "", value_tensor(whole), value_int(0)).tensor;
    tensor_release(whole);
    tensor_release(gradient);
    record_clear(other);
    return other;
}
