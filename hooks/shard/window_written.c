/*
 * What a call is about to write, for those who have copies of it (window.c, read.c). Beside other threads it matters which elements these are, for they may
 * write and read the others meanwhile: an operator that writes at indices, or by a mask, which all ranks have, writes nothing else.
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

/* Operators that write, in place, the elements that an argument chooses, and at which position that one is. */
enum how { AT_INDEX, AT_LIST, AT_PLACES, BY_MASK };
static const struct window_some {
    const char *name;
    enum how how;
    int position;
} some[] = {
    {"index_copy_", AT_INDEX, 2},      {"index_add_", AT_INDEX, 2},      {"index_fill_", AT_INDEX, 2},    {"index_reduce_", AT_INDEX, 2},
    {"index_put_", AT_LIST, 1},        {"_index_put_impl_", AT_LIST, 1}, {"scatter_", AT_PLACES, 2},      {"scatter_add_", AT_PLACES, 2},
    {"scatter_reduce_", AT_PLACES, 2}, {"masked_fill_", BY_MASK, 1},     {"masked_scatter_", BY_MASK, 1},
};

static const struct window_some *some_of(const struct operator *op) {
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (!strcmp(some[i].name, op->short_name))
            return &some[i];
    return NULL;
}

enum written_values window_writes(const struct operator *op) {
    static const char *const no_values[] = {"detach_",    "t_",       "transpose_",  "swapaxes_",      "swapdims_",
                                            "unsqueeze_", "squeeze_", "as_strided_", "requires_grad_", "set_"};
    for (size_t i = 0; i < sizeof no_values / sizeof *no_values; i++)
        if (!strcmp(no_values[i], op->short_name))
            return WRITES_NO_VALUES;
    return some_of(op) ? WRITES_SOME : WRITES_ALL;
}

/* Has every rank all of what chooses, and is it the same when the call has written? Not what is a view of rows, perhaps of those that are written, or out of
   date until then. */
static bool is_known(const struct shard_call *call, int position) {
    for (int i = 0; i < call->argument_count; i++) {
        const struct argument *argument = &call->arguments[i];
        bool is_whole =
            argument->record.kind == RECORD_NONE || (argument->record.kind == RECORD_GATHERED && !argument->record.is_view_of_gathered);
        if (argument->position == position && (!is_whole || !tensor_is_plain(argument_tensor(argument))))
            return false;
    }
    return true;
}

static struct value as_int64(struct value index) {
    return TORCH_CALL("aten::to", "dtype", index, value_int(DTYPE_INT64), value_bool(false), value_bool(false), value_none());
}

static struct value true_like(struct value flags) {
    return TORCH_CALL("aten::new_ones", "", flags, value_int_list(NULL, 0), value_none(), value_none(), value_none(), value_none());
}

/* What is written of what the flags stand for is set. */
static void write_flags(const struct written *written, struct value flags) {
    struct value one = value_int(1), made = value_none();
    switch (written->some->how) {
    case AT_INDEX:
        made = as_int64(written->chooses);
        value_drop(TORCH_CALL("aten::index_fill_", "int_Scalar", flags, written->dim, made, one));
        break;
    case AT_LIST:
        made = true_like(flags);
        value_drop(TORCH_CALL("aten::index_put_", "", flags, value_list_copy(&written->chooses), made, value_bool(false)));
        break;
    case AT_PLACES:
        value_drop(TORCH_CALL("aten::scatter_", "value", flags, written->dim, written->chooses, one));
        break;
    case BY_MASK:
        value_drop(TORCH_CALL("aten::masked_fill_", "Scalar", flags, written->chooses, one));
        break;
    }
    value_drop(made);
}

struct written window_region_of_call(const struct shard_call *call, const struct argument *argument) {
    struct written written = window_region(argument_tensor(argument));
    const struct window_some *by =
        call->op->writes == WRITES_SOME && shim_has_threads() && argument->position == 0 ? some_of(call->op) : NULL;
    if (!by || written.extent.dims < 0 || !is_known(call, by->position))
        return written;
    const struct value *chooses = &call->values[by->position];
    written.some = by;
    written.dim = call->values[1];
    written.chooses = by->how == AT_LIST ? value_list_copy(chooses) : *chooses;
    if (by->how != AT_LIST)
        tensor_retain(chooses->tensor);
    return written;
}

/* out= may have made it larger, and another type (h[3].view(torch.int32), h[3].imag) has other elements. */
void window_keep_before(const struct shard_call *call, const struct argument *argument, struct written *written) {
    if (!shim_has_threads() || !window_is_written_through(call, argument))
        return;
    OUTSIDE_TRANSFORM_SCOPE;
    OPAQUE_SCOPE;
    struct value whole = window_copy(written->storage);
    bool is_told = !value_is_tensor(&whole) || tensor_is_lazy(whole.tensor) ||
                   (written->extent.dims >= 0 && written->dtype == tensor_dtype(whole.tensor));
    if (!is_told) {
        value_replace(&whole, TORCH_CALL("aten::detach", "", whole));
        written->before = TORCH_CALL("aten::clone", "", whole, value_none());
    }
    value_drop(whole);
}

void window_find_changes(struct written *written) {
    static const struct window_some that_have_changed = {"", BY_MASK, 0};
    if (!value_is_tensor(&written->before))
        return;
    OUTSIDE_TRANSFORM_SCOPE;
    OPAQUE_SCOPE;
    struct value whole = window_copy(written->storage);
    if (value_is_tensor(&whole)) {
        written->extent = extent_of(whole.tensor);
        written->dtype = tensor_dtype(whole.tensor);
        written->chooses = window_changed(written->before, whole);
        written->some = &that_have_changed;
    }
    value_drop(whole);
}

void window_end_call(struct written *written) {
    value_drop(written->before);
    if (written->some)
        value_drop(written->chooses);
}

void window_mark(struct tensor *flags, const struct extent *extent, const struct written *written) {
    struct value part = window_part(flags, extent);
    if (written && written->some)
        write_flags(written, part);
    else
        value_drop(TORCH_CALL("aten::fill_", "Scalar", part, value_int(1)));
    value_drop(part);
}
