/*
 * Tensors on an accelerator, whose memory this process cannot read: what is exchanged between the ranks goes through a copy in the host's memory. Copies
 * wait for the device (non_blocking = false), so the values are there when these functions return, and the device's queue goes on behind them.
 */
#include "../shim.h"

static struct value plain_of(struct tensor *tensor) {
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(tensor));
    record_clear(plain.tensor);
    return plain;
}

/* Element by element; neither keeps a history. */
void host_copy_values(struct tensor *to, struct tensor *from) {
    struct value plain_to = plain_of(to), plain_from = plain_of(from);
    value_drop(TORCH_CALL("aten::copy_", "", plain_to, plain_from, value_bool(false)));
    value_drop(plain_from);
    value_drop(plain_to);
}

struct tensor *host_empty(struct tensor *like) {
    struct sizes sizes = tensor_sizes(like), strides = tensor_strides(like);
    struct value size_list = value_int_list(sizes.data, sizes.count), dtype = value_int(tensor_dtype(like));
    if (!tensor_is_dense(like))
        return TORCH_CALL("aten::empty", "memory_format", size_list, dtype, value_none(), value_none(), value_none(), value_none()).tensor;
    return TORCH_CALL("aten::empty_strided", "", size_list, value_int_list(strides.data, strides.count), dtype, value_none(), value_none(),
                      value_none())
        .tensor;
}

struct tensor *host_copy(struct tensor *tensor) {
    struct tensor *copy = host_empty(tensor);
    host_copy_values(copy, tensor);
    return copy;
}

struct tensor *host_to_device_of(struct tensor *host, struct tensor *like) {
    if (tensor_is_on_host(like)) {
        tensor_retain(host);
        return host;
    }
    struct sizes sizes = tensor_sizes(host), strides = tensor_strides(host);
    struct value plain = plain_of(like);
    struct tensor *copy =
        TORCH_CALL("aten::new_empty_strided", "", plain, value_int_list(sizes.data, sizes.count),
                   value_int_list(strides.data, strides.count), value_int(tensor_dtype(host)), value_none(), value_none(), value_none())
            .tensor;
    value_drop(plain);
    host_copy_values(copy, host);
    return copy;
}
