/*
 * Where the elements of the whole would lie. Dense: what a gather makes. As the program is told: this rank's memory is that of one process but for the rows of
 * the others, so blocks of this rank's rows become blocks of all rows, and what moves within a row, or from block to block, keeps its place:
 *
 *   one process   | row 0 | row 1 | row 2 | row 3 | row 0 | row 1 | ...      a block: all rows (times what is merged behind them)
 *   rank 1 of 2   | row 2 | row 3 | row 2 | ...                              a block: its own
 *
 * So a column (h[:, 1]) has the stride of a row, and the last of several steps (r[-1]) begins where it does in one process.
 */
#include "../shim.h"
#include "functions.h"

int layout_dense(struct tensor *tensor, const struct record *record, int64_t *sizes, int64_t *strides) {
    struct sizes local_sizes = tensor_sizes(tensor), local_strides = tensor_strides(tensor);
    int dims = (int)local_sizes.count;
    memcpy(sizes, local_sizes.data, (size_t)dims * sizeof *sizes);
    memcpy(strides, local_strides.data, (size_t)dims * sizeof *strides);
    if (record->kind != RECORD_SHARD)
        return dims;
    sizes[record->dim] = record_total(record);
    int order[TORCH_DIMS_MAX];
    for (int i = 0; i < dims; i++) { /* insertion sort by stride, outermost first; equal strides keep the order of dimensions */
        int place = i;
        for (; place > 0 && local_strides.data[order[place - 1]] < local_strides.data[i]; place--)
            order[place] = order[place - 1];
        order[place] = i;
    }
    int64_t stride = 1;
    for (int i = dims - 1; i >= 0; i--) {
        int dim = order[i];
        if (local_strides.data[dim] == 0 && local_sizes.data[dim] > 1) { /* expanded: stays so */
            strides[dim] = 0;
            continue;
        }
        strides[dim] = stride;
        stride *= sizes[dim] ? sizes[dim] : 1;
    }
    return dims;
}

/* A distance that moves within a row or from block to block; elsewhere it would lead to another rank's row. */
static bool stays_in_row(const struct layout_block *block, int64_t distance) {
    return distance % block->own < block->row;
}

bool layout_block(struct tensor *tensor, const struct record *record, struct layout_block *block) {
    if (record->kind != RECORD_SHARD || record_total(record) < 1)
        return false;
    struct sizes sizes = tensor_sizes(tensor), strides = tensor_strides(tensor);
    int64_t row = record->inner * strides.data[record->dim];
    *block = (struct layout_block){row, row * record->rows, row * record->total};
    if (block->own < 1 || !stays_in_row(block, tensor_own_offset(tensor)))
        return false;
    for (int i = 0; i < (int)sizes.count; i++)
        if (i != record->dim && sizes.data[i] > 1 && !stays_in_row(block, strides.data[i]))
            return false;
    return true;
}

static int64_t in_whole(const struct layout_block *block, int64_t distance) {
    return distance / block->own * block->whole + distance % block->own;
}

int layout_told(struct tensor *tensor, const struct record *record, int64_t *sizes, int64_t *strides) {
    struct layout_block block;
    int dims = layout_dense(tensor, record, sizes, strides);
    if (!layout_block(tensor, record, &block))
        return dims;
    struct sizes local = tensor_strides(tensor);
    for (int i = 0; i < dims; i++)
        strides[i] = i == record->dim ? local.data[i] : in_whole(&block, local.data[i]);
    return dims;
}

int64_t layout_told_offset(struct tensor *tensor, const struct record *record) {
    struct layout_block block;
    int64_t offset = tensor_own_offset(tensor);
    return layout_block(tensor, record, &block) ? in_whole(&block, offset) : offset;
}

struct value layout_unexpanded(struct value tensor, const int64_t *strides) {
    int dims = (int)tensor_dims(tensor.tensor);
    for (int i = 0; i < dims; i++)
        if (!strides[i] && tensor_size(tensor.tensor, i) > 1)
            value_replace(&tensor, TORCH_CALL("aten::narrow", "", tensor, value_int(i), value_int(0), value_int(1)));
    return tensor;
}

void layout_copy(struct value to, struct value from) {
    const int64_t *strides = tensor_strides(to.tensor).data;
    tensor_retain(to.tensor);
    tensor_retain(from.tensor);
    struct value own = layout_unexpanded(to, strides), values = layout_unexpanded(from, strides);
    value_drop(TORCH_CALL("aten::copy_", "", own, values, value_bool(false)));
    value_drop(own);
    value_drop(values);
}

struct value layout_read_as(struct tensor *tensor, uint64_t bits) {
    tensor_retain(tensor);
    struct value view = value_tensor(tensor);
    uint64_t others = tensor_lazy_bits(tensor) ^ bits; /* each call turns one around */
    if (others & torch_facts.bit_conjugate)
        value_replace(&view, TORCH_CALL("aten::_conj", "", view));
    if (others & torch_facts.bit_negative)
        value_replace(&view, TORCH_CALL("aten::_neg_view", "", view));
    if (others)
        record_clear(view.tensor);
    return view;
}

uint64_t layout_hash(struct tensor *tensor) {
    struct sizes strides = tensor_strides(tensor), sizes = tensor_sizes(tensor);
    uint64_t layout = 0;
    for (size_t i = 0; i < strides.count; i++)
        layout = (layout + (uint64_t)(sizes.data[i] > 1 ? strides.data[i] : 0)) * 0x9E3779B97F4A7C15ull;
    return layout;
}
