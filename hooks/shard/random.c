/* Random draws from the whole batch's stream: drawn for all rows, the own kept. */
#include "shard.h"

RULE_FUNCTION(random_in_place) {
    return RULE_GATHER;
}

RULE_FUNCTION(random_like) {
    return RULE_GATHER;
}

RULE_FUNCTION(bernoulli) {
    return RULE_GATHER;
}

RULE_FUNCTION(native_dropout) {
    return RULE_GATHER;
}
