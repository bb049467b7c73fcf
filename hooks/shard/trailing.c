/* Operators on the last dimensions of each element of a batch, or along listed ones: each element by itself. */
#include "shard.h"

/* One tensor, worked on in its last `a` dimensions (matrices: 2); all results keep the others. Numbers may come as tensors without dimensions. */
RULE_FUNCTION(trailing) {
    for (int i = 0; i < call->argument_count; i++)
        if (&call->arguments[i] != call->lead && argument_dims(&call->arguments[i]) > 0)
            return RULE_GATHER;
    if (call->lead != &call->arguments[0] || call->record.dim >= argument_dims(call->lead) - rule->a)
        return RULE_GATHER;
    decide_shard(call, 0, call->record.dim);
    return RULE_LOCAL;
}

/* _linalg_eigh, _linalg_svd: values (result a) with or without vectors (flag b), which are otherwise empty. */
RULE_FUNCTION(spectrum) {
    if (call->argument_count != 1 || call->record.dim >= argument_dims(call->lead) - 2)
        return RULE_GATHER;
    for (int i = 0; i < 3; i++)
        if (i == rule->a || call_flag(call, rule->b))
            decide_shard(call, i, call->record.dim);
        else
            decide_replicated(call, i);
    return RULE_LOCAL;
}

/* _linalg_solve_ex, linalg_solve_triangular...: batches of matrices with batches of right sides. */
RULE_FUNCTION(solve) {
    struct argument *matrix = call_argument(call, 0), *side = call_argument(call, 1);
    int dim = call->record.dim;
    if (!matrix || !side || call->argument_count != 2 || argument_dims(matrix) != argument_dims(side) || dim >= argument_dims(matrix) - 2 ||
        !decide_rows_at(call, dim))
        return RULE_GATHER;
    decide_shard(call, 0, dim);
    return RULE_LOCAL;
}

/* diagonal(self, offset, dim1, dim2): of two dimensions, which go; the diagonal comes last. */
RULE_FUNCTION(diagonal) {
    int dims = argument_dims(call->lead), dim = call->record.dim;
    int one = wrap_dim(call_int(call, 2, 0), dims), other = wrap_dim(call_int(call, 3, 1), dims);
    if (dim == one || dim == other || call_argument(call, 0) != call->lead || (call->op->overload[0] && call->value_count != 4))
        return RULE_GATHER;
    decide_shard(call, 0, dim - (one < dim) - (other < dim));
    return RULE_LOCAL;
}

/* diag_embed(self, offset, dim1, dim2): the last dimension becomes a matrix in dim1 and dim2 of the result. */
RULE_FUNCTION(diag_embed) {
    int dims = argument_dims(call->lead), left = call->record.dim, dim = 0;
    int one = wrap_dim(call_int(call, 2, -2), dims + 1), other = wrap_dim(call_int(call, 3, -1), dims + 1);
    if (call->record.dim == dims - 1)
        return RULE_GATHER;
    while (dim == one || dim == other || left-- > 0)
        dim++;
    decide_shard(call, 0, dim);
    return RULE_LOCAL;
}

/* affine_grid_generator(theta, size, align_corners): a grid for each row; the size says how many. */
RULE_FUNCTION(affine_grid) {
    int64_t size[TORCH_DIMS_MAX];
    int count = call_ints(call, 1, size);
    if (count < 1 || call->record.dim != 0 || argument_dims(call->lead) != 3 || size[0] != record_total(&call->record))
        return RULE_GATHER;
    size[0] = record_local(&call->record);
    value_replace(&call->values[1], value_int_list(size, (size_t)count));
    decide_shard(call, 0, 0);
    return RULE_LOCAL;
}

/* One tensor, worked on along the dimensions listed at position a (flip, roll, Fourier transforms); its number of dimensions stays. */
RULE_FUNCTION(along_dims) {
    int64_t listed[TORCH_DIMS_MAX];
    int count = call_ints(call, rule->a, listed);
    if (call->argument_count != 1 || count < 1)
        return RULE_GATHER;
    for (int i = 0; i < count; i++)
        if (wrap_dim(listed[i], argument_dims(call->lead)) == call->record.dim)
            return RULE_GATHER;
    decide_shard(call, 0, call->record.dim);
    return RULE_LOCAL;
}

/* repeat(self, repeats): new dimensions come first. Rows that come several times are merged with how often. */
RULE_FUNCTION(repeat) {
    int64_t repeats[TORCH_DIMS_MAX];
    int count = call_ints(call, 1, repeats), dim = call->record.dim + count - argument_dims(call->lead);
    if (count < argument_dims(call->lead) || repeats[dim] < 1)
        return RULE_GATHER;
    decide_merged(call, 0, dim, repeats[dim] * call->record.outer, call->record.inner);
    return RULE_LOCAL;
}

/* _cdist_forward(x1, x2, p, compute_mode), _euclidean_dist(x1, x2): batches of tables, or own rows against a whole table. */
RULE_FUNCTION(distance) {
    struct argument *left = call_argument(call, 0), *right = call_argument(call, 1);
    if (!left || !right || argument_dims(left) != argument_dims(right))
        return RULE_GATHER;
    int dims = argument_dims(left), dim = call->record.dim;
    if (dim < dims - 2) {
        if (!decide_rows_at(call, dim))
            return RULE_GATHER;
    } else if (call->shards != 1 || dim != dims - 2)
        return RULE_GATHER;
    decide_shard(call, 0, call->lead == right && dim == dims - 2 ? dims - 1 : dim);
    return RULE_LOCAL;
}

/* bilinear(left, right, weight, bias) */
RULE_FUNCTION(bilinear) {
    struct argument *left = call_argument(call, 0), *right = call_argument(call, 1);
    int dim = call->record.dim;
    if (!left || !right || (call->lead != left && call->lead != right) || call->shards > 2)
        return RULE_GATHER;
    struct argument *other = call->lead == left ? right : left;
    int dims = argument_dims(call->lead);
    if (argument_dims(other) != dims || dim >= dims - 1 || argument_size(other, dim) != record_total(&call->record))
        return RULE_GATHER;
    if (other->record.kind != RECORD_SHARD && call->shards == 1)
        decide_narrow(other, dim);
    else if (other->record.kind != RECORD_SHARD || other->record.dim != dim || !record_same_rows(&other->record, &call->record))
        return RULE_GATHER;
    decide_shard(call, 0, dim);
    return RULE_LOCAL;
}
