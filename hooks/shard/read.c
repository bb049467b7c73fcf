/* Where a program looks at memory. */
#include "shard.h"

RULE_FUNCTION(read) {
    return RULE_GATHER;
}
