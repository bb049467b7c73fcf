/* Recurrent layers. */
#include "shard.h"

RULE_FUNCTION(recurrent) {
    return RULE_GATHER;
}
