/* Attention. */
#include "shard.h"

RULE_FUNCTION(attention) {
    return RULE_COMPOSE;
}

RULE_FUNCTION(flash_attention) {
    return RULE_GATHER;
}
