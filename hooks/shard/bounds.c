/*
 * Indices that lie outside of what they index. The kernel throws where it meets one: on the rank with that row, while the others go on, and a program that
 * catches it has parted its ranks. Indices that are not divided yet are here as a whole: looked through before, they let the whole operator run, and throw, on
 * all ranks as in one process.
 */
#include "shard.h"

static int64_t outside_long(const int64_t *indices, int64_t count, int64_t size, int64_t ignored) {
    int64_t outside = 0;
    for (int64_t i = 0; i < count; i++)
        outside += (uint64_t)indices[i] >= (uint64_t)size && indices[i] != ignored;
    return outside;
}

static int64_t outside_int(const int32_t *indices, int64_t count, int64_t size) {
    int64_t outside = 0;
    for (int64_t i = 0; i < count; i++)
        outside += indices[i] < 0 || indices[i] >= size;
    return outside;
}

int64_t bounds_count_outside(struct tensor *indices, int64_t size, int64_t ignored) {
    if (!tensor_is_plain(indices) || !tensor_is_on_host(indices) || !tensor_is_dense(indices))
        return 0;
    switch (tensor_dtype(indices)) {
    case DTYPE_INT64:
        return outside_long(tensor_data(indices), tensor_elements(indices), size, ignored);
    case DTYPE_INT32:
        return outside_int(tensor_data(indices), tensor_elements(indices), size);
    default:
        return 0;
    }
}

bool bounds_hold(struct shard_call *call, int position, int64_t size) {
    struct argument *indices = call_argument(call, position);
    return !indices || indices->record.kind == RECORD_SHARD || !bounds_count_outside(argument_tensor(indices), size, 0);
}
