/*
 * Gathering a shard, summing a partial; differentiable without an autograd function of our own: the gathered value is a constant into which the own rows are
 * copied in place, as autograd knows (which keeps nothing of them: they may be written afterwards), and a hook on the result sums the gradient over the
 * ranks before it flows into the own rows (gather_history.c).
 */
#include "gather.h"

/* The values without gaps in the host's memory: the tensor itself, or a copy. */
static struct tensor *to_host(struct tensor *tensor, struct tensor **owned) {
    *owned = NULL;
    if (!tensor_is_on_host(tensor))
        return *owned = host_copy(tensor);
    if (!tensor_is_dense(tensor))
        return *owned = TORCH_CALL("aten::contiguous", "", value_tensor(tensor), value_int(0)).tensor;
    return tensor;
}

/* Of the meta device: there is nothing to exchange, and nothing that could be copied to the host. The same on all ranks for what all have as large. */
static bool has_only_sizes(struct tensor *tensor) {
    return !tensor_is_on_host(tensor) && tensor_has_no_values(tensor);
}

#define DTYPE_CURE "Convert them first, e.g. by x.float(), or run with -n 1: docs/limits.md says what cannot be exchanged."

void gather_sum_in_place(const char *label, struct tensor *tensor, struct origin origin) {
    enum comm_dtype dtype;
    size_t factor;
    if (!dtype_for_comm(tensor_dtype(tensor), &dtype, &factor))
        shim_problem("AR-DTYPE", DTYPE_CURE, "%s: values of type %d cannot be summed over the ranks", label, tensor_dtype(tensor));
    if (has_only_sizes(tensor))
        return;
    struct tensor *owned, *host = to_host(tensor, &owned);
    struct comm_span span = {tensor_data(host), (size_t)tensor_elements(host) * factor};
    {
        SHIM_COMM_SCOPE;
        origin_note(origin);
        comm_all_reduce(label, &span, 1, dtype, COMM_SUM);
    }
    if (owned) {
        value_drop(TORCH_CALL("aten::copy_", "", value_tensor(tensor), value_tensor(owned), value_bool(false)));
        tensor_release(owned);
    }
}

void sum_doubles(const char *label, double *values, size_t count, struct origin origin) {
    struct comm_span span = {values, count};
    SHIM_COMM_SCOPE;
    origin_note(origin);
    comm_all_reduce(label, &span, 1, COMM_FLOAT64, COMM_SUM);
}

/* Uninitialised, of the tensor's type and device. Owned. */
static struct tensor *empty_laid_out(struct tensor *tensor, size_t dims, const int64_t *sizes, const int64_t *strides) {
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(tensor));
    struct value empty = TORCH_CALL("aten::new_empty_strided", "", plain, value_int_list(sizes, dims), value_int_list(strides, dims),
                                    value_none(), value_none(), value_none(), value_none());
    value_drop(plain);
    return empty.tensor;
}

static struct tensor *empty_dense(struct tensor *tensor, const struct record *record) {
    int64_t sizes[TORCH_DIMS_MAX], strides[TORCH_DIMS_MAX];
    int dims = layout_dense(tensor, record, sizes, strides);
    for (int i = 0; i < dims; i++) /* an expanded dimension cannot be written to: give it memory of its own */
        if (strides[i] == 0 && sizes[i] > 1) {
            int64_t stride = 1;
            for (int j = dims - 1; j >= 0; j--) {
                strides[j] = stride;
                stride *= sizes[j];
            }
            break;
        }
    return empty_laid_out(tensor, (size_t)dims, sizes, strides);
}

void note_layout(struct tensor *whole) {
    comm_note("memory layout of a divided tensor", layout_hash(whole));
}

/* All ranks' rows into a dense tensor in the host's memory: along its divided dimension memory is `blocks` blocks of all ranks' parts in turn. */
static void gather_on_host(const char *label, struct tensor *host, struct tensor *tensor, const struct record *record) {
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(tensor));
    rows_put(host, record, plain.tensor);
    value_drop(plain);
    if (!dtype_bytes(tensor_dtype(host)))
        shim_problem("AR-DTYPE", DTYPE_CURE, "%s: values of type %d cannot be exchanged between the ranks", label, tensor_dtype(host));
    size_t inner = dtype_bytes(tensor_dtype(host)) * (size_t)tensor_strides(host).data[record->dim] * (size_t)record->inner;
    int64_t elements = tensor_elements(host);
    size_t blocks = elements ? (size_t)elements * dtype_bytes(tensor_dtype(host)) / (inner * (size_t)record->total) : 0;
    size_t bytes[BOARD_RANKS_MAX];
    int64_t ranks = shim_world_size();
    for (int64_t r = 0; r < ranks; r++)
        bytes[r] = (size_t)(record->total / ranks + (r < record->total % ranks)) * inner;
    SHIM_COMM_SCOPE;
    origin_note(record->origin);
    note_layout(host); /* ranks that lay their rows out differently would exchange garbage: with one row a layout is ambiguous */
    comm_all_gather(label, tensor_data(host), blocks, bytes);
}

/* All ranks' rows without gaps, and without history. */
static struct tensor *gather_dense(const char *label, struct tensor *tensor, const struct record *record) {
    struct tensor *whole = empty_dense(tensor, record);
    if (has_only_sizes(whole))
        return whole;
    bool is_on_device = !tensor_is_on_host(whole);
    struct tensor *host = is_on_device ? host_empty(whole) : whole;
    gather_on_host(label, host, tensor, record);
    if (is_on_device) {
        host_copy_values(whole, host);
        tensor_release(host);
    }
    return whole;
}

static bool same_strides(struct tensor *tensor, const int64_t *strides) {
    struct sizes own = tensor_strides(tensor), sizes = tensor_sizes(tensor);
    for (size_t i = 0; i < own.count; i++)
        if (sizes.data[i] > 1 && own.data[i] != strides[i])
            return false;
    return true;
}

/* Is it as in one process one row in memory (the gradient of a sum)? A history of it would lead to one rank's. */
static bool is_one_row(struct tensor *tensor, struct tensor *dense, const struct record *record) {
    if (tensor_is_recorded(tensor) || has_only_sizes(dense))
        return false;
    struct value first = TORCH_CALL("aten::narrow", "", value_tensor(dense), value_int(record->dim), value_int(0), value_int(1));
    struct sizes sizes = tensor_sizes(dense);
    value_replace(&first, TORCH_CALL("aten::expand", "", first, value_int_list(sizes.data, sizes.count), value_bool(false)));
    struct value are_alike = TORCH_CALL("aten::equal", "", value_tensor(dense), first);
    value_drop(first);
    return value_flag(&are_alike);
}

/* All ranks' rows, without history, laid out as in one process: columns of a larger tensor have gaps there, too. So contiguous() copies them, a reshape is a
   view where it is one there, and random numbers are drawn in the same order. */
static struct tensor *gather_values(const char *label, struct tensor *tensor, const struct record *record) {
    int64_t sizes[TORCH_DIMS_MAX], strides[TORCH_DIMS_MAX];
    int dims = layout_told(tensor, record, sizes, strides);
    struct tensor *dense = gather_dense(label, tensor, record);
    if (same_strides(dense, strides) || (!strides[record->dim] && !is_one_row(tensor, dense, record)))
        return dense;
    struct tensor *whole = empty_laid_out(tensor, (size_t)dims, sizes, strides);
    layout_copy(value_tensor(whole), value_tensor(dense));
    tensor_release(dense);
    return whole;
}

struct tensor *gather_laid_out(const char *label, struct tensor *tensor, const struct record *record, const int64_t *sizes,
                               const int64_t *strides) {
    OPAQUE_SCOPE;
    struct tensor *whole = empty_laid_out(tensor, (size_t)tensor_dims(tensor), sizes, strides);
    gather_on_host(label, whole, tensor, record);
    return whole;
}

/* Once what an expanded tensor repeats. Owned. */
static struct value unexpanded(struct tensor *tensor, const struct record *record) {
    int64_t strides[TORCH_DIMS_MAX];
    struct sizes own = tensor_strides(tensor);
    memcpy(strides, own.data, own.count * sizeof *strides);
    strides[record->dim] = 1; /* of one row it may be anything */
    tensor_retain(tensor);
    return layout_unexpanded(value_tensor(tensor), strides);
}

/* Repeats it as often as the tensor does: a view where there is a history, else a tensor of the same memory. Takes values; owned. */
static struct tensor *expanded_again(struct tensor *values, struct tensor *tensor, const struct record *record) {
    int64_t sizes[TORCH_DIMS_MAX], strides[TORCH_DIMS_MAX];
    struct sizes wanted = tensor_sizes(tensor), once = tensor_sizes(values), lies = tensor_strides(values);
    bool is_expanded = false;
    for (size_t i = 0; i < wanted.count; i++) {
        bool is_repeated = (int)i != record->dim && wanted.data[i] != once.data[i];
        sizes[i] = is_repeated ? wanted.data[i] : once.data[i];
        strides[i] = is_repeated ? 0 : lies.data[i];
        is_expanded |= is_repeated;
    }
    if (!is_expanded)
        return values;
    struct value owned = value_tensor(values), again;
    if (tensor_requires_grad(values)) {
        again = TORCH_CALL("aten::expand", "", owned, value_int_list(sizes, wanted.count), value_bool(false));
    } else {
        again = value_tensor(empty_laid_out(values, wanted.count, sizes, strides));
        layout_copy(again, owned);
    }
    value_drop(owned);
    return again.tensor;
}

/* Are elements of one row at the same place in memory: expanded, or in windows that overlap (unfold)? The same on all ranks: nothing is asked of the rows. */
static bool repeats_memory(struct tensor *tensor, const struct record *record) {
    struct sizes sizes = tensor_sizes(tensor), strides = tensor_strides(tensor);
    int64_t extent = 0;
    for (uint64_t seen = 0;;) { /* from the smallest stride on */
        int next = -1;
        for (int i = 0; i < (int)sizes.count; i++)
            if (i != record->dim && sizes.data[i] > 1 && !(seen >> i & 1) && (next < 0 || strides.data[i] < strides.data[next]))
                next = i;
        if (next < 0)
            return false;
        if (strides.data[next] <= extent)
            return true;
        extent += (sizes.data[next] - 1) * strides.data[next];
        seen |= 1ull << next;
    }
}

/* The values as they lie are gathered, and read as the tensor's are: resolve_conj() is then a copy where it is one in one process. A view where there is a
   history. Takes values; owned. */
static struct tensor *read_alike(struct tensor *values, struct tensor *tensor) {
    uint64_t bits = tensor_lazy_bits(tensor);
    if (bits && !tensor_requires_grad(values)) {
        *tensor_key_set(values) |= bits;
        return values;
    }
    struct tensor *alike = layout_read_as(values, bits).tensor;
    tensor_release(values);
    return alike;
}

static struct tensor *gather_rows(const char *label, struct tensor *tensor, const struct record *record) {
    bool has_history = tensor_is_recorded(tensor), is_repeated = has_history && repeats_memory(tensor, record);
    struct value source = is_repeated ? TORCH_CALL("aten::view_as", "", value_tensor(tensor), value_tensor(tensor)) : value_none();
    struct value own = unexpanded(is_repeated ? source.tensor : tensor, record);
    struct tensor *values = gather_values(label, own.tensor, record);
    if (has_history)
        rows_put(values, record, own.tensor);
    if (has_history && !is_repeated)
        gather_add_sum_hook(values, label, record->origin);
    value_drop(own);
    struct tensor *whole = expanded_again(values, tensor, record);
    if (is_repeated) {
        gather_add_repeated_hooks(whole, source.tensor, label, record);
        value_drop(source);
    }
    return whole;
}

struct tensor *gather_shard(const char *label, struct tensor *tensor, const struct record *record) {
    OPAQUE_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    struct value lies = layout_read_as(tensor, 0);
    struct tensor *whole = gather_rows(label, lies.tensor, record);
    value_drop(lies);
    return read_alike(whole, tensor);
}

/* Floating sums are taken in double and rounded once, so that a total does not depend on how the rows were divided more than it must. */
static struct tensor *sum_parts(const char *label, struct tensor *tensor, struct origin origin) {
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(tensor));
    record_clear(plain.tensor);
    bool widen = tensor_dtype(tensor) == DTYPE_FLOAT32 || dtype_is_narrow(tensor_dtype(tensor));
    struct value total =
        widen ? TORCH_CALL("aten::to", "dtype", plain, value_int(DTYPE_FLOAT64), value_bool(false), value_bool(true), value_none())
              : TORCH_CALL("aten::clone", "", plain, value_none());
    record_clear(total.tensor);
    gather_sum_in_place(label, total.tensor, origin);
    if (widen)
        value_replace(&total, TORCH_CALL("aten::to", "dtype", total, value_int(tensor_dtype(tensor)), value_bool(false), value_bool(true),
                                         value_none()));
    if (tensor_is_recorded(tensor)) { /* total = own + (total - own), the bracket constant */
        struct value rest = TORCH_CALL("aten::sub", "Tensor", total, plain, value_int(1));
        struct value sum = TORCH_CALL("aten::add", "Tensor", value_tensor(tensor), rest, value_int(1));
        record_clear(sum.tensor);
        /* the sum may differ from the total in its last bit: write the total's values, which the derivative of an addition does not read */
        struct value sum_plain = TORCH_CALL("aten::detach", "", sum);
        value_drop(TORCH_CALL("aten::copy_", "", sum_plain, total, value_bool(false)));
        value_drop(sum_plain);
        value_drop(rest);
        value_drop(total);
        gather_add_sum_hook(sum.tensor, label, origin);
        total = sum;
    }
    value_drop(plain);
    return total.tensor;
}

struct tensor *gather_partial(const char *label, struct tensor *tensor) {
    OPAQUE_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    struct value lies = layout_read_as(tensor, 0);
    struct tensor *total = sum_parts(label, lies.tensor, record_get(tensor).origin);
    value_drop(lies);
    return read_alike(total, tensor);
}

void mark_gathered(struct tensor *tensor, bool is_view) {
    if (tensor == torch_facts.undefined || (!is_view && !tensor_requires_grad(tensor)) || !tensor_is_plain(tensor))
        record_clear(tensor);
    else
        record_set(tensor, (struct record){.kind = RECORD_GATHERED, .is_view_of_gathered = is_view});
}

struct tensor *gather_as_seen(struct tensor *alias, struct record *record) {
    OPAQUE_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    int64_t sizes[TORCH_DIMS_MAX], strides[TORCH_DIMS_MAX];
    int dims = layout_told(alias, record, sizes, strides);
    struct value whole = value_tensor(record->kind == RECORD_SHARD ? gather_shard("memory read by the program", alias, record)
                                                                   : gather_partial("memory read by the program", alias));
    if (same_strides(whole.tensor, strides))
        return whole.tensor;
    whole = layout_unexpanded(whole, strides);
    struct value base = TORCH_CALL("aten::new_empty_strided", "", whole, value_int_list(tensor_sizes(whole.tensor).data, (size_t)dims),
                                   value_int_list(strides, (size_t)dims), value_none(), value_none(), value_none(), value_none());
    value_drop(TORCH_CALL("aten::copy_", "", base, whole, value_bool(false)));
    value_drop(whole);
    struct value seen = TORCH_CALL("aten::expand", "", base, value_int_list(sizes, (size_t)dims), value_bool(false));
    value_drop(base);
    return seen.tensor;
}
