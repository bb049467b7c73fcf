/*
 * Sparse gradients (embeddings with sparse=true): the sum over the ranks is all ranks' indices and values one after the other, in the order of the ranks. For
 * one look-up of a batch divided along its first dimension this is the very tensor that one process has, not coalesced (docs/limits.md).
 */
#include "reduce.h"

/* All ranks' parts along a dimension, own: a dense tensor with counts[rank] elements there. Owned. */
static struct tensor *gather_along(struct tensor *own, int dim, const uint64_t *counts) {
    int64_t sizes[TORCH_DIMS_MAX], total = 0, first = 0, before = 1, after = 1;
    int dims = tensor_dims(own);
    for (uint32_t rank = 0; rank < shim_world_size(); rank++) {
        first += rank < shim_rank() ? (int64_t)counts[rank] : 0;
        total += (int64_t)counts[rank];
    }
    for (int i = 0; i < dims; i++) {
        sizes[i] = i == dim ? total : tensor_size(own, i);
        *(i < dim ? &before : &after) *= i == dim ? 1 : sizes[i];
    }
    struct value plain = tensor_is_on_host(own) ? TORCH_CALL("aten::detach", "", value_tensor(own)) : value_tensor(host_copy(own));
    struct value whole = TORCH_CALL("aten::new_empty", "", plain, value_int_list(sizes, (size_t)dims), value_none(), value_none(),
                                    value_none(), value_none());
    struct value place = TORCH_CALL("aten::narrow", "", whole, value_int(dim), value_int(first), value_int(tensor_size(own, dim)));
    value_drop(TORCH_CALL("aten::copy_", "", place, plain, value_bool(false)));
    value_drop(place);
    value_drop(plain);
    size_t bytes[BOARD_RANKS_MAX];
    for (uint32_t rank = 0; rank < shim_world_size(); rank++)
        bytes[rank] = (size_t)counts[rank] * (size_t)after * dtype_bytes(tensor_dtype(own));
    if (total)
        comm_all_gather("sparse gradient", tensor_data(whole.tensor), (size_t)before, bytes);
    struct tensor *there = host_to_device_of(whole.tensor, own);
    value_drop(whole);
    return there;
}

/* Takes indices and values. _sparse_coo_tensor_unsafe(indices, values, size, dtype, layout, device, pin_memory[, is_coalesced]): the last one since 2.1. */
static struct tensor *sparse_make(struct value indices, struct value values, struct tensor *like) {
    static struct operator_reference make = {"aten::_sparse_coo_tensor_unsafe", "", {NULL, NULL}};
    struct sizes sizes = tensor_sizes(like);
    struct value arguments[8] = {indices, values, value_int_list(sizes.data, sizes.count)};
    for (int i = 3; i < 8; i++)
        arguments[i] = value_none();
    struct tensor *made = operator_call(&make, operator_argument_count(&make), arguments, NULL, 0).tensor;
    value_drop(indices);
    value_drop(values);
    return made;
}

enum { FORM_BITS = 8 };

/* How many entries each rank has, and how many sparse dimensions they have: those of the first rank that has any. */
static int agree_on_form(struct tensor *indices, uint64_t *counts) {
    uint64_t own = (uint64_t)tensor_size(indices, 0), form = 0;
    comm_all_gather_words("size of a sparse gradient", (uint64_t)tensor_size(indices, 1) << FORM_BITS | own, counts);
    for (uint32_t rank = 0; rank < shim_world_size(); rank++) {
        uint64_t dims = counts[rank] % (1 << FORM_BITS);
        counts[rank] >>= FORM_BITS;
        form = form || !counts[rank] ? form : dims;
    }
    return (int)(form ? form : own);
}

/* One without entries loses its dense dimensions when it is multiplied by a number (1.13). */
static void make_empty_form(struct value *indices, struct value *values, struct tensor *gradient, int sparse_dims) {
    int64_t none[2] = {sparse_dims, 0}, sizes[1 + TORCH_DIMS_MAX] = {0};
    int dense = tensor_dims(gradient) - sparse_dims;
    for (int i = 0; i < dense; i++)
        sizes[1 + i] = tensor_size(gradient, sparse_dims + i);
    struct value had[2] = {*indices, *values};
    *indices = TORCH_CALL("aten::new_empty", "", had[0], value_int_list(none, 2), value_none(), value_none(), value_none(), value_none());
    *values = TORCH_CALL("aten::new_empty", "", had[1], value_int_list(sizes, 1 + (size_t)dense), value_none(), value_none(), value_none(),
                         value_none());
    value_drop(had[0]);
    value_drop(had[1]);
}

struct tensor *sparse_sum(struct tensor *gradient, const char *whose) {
    if (!tensor_is_sparse(gradient) || tensor_dims(gradient) > TORCH_DIMS_MAX)
        shim_problem("AR-GRAD-KIND",
                     "Make it a dense one (sparse=False, to_dense()), or run with -n 1: docs/limits.md says which gradients can be summed.",
                     "the gradient of %s is of a kind (compressed, quantised or nested) that cannot be summed over the ranks", whose);
    if (tensor_requires_grad(gradient)) /* the sum would have no history */
        shim_problem("AR-GRAD-KIND", "Make the embedding with sparse=False, leave create_graph=True out, or run with -n 1.",
                     "the gradient of %s is sparse, and is to be differentiated again (create_graph)", whose);
    OPAQUE_SCOPE;
    struct value indices = TORCH_CALL("aten::_indices", "", value_tensor(gradient)),
                 values = TORCH_CALL("aten::_values", "", value_tensor(gradient));
    uint64_t counts[BOARD_RANKS_MAX];
    int sparse_dims = agree_on_form(indices.tensor, counts);
    if (tensor_size(indices.tensor, 0) != sparse_dims)
        make_empty_form(&indices, &values, gradient, sparse_dims);
    struct value all_indices = value_tensor(gather_along(indices.tensor, 1, counts));
    struct value all_values = value_tensor(gather_along(values.tensor, 0, counts));
    struct tensor *sum = sparse_make(all_indices, all_values, gradient);
    value_drop(indices);
    value_drop(values);
    return sum;
}

struct tensor *sparse_none(struct tensor *like) {
    OPAQUE_SCOPE;
    struct value indices = TORCH_CALL("aten::_indices", "", value_tensor(like)),
                 values = TORCH_CALL("aten::_values", "", value_tensor(like));
    struct value no_indices = TORCH_CALL("aten::narrow", "", indices, value_int(1), value_int(0), value_int(0));
    struct value no_values = TORCH_CALL("aten::narrow", "", values, value_int(0), value_int(0), value_int(0));
    struct tensor *none = sparse_make(no_indices, no_values, like);
    value_drop(indices);
    value_drop(values);
    return none;
}
