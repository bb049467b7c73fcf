/* Losses with their own denominators: the mean over all rows, whatever each rank has of them. */
#include "shard.h"

enum { REDUCTION_NONE = 0, REDUCTION_MEAN = 1, REDUCTION_SUM = 2 }; /* at::Reduction */

/* Element-wise losses, a: position of the reduction. */
RULE_FUNCTION(loss) {
    int dim;
    if (!decide_broadcast(call, &dim))
        return RULE_GATHER;
    int64_t reduction = call_int(call, rule->a, REDUCTION_MEAN);
    if (reduction == REDUCTION_NONE) {
        decide_shard(call, 0, dim, 0);
        return RULE_LOCAL;
    }
    if (reduction == REDUCTION_MEAN)
        call->scale = (double)call->record.rows / (double)call->record.total;
    decide_partial(call, 0);
    return RULE_LOCAL;
}

/* The weight of this rank's targets: how many are not ignored, or the sum of their classes' weights. */
static double target_weight(struct shard_call *call, const struct rule *rule) {
    OPAQUE_SCOPE;
    struct value rows = value_tensor(rows_of(call->values[1].tensor, &call->record, 0));
    if (call->arguments[1].record.kind == RECORD_SHARD) {
        value_drop(rows);
        rows = call->values[1];
        tensor_retain(rows.tensor);
    }
    struct value valid = TORCH_CALL("aten::ne", "Scalar", rows, value_int(call_int(call, rule->b, -100)));
    struct value sum;
    if (call_is_none(call, 2)) {
        sum = TORCH_CALL("aten::sum", "", valid, value_none());
    } else {
        /* ignored targets may lie outside the classes: look class 0 up instead */
        struct value inside = TORCH_CALL("aten::mul", "Tensor", rows, valid);
        struct value flat = TORCH_CALL("aten::flatten", "using_ints", inside, value_int(0), value_int(-1));
        struct value plain = TORCH_CALL("aten::detach", "", call->values[2]);
        struct value weights = TORCH_CALL("aten::index_select", "", plain, value_int(0), flat);
        struct value valid_flat = TORCH_CALL("aten::flatten", "using_ints", valid, value_int(0), value_int(-1));
        struct value kept = TORCH_CALL("aten::mul", "Tensor", weights, valid_flat);
        sum = TORCH_CALL("aten::sum", "", kept, value_int(DTYPE_FLOAT64));
        value_drop(inside);
        value_drop(flat);
        value_drop(plain);
        value_drop(weights);
        value_drop(valid_flat);
        value_drop(kept);
    }
    struct value number = TORCH_CALL("aten::item", "", sum);
    value_drop(sum);
    value_drop(valid);
    value_drop(rows);
    return number.tag == TAG_DOUBLE ? number.real : (double)number.integer;
}

/* nll_loss_forward, nll_loss2d_forward (self, target, weight, reduction, ignore_index): a mean is the sum divided by the weight of all ranks'
   targets (a rank whose targets are all ignored has no mean of its own). cross_entropy comes here as what it is composed of. */
RULE_FUNCTION(nll_loss) {
    struct argument *scores = call_argument(call, 0), *target = call_argument(call, 1);
    if (!scores || !target || call->lead != scores || call->record.dim != 0 ||
        call->record.inner * call->record.total != argument_size(target, 0))
        return RULE_GATHER;
    if (target->record.kind == RECORD_SHARD ? target->record.dim != 0 || !record_same_rows(&target->record, &call->record)
                                            : argument_dims(target) < 1)
        return RULE_GATHER;
    struct argument *weight = call_argument(call, 2);
    if (weight && weight->record.kind == RECORD_SHARD)
        return RULE_GATHER;
    int64_t reduction = call_int(call, rule->a, REDUCTION_MEAN);
    if (reduction == REDUCTION_MEAN) {
        call->scale = 1.0 / sum_double("loss denominator", target_weight(call, rule));
        call->values[rule->a].integer = REDUCTION_SUM;
    }
    if (target->record.kind != RECORD_SHARD)
        decide_narrow(target, 0);
    if (reduction == REDUCTION_NONE)
        decide_shard(call, 0, 0, 0);
    else
        decide_partial(call, 0);
    decide_replicated(call, 1); /* total_weight: used by the derivative of the local rows only */
    return RULE_LOCAL;
}
