/* Losses with their own denominators: the mean over all rows, whatever each rank has of them. */
#include <stdlib.h>

#include "shard.h"

enum { REDUCTION_NONE = 0, REDUCTION_MEAN = 1, REDUCTION_SUM = 2 }; /* at::Reduction */

/* dim: where the rows stand in a result that is not reduced. */
static enum rule_outcome decide_loss(struct shard_call *call, const struct rule *rule, int dim) {
    int64_t reduction = call_int(call, rule->a, REDUCTION_MEAN);
    if (reduction == REDUCTION_NONE) {
        decide_shard(call, 0, dim);
        return RULE_LOCAL;
    }
    if (reduction == REDUCTION_MEAN)
        call->scale = (double)call->record.rows / (double)call->record.total;
    decide_partial(call, 0);
    return RULE_LOCAL;
}

/* Element-wise losses, a: position of the reduction. */
RULE_FUNCTION(loss) {
    int dim;
    return decide_broadcast(call, &dim) ? decide_loss(call, rule, dim) : RULE_GATHER;
}

/* The dimension of an argument in which its whole size's place among the dimensions that are not 1 is `place`; -1: none. */
static int unsqueezed_dim(const struct argument *argument, int place) {
    for (int dim = 0; dim < argument_dims(argument); dim++)
        if (argument_size(argument, dim) != 1 && place-- == 0)
            return dim;
    return -1;
}

static bool same_squeezed(const struct argument *one, const struct argument *other) {
    for (int place = 0;; place++) {
        int dim = unsqueezed_dim(one, place), other_dim = unsqueezed_dim(other, place);
        if (dim < 0 || other_dim < 0)
            return dim == other_dim;
        if (argument_size(one, dim) != argument_size(other, other_dim))
            return false;
    }
}

static bool same_shape(const struct argument *one, const struct argument *other) {
    if (argument_dims(one) != argument_dims(other))
        return false;
    for (int dim = 0; dim < argument_dims(one); dim++)
        if (argument_size(one, dim) != argument_size(other, dim))
            return false;
    return true;
}

/* binary_cross_entropy (self, target, weight, reduction) squeezes both before it compares them: scores (B, 1, 1, 1) go with targets (B). From Python and
   through torch::nn only equal sizes arrive here. */
RULE_FUNCTION(squeezed_loss) {
    struct argument *scores = call_argument(call, 0), *target = call_argument(call, 1);
    if (!scores || !target)
        return RULE_GATHER;
    if (same_shape(scores, target))
        return rule_loss(call, rule);
    if (call_argument(call, 2) || !same_squeezed(scores, target))
        return RULE_GATHER;
    int place = 0;
    for (int dim = 0; dim < call->record.dim; dim++)
        place += argument_size(call->lead, dim) != 1;
    struct argument *both[] = {scores, target};
    int dims[2];
    for (int i = 0; i < 2; i++) {
        dims[i] = unsqueezed_dim(both[i], place);
        if (both[i]->record.kind != RECORD_SHARD)
            decide_narrow(both[i], dims[i]);
        else if (both[i]->record.dim != dims[i] || !record_same_rows(&both[i]->record, &call->record))
            return RULE_GATHER;
    }
    return decide_loss(call, rule, dims[0]);
}

/* multi_margin_loss, multilabel_margin_loss_forward (self, target, ..., weight of the classes, reduction): the mean over rows of a figure for each. b: what
   ends a row of targets, else 0. */
RULE_FUNCTION(row_loss) {
    struct argument *both[] = {call_argument(call, 0), call_argument(call, 1)};
    if (!both[0] || !both[1] || argument_dims(both[0]) != 2)
        return RULE_GATHER;
    for (int i = 0; i < 2; i++)
        if (both[i]->record.kind == RECORD_SHARD ? both[i]->record.dim != 0 || !record_same_rows(&both[i]->record, &call->record)
                                                 : argument_dims(both[i]) < 1 || argument_size(both[i], 0) != record_total(&call->record))
            return RULE_GATHER;
    if (call->shards > (both[0]->record.kind == RECORD_SHARD) + (both[1]->record.kind == RECORD_SHARD))
        return RULE_GATHER;
    if (both[1]->record.kind != RECORD_SHARD && bounds_count_outside(argument_tensor(both[1]), argument_size(both[0], 1), rule->b))
        return RULE_GATHER;
    for (int i = 0; i < 2; i++)
        if (both[i]->record.kind != RECORD_SHARD)
            decide_narrow(both[i], 0);
    enum rule_outcome outcome = decide_loss(call, rule, 0);
    decide_shard(call, 1, 0); /* multilabel_margin_loss_forward: which classes are targets */
    return outcome;
}

/* Own elements of a list that has one for each row. */
static void keep_own(struct value *list, const struct record *record) {
    int64_t count = value_list(list)->end - value_list(list)->begin;
    if (count != record->total)
        return;
    int64_t *own = malloc((size_t)record->rows * sizeof *own);
    for (int64_t i = 0; i < record->rows; i++)
        own[i] = value_list(list)->begin[record->first + i].integer;
    value_replace(list, value_int_list(own, (size_t)record->rows));
    free(own);
}

static int64_t sum_of(const struct stack *lengths, int64_t first, int64_t count) {
    int64_t sum = 0;
    for (int64_t i = first; i < first + count; i++)
        sum += lengths->begin[i].integer;
    return sum;
}

/* One for each row, and none above the most. */
static bool lengths_fit(const struct stack *lengths, int64_t rows, int64_t most) {
    if (lengths->end - lengths->begin != rows)
        return false;
    for (const struct value *length = lengths->begin; length < lengths->end; length++)
        if (length->integer < 0 || length->integer > most)
            return false;
    return true;
}

/* What does not is refused by libtorch, with whole sizes: of some ranks' rows it would fit, and other ranks' would be read from behind the targets. */
static bool targets_fit(const struct argument *targets, const struct stack *lengths, int64_t rows) {
    if (argument_dims(targets) == 2)
        return argument_size(targets, 0) == rows && lengths_fit(lengths, rows, argument_size(targets, 1));
    return argument_dims(targets) == 1 && lengths_fit(lengths, rows, INT64_MAX) && argument_size(targets, 0) == sum_of(lengths, 0, rows);
}

/* _ctc_loss(log_probs (time, rows, classes), targets (rows, length) or all one after the other, input_lengths, target_lengths, ...) ->
   (loss of each row, what backward needs of each row) */
RULE_FUNCTION(ctc_loss) {
    struct argument *scores = call_argument(call, 0), *targets = call_argument(call, 1);
    if (scores && scores->record.kind == RECORD_SHARD && scores->record.dim == 0)
        entry_learn_time(&scores->record);
    if (!scores || !targets || call->shards != 1 || call->lead != scores || call->record.dim != 1 || argument_dims(scores) != 3 ||
        record_total(&call->record) != call->record.total || !value_is_list(&call->values[2]) || !value_is_list(&call->values[3]))
        return RULE_GATHER;
    struct stack *lengths = value_list(&call->values[3]);
    if (!lengths_fit(value_list(&call->values[2]), call->record.total, argument_size(scores, 0)) ||
        !targets_fit(targets, lengths, call->record.total))
        return RULE_GATHER;
    if (argument_dims(targets) == 2)
        decide_narrow(targets, 0);
    else { /* own targets begin where the earlier rows' end */
        int64_t first = sum_of(lengths, 0, call->record.first), count = sum_of(lengths, call->record.first, call->record.rows);
        OPAQUE_SCOPE;
        execute_compare(call, targets);
        value_replace(targets->slot, TORCH_CALL("aten::narrow", "", *targets->slot, value_int(0), value_int(first), value_int(count)));
    }
    keep_own(&call->values[2], &call->record);
    keep_own(&call->values[3], &call->record);
    decide_shard(call, 0, 0);
    return RULE_LOCAL;
}

/* Of uint8 none is ignored, as in libtorch's kernel, which compares them as whole numbers: ne() would take -100 for 156. Owned. */
static struct value targets_as_numbers(struct value targets) {
    if (tensor_dtype(targets.tensor) == DTYPE_UINT8)
        return TORCH_CALL("aten::to", "dtype", targets, value_int(DTYPE_INT64), value_bool(false), value_bool(false), value_none());
    tensor_retain(targets.tensor);
    return targets;
}

/* Targets that are not ignored; -1: not in memory that can be counted through. */
static int64_t count_valid(struct tensor *targets, int64_t ignored) {
    if (!tensor_is_plain(targets) || !tensor_is_on_host(targets) || !tensor_is_dense(targets) || tensor_dtype(targets) != DTYPE_INT64)
        return -1;
    const int64_t *labels = tensor_data(targets);
    int64_t count = tensor_elements(targets), valid = 0;
    for (int64_t i = 0; i < count; i++)
        valid += labels[i] != ignored;
    return valid;
}

/* Targets, of those that this rank has, that are none of the classes, and not ignored. */
static int64_t targets_outside(struct shard_call *call, const struct rule *rule) {
    return bounds_count_outside(call->values[1].tensor, argument_size(call_argument(call, 0), 1), call_int(call, rule->b, -100));
}

/* The sum of the weights of the targets' classes. Ignored targets may lie outside the classes: class 0 is looked up instead. */
static struct value sum_weights(struct value targets, struct value valid, struct value class_weights) {
    struct value inside = TORCH_CALL("aten::mul", "Tensor", targets, valid);
    struct value flat = TORCH_CALL("aten::flatten", "using_ints", inside, value_int(0), value_int(-1));
    struct value plain = TORCH_CALL("aten::detach", "", class_weights);
    struct value weights = TORCH_CALL("aten::index_select", "", plain, value_int(0), flat);
    struct value valid_flat = TORCH_CALL("aten::flatten", "using_ints", valid, value_int(0), value_int(-1));
    struct value left_out = TORCH_CALL("aten::logical_not", "", valid_flat); /* not a product: class 0 may weigh 1/0, being ignored */
    struct value kept = TORCH_CALL("aten::masked_fill", "Scalar", weights, left_out, value_int(0));
    struct value sum = TORCH_CALL("aten::sum", "", kept, value_int(DTYPE_FLOAT64));
    struct value made[] = {inside, flat, plain, weights, valid_flat, left_out, kept};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        value_drop(made[i]);
    return sum;
}

static double target_sum(struct value targets, int64_t ignored, const struct value *class_weights) {
    struct value valid = TORCH_CALL("aten::ne", "Scalar", targets, value_int(ignored));
    struct value sum = class_weights ? sum_weights(targets, valid, *class_weights) : TORCH_CALL("aten::sum", "", valid, value_none());
    struct value number = TORCH_CALL("aten::item", "", sum);
    value_drop(sum);
    value_drop(valid);
    return number.tag == TAG_DOUBLE ? number.real : (double)number.integer;
}

/* The weight of the targets that this rank has: how many are not ignored, or the sum of their classes' weights. */
static double target_weight(struct shard_call *call, const struct rule *rule) {
    OPAQUE_SCOPE;
    bool has_weights = !call_is_none(call, 2);
    int64_t ignored = call_int(call, rule->b, -100), counted = has_weights ? -1 : count_valid(call->values[1].tensor, ignored);
    if (counted >= 0)
        return (double)counted;
    struct value targets = targets_as_numbers(call->values[1]);
    double sum = target_sum(targets, ignored, has_weights ? &call->values[2] : NULL);
    value_drop(targets);
    return sum;
}

/* The weight of all ranks' targets. Targets that are not divided yet are here as a whole, the same on all ranks. False: one is none of the classes. */
static bool whole_target_weight(struct shard_call *call, const struct rule *rule, bool divided, double *weight) {
    int64_t outside = divided ? targets_outside(call, rule) : 0; /* else they were looked at before */
    double sums[] = {outside ? 0 : target_weight(call, rule), (double)outside};
    if (divided)
        sum_doubles("loss denominator", sums, 2, call->record.origin);
    *weight = sums[0];
    return sums[1] == 0;
}

/* Where the target of nll_loss has what its scores have at `dim`: the scores' classes are dimension 1, which targets lack. -1: classes are divided. */
static int target_dim(int dim) {
    return dim == 1 ? -1 : dim - (dim > 1);
}

/*
 * A mean as a sum with weights of classes that hold the denominator. The sum's derivatives, first and second, have it by themselves: one more operator,
 * with its own derivative, took 15 of the 51 us that two ranks add to a step of 5 k parameters (docs/measurements.md). Not where weights of 8 bits of
 * precision would be multiplied in, nor for no targets at all (0 / 0).
 */
static bool weigh_classes(struct shard_call *call, double denominator) {
    struct tensor *scores = call->values[0].tensor;
    if (denominator == 0 || !constant_suits(scores))
        return false;
    OPAQUE_SCOPE;
    struct value *weights = &call->values[2];
    value_replace(weights, call_is_none(call, 2) ? constant_tensor(tensor_size(scores, 1), 1 / denominator, tensor_dtype(scores))
                                                 : TORCH_CALL("aten::div", "Scalar", *weights, value_real(denominator)));
    return true;
}

/* nll_loss_forward, nll_loss2d_forward (self, target, weight, reduction, ignore_index): a mean is the sum divided by the weight of all ranks'
   targets (a rank whose targets are all ignored has no mean of its own). */
RULE_FUNCTION(nll_loss) {
    struct argument *scores = call_argument(call, 0), *target = call_argument(call, 1);
    if (!scores || !target || call->lead != scores || argument_dims(scores) < 2)
        return RULE_GATHER;
    int dim = target_dim(call->record.dim);
    if (dim < 0 || argument_dims(target) != argument_dims(scores) - 1 || argument_size(target, dim) != record_total(&call->record) ||
        (target->record.kind == RECORD_SHARD && (target->record.dim != dim || !record_same_rows(&target->record, &call->record))))
        return RULE_GATHER;
    struct argument *weight = call_argument(call, 2);
    if (weight && weight->record.kind == RECORD_SHARD)
        return RULE_GATHER;
    int64_t reduction = call_int(call, rule->a, REDUCTION_MEAN);
    bool is_half = tensor_dtype(argument_tensor(scores)) == DTYPE_FLOAT16; /* a GPU's kernel divides before it rounds */
    if ((reduction != REDUCTION_NONE && call_may_overflow(call)) ||
        (reduction == REDUCTION_MEAN && is_half)) /* before anything is changed */
        return RULE_GATHER;
    if (target->record.kind != RECORD_SHARD && targets_outside(call, rule))
        return RULE_GATHER;
    if (reduction == REDUCTION_MEAN) {
        double denominator;
        if (!whole_target_weight(call, rule, target->record.kind == RECORD_SHARD, &denominator))
            return RULE_GATHER;
        if (!weigh_classes(call, denominator))
            call->scale = 1 / denominator;
        call->values[rule->a].integer = REDUCTION_SUM;
    }
    if (target->record.kind != RECORD_SHARD)
        decide_narrow(target, dim);
    if (reduction == REDUCTION_NONE)
        decide_shard(call, 0, dim);
    else
        decide_partial(call, 0);
    decide_replicated(call, 1); /* total_weight: used by the derivative of the local rows only */
    return RULE_LOCAL;
}

/*
 * cross_entropy_loss (self, target, weight, reduction, ignore_index, label_smoothing), and nll_loss and its like without the last: composites around
 * nll_loss_forward, with arguments at the same places. Decided once, as a whole: as what it is composed of, a cross entropy comes here five times (a tenth of
 * what two ranks add to a step of 5 k parameters). Smoothed labels, probabilities as targets and what is not divided by rows are left to the parts.
 */
RULE_FUNCTION(class_loss) {
    if (call_real(call, 5, 0) != 0)
        return RULE_COMPOSE;
    enum rule_outcome outcome = rule_nll_loss(call, rule);
    return outcome == RULE_LOCAL ? RULE_LOCAL : RULE_COMPOSE;
}
