/* Attention: the rows are batches (or, merged with them, heads) of independent problems; queries, keys and values of one row stay
   together. */
#include "shard.h"

/* Features of queries and keys, numbers of keys and values. */
static bool products_fit(struct shard_call *call) {
    int dims = argument_dims(call->lead);
    struct argument *query = call_argument(call, 0), *key = call_argument(call, 1), *value = call_argument(call, 2);
    return argument_size(query, dims - 1) == argument_size(key, dims - 1) && argument_size(key, dims - 2) == argument_size(value, dims - 2);
}

/* Queries, keys, values: as many dimensions, the same rows; a replicated one has them all. */
static bool operands_fit(struct shard_call *call) {
    for (int i = 0; i < 3; i++) {
        struct argument *operand = call_argument(call, i);
        if (!operand || argument_dims(operand) != argument_dims(call->lead) ||
            argument_size(operand, call->record.dim) != record_total(&call->record))
            return false;
        if (operand->record.kind == RECORD_SHARD &&
            (operand->record.dim != call->record.dim || !record_same_rows(&operand->record, &call->record)))
            return false;
    }
    return products_fit(call);
}

/* A mask broadcasts over (..., queries, keys). *narrow: where it has the rows and is replicated, -1 otherwise. */
static bool mask_fits(struct shard_call *call, struct argument *mask, int *narrow) {
    *narrow = -1;
    if (!mask)
        return true;
    int dim = call->record.dim - argument_dims(call->lead) + argument_dims(mask);
    if (mask->record.kind == RECORD_SHARD)
        return mask->record.dim == dim && record_same_rows(&mask->record, &call->record);
    if (dim < 0 || argument_size(mask, dim) == 1)
        return true;
    *narrow = dim;
    return argument_size(mask, dim) == record_total(&call->record);
}

/* Narrows what is replicated; false (nothing decided): the rows do not fit. */
static bool decide_attention(struct shard_call *call, struct argument *mask) {
    int narrow;
    if (!call->lead || call->record.dim >= argument_dims(call->lead) - 2 || !operands_fit(call) || !mask_fits(call, mask, &narrow))
        return false;
    for (int i = 0; i < 3; i++)
        if (call_argument(call, i)->record.kind != RECORD_SHARD)
            decide_narrow(call_argument(call, i), call->record.dim);
    if (narrow >= 0)
        decide_narrow(mask, narrow);
    decide_shard(call, 0, call->record.dim);
    return true;
}

/* scaled_dot_product_attention(query, key, value, attn_mask?, dropout_p, is_causal, *, scale?, enable_gqa) and 1.13's
   _scaled_dot_product_attention(query, key, value, attn_mask?, dropout_p, need_attn_weights, is_causal) -> (output, weights). With
   dropout the draw must be the whole batch's: the composite runs at user level, where its dropout has a rule of its own. */
RULE_FUNCTION(attention) {
    if (call_real(call, 4, 0) > 0)
        return RULE_COMPOSE;
    bool heads_differ = call_flag(call, 7); /* enable_gqa: several heads of queries share one of keys */
    if (heads_differ && call->record.dim == argument_dims(call->lead) - 3)
        return RULE_GATHER;
    return decide_attention(call, call_argument(call, 3)) ? RULE_LOCAL : RULE_GATHER;
}

/* _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, *, attn_mask, scale) -> (output, logsumexp) */
RULE_FUNCTION(flash_attention) {
    if (call_real(call, 3, 0) > 0 || call->record.dim != 0)
        return RULE_GATHER;
    return decide_attention(call, call_argument(call, 5)) ? RULE_LOCAL : RULE_GATHER;
}

/* The fast paths of evaluation. _native_multi_head_attention(query, key, value, ..., mask, ..., mask_type) -> (output, weights),
   _transformer_encoder_layer_fwd(src, ..., mask, mask_type): a: how many tensors come first, b: position of the mask, which has the rows when there is one for
   each sequence (mask_type 1: of padding, 2: of any kind). */
RULE_FUNCTION(fast_attention) {
    struct argument *mask = call_argument(call, rule->b);
    if (call->record.dim != 0 || call->shards > rule->a + (mask && mask->record.kind == RECORD_SHARD))
        return RULE_GATHER;
    for (int i = 0; i < rule->a + (mask != NULL); i++) {
        struct argument *operand = i < rule->a ? call_argument(call, i) : mask;
        if (!operand || (i < rule->a && argument_dims(operand) != 3))
            return RULE_GATHER;
        bool has_rows = operand->record.kind == RECORD_SHARD ? operand->record.dim == 0 && record_same_rows(&operand->record, &call->record)
                                                             : argument_size(operand, 0) == record_total(&call->record);
        if (operand == mask && call_int(call, call->value_count - 1, 0) == 0) {
            if (operand->record.kind == RECORD_SHARD || argument_dims(mask) != 2)
                return RULE_GATHER;
            continue; /* one mask for all sequences */
        }
        if (!has_rows) /* of padding, with as many rows as one rank has: libtorch refuses it */
            return RULE_GATHER;
        if (operand->record.kind != RECORD_SHARD)
            decide_narrow(operand, 0);
    }
    decide_shard(call, 0, 0);
    return RULE_LOCAL;
}
