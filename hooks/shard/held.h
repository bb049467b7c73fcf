/* References of a function's own that end with it, also where an operator throws. */
#ifndef ACCEL_HOOKS_SHARD_HELD_H
#define ACCEL_HOOKS_SHARD_HELD_H

#include "../../shim/shim.h"

static inline void held_value_end(struct value *value) {
    if (value_is_tensor(value))
        value_drop(*value);
}
static inline void held_tensor_end(struct tensor **tensor) {
    tensor_release(*tensor); /* NULL: nothing */
}

#define HELD __attribute__((cleanup(held_value_end))) struct value
#define HELD_TENSOR __attribute__((cleanup(held_tensor_end))) struct tensor *

#endif
