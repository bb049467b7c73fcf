/*
 * This rank's rows of a tensor that is whole. Where dimensions are merged before the rows (time and rows in one), they lie in pieces, one for each index of
 * those: the tensor is looked at with the divided dimension taken apart, which is always a view.
 */
#include "../shim.h"
#include "functions.h"

/* The divided dimension becomes two, at dim and dim + 1: outer, and what follows. Borrowed in, owned out. */
static struct tensor *take_apart(struct tensor *tensor, int64_t outer, int dim) {
    struct sizes sizes = tensor_sizes(tensor);
    int64_t shape[TORCH_DIMS_MAX + 1];
    for (size_t i = 0; i < sizes.count; i++)
        shape[(int)i > dim ? i + 1 : i] = sizes.data[i];
    shape[dim] = outer;
    shape[dim + 1] = sizes.data[dim] / outer;
    return TORCH_CALL("aten::view", "", value_tensor(tensor), value_int_list(shape, sizes.count + 1)).tensor;
}

/* What is combined with rows in pieces has no more dimensions than what comes of it, which could not be divided (record_set). */
static void refuse_many_dims(struct tensor *whole) {
    if (tensor_dims(whole) > TORCH_DIMS_MAX)
        shim_problem("AR-SHARD-KIND", "Leave out dimensions of one element before, e.g. x.squeeze(), or run with -n 1.",
                     "a tensor of more than %d dimensions is combined with divided rows", TORCH_DIMS_MAX);
}

static struct tensor *slice(struct tensor *tensor, int dim, const struct record *record) { /* half of what the composite narrow costs */
    int64_t first = record->first * record->inner;
    return TORCH_CALL("aten::slice", "Tensor", value_tensor(tensor), value_int(dim), value_int(first),
                      value_int(first + record->rows * record->inner), value_int(1))
        .tensor;
}

struct tensor *rows_take(struct tensor *whole, const struct record *record, int dim) {
    if (record->outer == 1)
        return slice(whole, dim, record);
    refuse_many_dims(whole);
    struct value apart = value_tensor(take_apart(whole, record->outer, dim));
    struct value pieces = value_tensor(slice(apart.tensor, dim + 1, record));
    value_drop(apart);
    struct value copy = TORCH_CALL("aten::clone", "", pieces, value_none()); /* keeps the order of dimensions, as reshape would not */
    value_drop(pieces);
    struct sizes sizes = tensor_sizes(whole);
    int64_t shape[TORCH_DIMS_MAX];
    memcpy(shape, sizes.data, sizes.count * sizeof *shape);
    shape[dim] = record_local(record);
    struct value rows = TORCH_CALL("aten::reshape", "", copy, value_int_list(shape, sizes.count));
    value_drop(copy);
    return rows.tensor;
}

static int64_t *word_at(struct tensor *tensor, long offset) {
    return (int64_t *)((char *)tensor + offset);
}

bool rows_can_be_lent(struct tensor *whole, const struct record *record, int dim) {
    bool suits = torch_facts.lends_rows && dim == 0 && record->outer == 1 && record_local(record) > 0;
    return suits && *word_at(whole, torch_facts.version) /* an inference tensor has none */ && tensor_is_ordinary(whole) &&
           tensor_is_contiguous(whole);
}

/* The first dimension's size changes none of the flags that a contiguous tensor keeps of its strides, unless there is nothing in it. */
static struct tensor *cut_to_rows(struct tensor *copy, const struct record *record) {
    int64_t *sizes = (int64_t *)(uintptr_t)tensor_sizes(copy).data, row = *word_at(copy, torch_facts.elements) / sizes[0];
    sizes[0] = record_local(record);
    *word_at(copy, torch_facts.elements) = sizes[0] * row;
    *word_at(copy, torch_facts.storage_offset) += record->first * record->inner * row;
    return copy;
}

/* With the version of `counted`. */
static struct tensor *copy_counted(struct tensor *whole, struct tensor *counted) {
    OPAQUE_SCOPE;
    struct tensor *copy;
    ORIGINAL(shallow_copy)(&copy, whole, word_at(counted, torch_facts.version), 0);
    return copy;
}

struct tensor *rows_copy_whole(struct tensor *whole) {
    return copy_counted(whole, whole);
}

struct tensor *rows_alias_uncounted(struct tensor *whole, struct tensor *other) {
    bool have_versions =
        torch_facts.lends_rows && tensor_is_plain(whole) && *word_at(whole, torch_facts.version) && *word_at(other, torch_facts.version);
    if (!have_versions || tensor_requires_grad(whole)) {
        tensor_retain(whole);
        return whole;
    }
    struct tensor *alias = copy_counted(whole, other);
    record_clear(alias);
    return alias;
}

static struct tensor *lend_copy(struct tensor *whole, const struct record *record) {
    struct tensor *copy = rows_copy_whole(whole);
    record_clear(copy);
    return cut_to_rows(copy, record);
}

struct tensor *rows_lend_for_call(struct tensor *whole, const struct record *record) {
    struct tensor *shell = shell_lend(whole);
    return shell ? cut_to_rows(shell, record) : lend_copy(whole, record);
}

void rows_give_back(struct tensor *lent) {
    if (!shell_give_back(lent))
        tensor_release(lent);
}

struct tensor *rows_lend(struct tensor *whole, const struct record *record, int dim) {
    return rows_can_be_lent(whole, record, dim) ? lend_copy(whole, record) : rows_take(whole, record, dim);
}

void rows_put(struct tensor *whole, const struct record *record, struct tensor *rows) {
    if (record->outer == 1) {
        struct value own = value_tensor(slice(whole, record->dim, record));
        layout_copy(own, value_tensor(rows));
        value_drop(own);
        return;
    }
    refuse_many_dims(whole);
    struct value apart = value_tensor(take_apart(whole, record->outer, record->dim));
    struct value own = value_tensor(slice(apart.tensor, record->dim + 1, record));
    struct value from = value_tensor(take_apart(rows, record->outer, record->dim));
    layout_copy(own, from);
    value_drop(from);
    value_drop(own);
    value_drop(apart);
}
