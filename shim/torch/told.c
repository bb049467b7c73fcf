/*
 * Two views of a size: what the program asks of a divided tensor is answered with the whole batch's, what libtorch asks below user level with this rank's.
 * Divided tensors have the policy CustomSizes (record.c), by which libtorch asks the virtual functions that are hooked here; parts of sums have it, too, but
 * only where they begin differs.
 */
#include "../shim.h"
#include "functions.h"

static bool is_asked_by_program(struct tensor *tensor) {
    return (shim_active() || shim_is_worker()) && tensor_is_marked(tensor) && !dispatch_is_opaque() && !regions_is_helper();
}

/* NULL: answer with the local truth. */
static const struct record_told *to_show(struct tensor *tensor) {
    return is_asked_by_program(tensor) ? record_told(tensor) : NULL;
}

struct sizes hook_sizes_custom(struct tensor *tensor) {
    const struct record_told *told = to_show(tensor);
    return told ? (struct sizes){told->sizes, (size_t)told->dims} : ORIGINAL(sizes_custom)(tensor);
}

struct sizes hook_sym_sizes_custom(struct tensor *tensor) { /* a SymInt that is not negative is its integer */
    const struct record_told *told = to_show(tensor);
    return told ? (struct sizes){told->sizes, (size_t)told->dims} : ORIGINAL(sym_sizes_custom)(tensor);
}

struct sizes hook_strides_custom(struct tensor *tensor) {
    const struct record_told *told = to_show(tensor);
    return told ? (struct sizes){told->strides, (size_t)told->dims} : ORIGINAL(strides_custom)(tensor);
}

struct sizes hook_sym_strides_custom(struct tensor *tensor) {
    const struct record_told *told = to_show(tensor);
    return told ? (struct sizes){told->strides, (size_t)told->dims} : ORIGINAL(sym_strides_custom)(tensor);
}

static int64_t offset_of(struct tensor *tensor) {
    struct record record = record_get(tensor);
    return layout_told_offset(tensor, &record);
}

int64_t hook_storage_offset_custom(struct tensor *tensor) {
    return is_asked_by_program(tensor) ? offset_of(tensor) : ORIGINAL(storage_offset_custom)(tensor);
}

void *hook_sym_storage_offset_custom(int64_t *result, struct tensor *tensor) {
    if (!is_asked_by_program(tensor))
        return ORIGINAL(sym_storage_offset_custom)(result, tensor);
    *result = offset_of(tensor);
    return result;
}

static int64_t elements_of(const struct record_told *told) {
    int64_t elements = 1;
    for (int i = 0; i < told->dims; i++)
        elements *= told->sizes[i];
    return elements;
}

int64_t hook_numel_custom(struct tensor *tensor) {
    const struct record_told *told = to_show(tensor);
    return told ? elements_of(told) : ORIGINAL(numel_custom)(tensor);
}

void *hook_sym_numel_custom(int64_t *result, struct tensor *tensor) {
    const struct record_told *told = to_show(tensor);
    if (!told)
        return ORIGINAL(sym_numel_custom)(result, tensor);
    *result = elements_of(told);
    return result;
}
