/* Normalisation. */
#include "shard.h"

/* layer_norm, native_layer_norm, rms_norm (input, normalized_shape, ...): over the last dimensions, never the rows. */
RULE_FUNCTION(layer_norm) {
    int64_t shape[TORCH_DIMS_MAX];
    int count = call_ints(call, rule->a, shape);
    if (count < 1 || call->shards != 1 || call->lead != &call->arguments[0] || call->record.dim >= argument_dims(call->lead) - count)
        return RULE_GATHER;
    decide_shard(call, 0, call->record.dim, 0);
    return RULE_LOCAL;
}

RULE_FUNCTION(batch_norm) {
    return RULE_GATHER;
}
