/*
 * Indices that lie outside of what they index. The kernel throws where it meets one: on the rank with that row, while the others go on, and a program that
 * catches it has parted its ranks. Indices that are not divided yet are here as a whole: looked through before, they let the whole operator run, and throw, on
 * all ranks as in one process.
 */
#include "shard.h"

static int64_t index_at(const void *memory, enum torch_dtype dtype, int64_t place) {
    if (dtype == DTYPE_INT64)
        return ((const int64_t *)memory)[place];
    return dtype == DTYPE_INT32 ? ((const int32_t *)memory)[place] : ((const uint8_t *)memory)[place];
}

static int64_t count_in(struct tensor *dense, int64_t size, int64_t ignored) {
    enum torch_dtype dtype = tensor_dtype(dense);
    const void *memory = tensor_data(dense);
    int64_t count = tensor_elements(dense), outside = 0;
    for (int64_t place = 0; place < count; place++) {
        int64_t index = index_at(memory, dtype, place);
        outside += (uint64_t)index >= (uint64_t)size && index != ignored;
    }
    return outside;
}

int64_t bounds_count_outside(struct tensor *indices, int64_t size, int64_t ignored) {
    enum torch_dtype dtype = tensor_dtype(indices);
    bool is_index = dtype == DTYPE_INT64 || dtype == DTYPE_INT32 || dtype == DTYPE_UINT8;
    if (!is_index || !tensor_is_plain(indices) || !tensor_is_on_host(indices))
        return 0;
    if (tensor_is_dense(indices))
        return count_in(indices, size, ignored);
    OPAQUE_SCOPE;
    tensor_retain(indices); /* of an expanded one (idx.unsqueeze(-1).expand(-1, -1, 768)) each index once */
    struct value once = layout_unexpanded(value_tensor(indices), tensor_strides(indices).data);
    struct value dense = TORCH_CALL("aten::contiguous", "", once, value_int(0)); /* was a column of a table */
    int64_t outside = count_in(dense.tensor, size, ignored);
    value_drop(dense);
    value_drop(once);
    return outside;
}

bool bounds_hold(struct shard_call *call, int position, int64_t size) {
    struct argument *indices = call_argument(call, position);
    return !indices || indices->record.kind == RECORD_SHARD || !bounds_count_outside(argument_tensor(indices), size, 0);
}

bool bounds_count_evenly(struct tensor *indices, int64_t end, int64_t step) {
    struct value expected = TORCH_CALL("aten::arange", "start_step", value_int(0), value_int(end), value_int(step),
                                       value_int(tensor_dtype(indices)), value_none(), value_none(), value_none());
    value_replace(&expected, value_tensor(host_to_device_of(expected.tensor, indices)));
    struct value same = TORCH_CALL("aten::equal", "", expected, value_tensor(indices));
    value_drop(expected);
    return value_flag(&same);
}
