/* Layers and matrix products. What does not fit is gathered: libtorch then says so, of whole sizes. */
#include "shard.h"

static bool only_lead_is_divided(const struct shard_call *call, const struct argument *lead) {
    return call->shards == 1 && call->lead == lead;
}

/* A bias of more than one dimension may have the batch's rows. */
static bool fits_linear(const struct argument *input, const struct argument *weight, const struct argument *bias) {
    int features = argument_dims(input) - 1, inner = weight ? argument_dims(weight) - 1 : -1, dims = bias ? argument_dims(bias) : 0;
    if (inner < 0)
        return true;
    if (argument_size(weight, inner) != argument_size(input, features) || dims > 1)
        return false;
    return dims == 0 || argument_size(bias, 0) == 1 || argument_size(bias, 0) == argument_size(weight, 0);
}

/* linear(input, weight, bias): rows in any dimension but the features. */
RULE_FUNCTION(linear) {
    struct argument *input = call_argument(call, 0);
    if (!input || !only_lead_is_divided(call, input) || call->record.dim >= argument_dims(input) - 1)
        return RULE_COMPOSE;
    if (!fits_linear(input, call_argument(call, 1), call_argument(call, 2)))
        return RULE_GATHER;
    decide_shard(call, 0, call->record.dim);
    return RULE_LOCAL;
}

/* Convolutions, pooling, ...: the batch is dimension 0 of the first argument (a: dimensions that a batched input has, 0: any; b: so many last dimensions
   are worked in). */
RULE_FUNCTION(rows) {
    struct argument *input = call_argument(call, 0);
    if (!input || !only_lead_is_divided(call, input) || call->record.dim != 0 || (rule->a && argument_dims(input) != rule->a) ||
        argument_dims(input) <= rule->b)
        return RULE_GATHER;
    decide_shard(call, 0, 0);
    return RULE_LOCAL;
}

/* conv*d(input, weight, bias, stride, padding, dilation, groups), conv_transpose*d(..., output_padding, groups): a: dimensions of a batched input, b: of the
   weight's that has the channels, a group's of a convolution. */
RULE_FUNCTION(convolution) {
    struct argument *input = call_argument(call, 0), *weight = call_argument(call, 1);
    int64_t groups = rule->b ? call_int(call, 6, 1) : 1;
    if (!input || !weight || argument_dims(input) != rule->a || argument_dims(weight) != rule->a ||
        argument_size(input, 1) != argument_size(weight, rule->b) * groups)
        return RULE_GATHER;
    return rule_rows(call, rule);
}

/* All tensors have the rows in dimension 0, the first has `a` dimensions: samplers with a grid for each picture, pooling with a draw for each. */
RULE_FUNCTION(rows_together) {
    struct argument *input = call_argument(call, 0);
    if (!input || argument_dims(input) != rule->a || !decide_rows_at(call, 0))
        return RULE_GATHER;
    decide_shard(call, 0, 0);
    return RULE_LOCAL;
}

/* embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse): a row per index. The gradient by frequency needs everybody's indices. */
RULE_FUNCTION(embedding) {
    if (!only_lead_is_divided(call, call_argument(call, 1)) || call_flag(call, 3))
        return RULE_GATHER;
    decide_shard(call, 0, call->record.dim);
    return RULE_LOCAL;
}

/* One product of matrices at positions first and first + 1, `batch` dimensions before them that are alike. Returns RULE_GATHER when the rows do not fit. */
static enum rule_outcome product(struct shard_call *call, int first, int batch) {
    struct argument *left = call_argument(call, first), *right = call_argument(call, first + 1);
    if (!left || !right || argument_dims(left) != batch + 2 || argument_dims(right) != batch + 2 ||
        argument_size(left, batch + 1) != argument_size(right, batch))
        return RULE_GATHER;
    bool left_divided = left->record.kind == RECORD_SHARD, right_divided = right->record.kind == RECORD_SHARD;
    if (left_divided && !right_divided && left->record.dim == batch) {
        decide_shard(call, 0, batch);
        return RULE_LOCAL;
    }
    if (right_divided && !left_divided && right->record.dim == batch + 1) {
        decide_shard(call, 0, batch + 1);
        return RULE_LOCAL;
    }
    /* the rows are summed over: (features, rows) x (rows, features) */
    bool left_inside = left_divided ? left->record.dim == batch + 1 : argument_size(left, batch + 1) == record_total(&call->record);
    bool right_inside = right_divided ? right->record.dim == batch : argument_size(right, batch) == record_total(&call->record);
    if (!left_inside || !right_inside || (left_divided && right_divided && !record_same_rows(&left->record, &right->record)))
        return RULE_GATHER;
    if (!left_divided)
        decide_narrow(left, batch + 1);
    if (!right_divided)
        decide_narrow(right, batch);
    decide_partial(call, 0);
    return RULE_LOCAL;
}

RULE_FUNCTION(mm) {
    return product(call, 0, 0);
}

/* Does it broadcast over products of `batch` dimensions and rows and columns? */
static bool bias_fits(const struct argument *bias, const struct argument *left, const struct argument *right, int batch) {
    int missing = batch + 2 - argument_dims(bias);
    for (int i = 0; i < argument_dims(bias); i++) {
        const struct argument *operand = missing + i <= batch ? left : right;
        if (missing < 0 || (argument_size(bias, i) != 1 && argument_size(bias, i) != argument_size(operand, missing + i)))
            return false;
    }
    return true;
}

/* addmm(bias, left, right, beta, alpha): a bias over the rows is cut with them; one over the result of a partial product would be added by every rank. */
RULE_FUNCTION(addmm) {
    struct argument *bias = call_argument(call, 0);
    if (!bias || bias->record.kind == RECORD_SHARD || call->op->is_in_place)
        return RULE_GATHER;
    enum rule_outcome outcome = product(call, 1, 0);
    if (outcome != RULE_LOCAL || call->results[0].kind == RECORD_PARTIAL ||
        !bias_fits(bias, call_argument(call, 1), call_argument(call, 2), 0))
        return RULE_GATHER;
    int dim = call->results[0].dim, own = argument_dims(bias) - 2 + dim;
    if (own >= 0 && argument_size(bias, own) == record_total(&call->record))
        decide_narrow(bias, own);
    return RULE_LOCAL;
}

/* bmm: the rows are batches of matrices, or rows or columns of each. */
RULE_FUNCTION(bmm) {
    const struct argument *left = call_argument(call, 0), *right = call_argument(call, 1);
    if (left && right && argument_dims(left) == 3 && argument_dims(right) == 3 && argument_size(left, 2) != argument_size(right, 1))
        return RULE_GATHER;
    if (decide_rows_at(call, 0)) {
        decide_shard(call, 0, 0);
        return RULE_LOCAL;
    }
    if (call->record.dim != 0 && product(call, 0, 1) == RULE_LOCAL)
        return RULE_LOCAL;
    if (call->shards > 1 && argument_size(call->lead, 0) > 1) /* scores between positions: what was cut was time */
        for (int i = 0; i < call->argument_count; i++)
            if (call->arguments[i].record.kind == RECORD_SHARD && call->arguments[i].record.dim != 0)
                entry_learn_time(&call->arguments[i].record);
    return RULE_GATHER;
}

/* What is written in place has the sizes of the product. */
static bool has_sizes_of_product(const struct argument *bias, const struct argument *left, const struct argument *right) {
    return argument_dims(bias) == 3 && argument_size(bias, 1) == argument_size(left, 1) &&
           argument_size(bias, 2) == argument_size(right, 2);
}

/* baddbmm(bias, left, right): batches of matrices; the bias may broadcast, unless it is written. */
RULE_FUNCTION(baddbmm) {
    struct argument *bias = call_argument(call, 0), *left = call_argument(call, 1), *right = call_argument(call, 2);
    if (!bias || !left || !right || argument_dims(left) != 3 || argument_dims(right) != 3 ||
        argument_size(left, 2) != argument_size(right, 1) || !bias_fits(bias, left, right, 1) ||
        (call->op->is_in_place && !has_sizes_of_product(bias, left, right)))
        return RULE_GATHER;
    bool has_rows = argument_dims(bias) == 3 && argument_size(bias, 0) != 1;
    struct argument *all[] = {left, right, has_rows ? bias : left};
    if (bias->record.kind == RECORD_SHARD && !has_rows)
        return RULE_GATHER;
    for (int i = 0; i < 3; i++)
        if (all[i]->record.kind == RECORD_SHARD ? all[i]->record.dim != 0 || !record_same_rows(&all[i]->record, &call->record)
                                                : argument_size(all[i], 0) != record_total(&call->record))
            return RULE_GATHER;
    for (int i = 0; i < 3; i++)
        if (all[i]->record.kind != RECORD_SHARD)
            decide_narrow(all[i], 0);
    decide_shard(call, 0, 0);
    return RULE_LOCAL;
}

/* mv(matrix, vector): rows against one vector, or columns of rows with their part of it. */
RULE_FUNCTION(mv) {
    struct argument *matrix = call_argument(call, 0), *vector = call_argument(call, 1);
    if (!matrix || !vector || argument_dims(matrix) != 2 || argument_dims(vector) != 1 ||
        argument_size(matrix, 1) != argument_size(vector, 0))
        return RULE_GATHER;
    if (only_lead_is_divided(call, matrix) && call->record.dim == 0) {
        decide_shard(call, 0, 0);
        return RULE_LOCAL;
    }
    struct argument *both[] = {matrix, vector};
    for (int i = 0; i < 2; i++) {
        if (both[i]->record.kind == RECORD_SHARD ? both[i]->record.dim != 1 - i || !record_same_rows(&both[i]->record, &call->record)
                                                 : argument_size(both[i], 1 - i) != record_total(&call->record))
            return RULE_GATHER;
        if (both[i]->record.kind != RECORD_SHARD)
            decide_narrow(both[i], 1 - i);
    }
    decide_partial(call, 0);
    return RULE_LOCAL;
}

/* dot(vector, vector) */
RULE_FUNCTION(dot) {
    if (!decide_rows_at(call, 0))
        return RULE_GATHER;
    decide_partial(call, 0);
    return RULE_LOCAL;
}

/* matmul(left, right): rows of the left operand against one matrix; every other form is what its composite says, with whole sizes. */
RULE_FUNCTION(matmul) {
    struct argument *left = call_argument(call, 0), *right = call_argument(call, 1);
    if (!left || !right || !only_lead_is_divided(call, left) || argument_dims(right) > 2 || call->record.dim >= argument_dims(left) - 1)
        return RULE_COMPOSE;
    if (argument_dims(right) && argument_size(right, 0) != argument_size(left, argument_dims(left) - 1))
        return RULE_GATHER;
    decide_shard(call, 0, call->record.dim);
    return RULE_LOCAL;
}
