/* Element by element, with broadcasting: dimensions are aligned at their ends. */
#include "shard.h"

/* Decides for every tensor argument how it meets the lead's rows. from_end: the divided dimension counted from the end. */
static bool align(struct shard_call *call, int from_end) {
    for (int i = 0; i < call->argument_count; i++) {
        struct argument *argument = &call->arguments[i];
        int dims = argument_dims(argument), dim = dims - from_end;
        if (argument->record.kind == RECORD_SHARD) {
            if (argument->record.dim != dim || !record_same_rows(&argument->record, &call->record))
                return false;
        } else if (dim >= 0 && argument_size(argument, dim) != 1) {
            if (argument_size(argument, dim) != record_total(&call->record))
                return false;
            decide_narrow(argument, dim);
        }
    }
    return true;
}

static int most_dims(const struct shard_call *call) {
    int most = 0;
    for (int i = 0; i < call->argument_count; i++)
        if (argument_dims(&call->arguments[i]) > most)
            most = argument_dims(&call->arguments[i]);
    return most;
}

bool decide_broadcast(struct shard_call *call, int *result_dim) {
    int from_end = argument_dims(call->lead) - call->record.dim;
    *result_dim = most_dims(call) - from_end;
    return align(call, from_end);
}

/* What is written in place keeps its shape: where another one is larger libtorch says so, of whole sizes. */
static bool fits_in_place(const struct shard_call *call) {
    const struct argument *self = &call->arguments[0];
    int dims = argument_dims(self);
    for (int i = 1; i < call->argument_count; i++) {
        const struct argument *other = &call->arguments[i];
        int behind = argument_dims(other) - dims;
        if (behind > 0)
            return false;
        for (int dim = 0; dim < argument_dims(other); dim++)
            if (argument_size(other, dim) != 1 && argument_size(other, dim) != argument_size(self, dim - behind))
                return false;
    }
    return true;
}

RULE_FUNCTION(pointwise) {
    int dim;
    if (call->op->is_in_place && !fits_in_place(call))
        return RULE_GATHER;
    if (!decide_broadcast(call, &dim) || call_writes_to_one_row(call))
        return RULE_GATHER;
    decide_shard(call, 0, dim);
    return RULE_LOCAL;
}

/* prelu(self, weight): a slope for each channel, which is dimension 1, or one for all. */
RULE_FUNCTION(prelu) {
    struct argument *weight = call_argument(call, 1);
    if (!weight || call->lead != &call->arguments[0] || call->shards != 1 || (argument_elements(weight) != 1 && call->record.dim == 1))
        return RULE_GATHER;
    decide_shard(call, 0, call->record.dim);
    return RULE_LOCAL;
}

/* log_sigmoid_forward(self) -> (output, buffer for its backward): the buffer is empty on a GPU. */
RULE_FUNCTION(log_sigmoid) {
    enum rule_outcome outcome = rule_pointwise(call, rule);
    if (outcome == RULE_LOCAL && !tensor_is_on_host(argument_tensor(call->lead)))
        decide_replicated(call, 1);
    return outcome;
}

RULE_FUNCTION(triangle) { /* tril, triu work on the last two dimensions */
    return call->record.dim < argument_dims(call->lead) - 2 ? rule_pointwise(call, rule) : RULE_GATHER;
}

RULE_FUNCTION(like) {
    decide_shard(call, 0, call->record.dim);
    return RULE_LOCAL;
}

/* x.new_zeros(sizes): the sizes are the program's own, so the result is replicated. */
RULE_FUNCTION(new_like) {
    return RULE_LOCAL;
}

RULE_FUNCTION(pass) {
    return RULE_LOCAL;
}

RULE_FUNCTION(compose) {
    return RULE_COMPOSE;
}
