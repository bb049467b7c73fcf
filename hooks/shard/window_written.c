/*
 * What a call is about to write, for those who have copies of it (window.c, read.c). Beside other threads it matters which elements these are, for they may
 * write and read the others meanwhile: an operator that writes at indices along a dimension, which all ranks know, writes nothing else.
 */
#include "window.h"

struct written window_region(struct tensor *tensor) {
    struct written written = {
        .tensor = tensor, .storage = tensor_own_storage(tensor), .counter = window_counter(tensor), .dtype = tensor_dtype(tensor)};
    written.extent = extent_of(tensor);
    written.told.dims = -1;
    struct record record = shim_has_threads() ? record_get(tensor) : (struct record){.kind = RECORD_NONE};
    if (written.extent.dims >= 0 && (record.kind == RECORD_SHARD || record.kind == RECORD_PARTIAL))
        written.told = extent_told(tensor, &record);
    return written;
}

/* The indices' argument and the dimension that it goes along; NULL: the operator writes otherwise. */
static const struct argument *indices_of(const struct shard_call *call, int *dim) {
    static const char *const along_one[] = {"index_copy_", "index_add_", "index_fill_", "index_reduce_"};
    const char *name = call->op->short_name;
    bool is_put = !strcmp(name, "index_put_") || !strcmp(name, "_index_put_impl_"), is_along_one = false;
    for (size_t i = 0; i < sizeof along_one / sizeof *along_one; i++)
        is_along_one |= !strcmp(name, along_one[i]);
    for (int i = 0; i < call->argument_count && (is_put || is_along_one); i++) {
        const struct argument *argument = &call->arguments[i];
        if (argument->position != (is_put ? 1 : 2))
            continue;
        *dim = is_put ? (int)(argument->slot - value_list(&call->values[1])->begin) : (int)call_int(call, 1, 0);
        return argument;
    }
    return NULL;
}

/* Integers that every rank has, or a mask along the dimension, as one list of places. Owned; NULL: it is none. */
static struct tensor *chosen_by(const struct argument *indices, struct tensor *device_of) {
    struct tensor *tensor = argument_tensor(indices);
    bool is_whole = indices->record.kind == RECORD_NONE || indices->record.kind == RECORD_GATHERED;
    bool is_number = tensor_dtype(tensor) == DTYPE_INT64 || tensor_dtype(tensor) == DTYPE_INT32;
    bool is_mask = tensor_dtype(tensor) == DTYPE_BOOL && tensor_dims(tensor) == 1;
    if (!is_whole || !(is_number || is_mask) || !tensor_is_plain(tensor) || tensor_is_on_host(tensor) != tensor_is_on_host(device_of))
        return NULL;
    OUTSIDE_TRANSFORM_SCOPE;
    OPAQUE_SCOPE;
    struct value places = is_mask ? TORCH_CALL("aten::nonzero", "", value_tensor(tensor)) : value_tensor(tensor);
    struct value list = TORCH_CALL("aten::reshape", "", places, value_int_list((const int64_t[]){-1}, 1));
    if (is_mask)
        value_drop(places);
    value_replace(&list, TORCH_CALL("aten::to", "dtype", list, value_int(DTYPE_INT64), value_bool(false), value_bool(true), value_none()));
    return list.tensor;
}

struct written window_region_of_call(const struct shard_call *call, const struct argument *argument) {
    struct written written = window_region(argument_tensor(argument));
    const struct argument *indices = shim_has_threads() && written.extent.dims > 0 ? indices_of(call, &written.chosen_dim) : NULL;
    if (indices && argument->position == 0)
        written.chosen = chosen_by(indices, argument_tensor(argument));
    return written;
}

void window_end_call(const struct written *written) {
    tensor_release(written->chosen);
}

void window_mark(struct tensor *flags, const struct extent *extent, const struct written *written) {
    struct value part = window_part(flags, extent);
    if (written && written->chosen)
        value_drop(TORCH_CALL("aten::index_fill_", "int_Scalar", part, value_int(written->chosen_dim), value_tensor(written->chosen),
                              value_int(1)));
    else
        value_drop(TORCH_CALL("aten::fill_", "Scalar", part, value_int(1)));
    value_drop(part);
}
