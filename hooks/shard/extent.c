/* Memory of tensors, element by element, where no operator may be asked: copies that stand in for divided memory (read.c). */
#include <stdlib.h>

#include "shard.h"

size_t extent_bytes(struct tensor *tensor) {
    struct sizes sizes = tensor_sizes(tensor), strides = tensor_strides(tensor);
    int64_t last = 0;
    for (size_t i = 0; i < sizes.count; i++) {
        if (!sizes.data[i])
            return 0;
        last += (sizes.data[i] - 1) * strides.data[i];
    }
    return (size_t)(last + 1) * dtype_bytes(tensor_dtype(tensor));
}

struct extent extent_of(struct tensor *tensor) {
    struct sizes sizes = tensor_sizes(tensor), strides = tensor_strides(tensor);
    struct extent extent = {.dims = -1};
    if (sizes.count > TORCH_DIMS_MAX)
        return extent;
    extent.dims = (int)sizes.count;
    extent.offset = tensor_own_offset(tensor);
    memcpy(extent.sizes, sizes.data, sizes.count * sizeof *sizes.data);
    memcpy(extent.strides, strides.data, sizes.count * sizeof *strides.data);
    return extent;
}

struct extent extent_told(struct tensor *tensor, const struct record *record) {
    struct extent told = {.offset = layout_told_offset(tensor, record)};
    told.dims = layout_told(tensor, record, told.sizes, told.strides);
    return told;
}

int64_t extent_end(const struct extent *extent) {
    int64_t end = extent->offset + 1;
    for (int i = 0; i < extent->dims; i++) {
        if (!extent->sizes[i])
            return 0;
        end += (extent->sizes[i] - 1) * extent->strides[i];
    }
    return end;
}

uint64_t extent_checksum(struct tensor *tensor) {
    return checksum_bytes(0, tensor_data(tensor), extent_bytes(tensor));
}

struct walk {
    const int64_t *sizes, *to_strides, *from_strides;
    int dims;
    size_t bytes;
};

/* Element by element; from NULL: zeros. */
static void walk_copy(const struct walk *walk, int dim, char *to, const char *from) {
    if (dim == walk->dims) {
        if (from)
            memcpy(to, from, walk->bytes);
        else
            memset(to, 0, walk->bytes);
        return;
    }
    for (int64_t i = 0; i < walk->sizes[dim]; i++)
        walk_copy(walk, dim + 1, to + i * walk->to_strides[dim] * (int64_t)walk->bytes,
                  from ? from + i * walk->from_strides[dim] * (int64_t)walk->bytes : NULL);
}

void extent_write_back(struct tensor *own, struct tensor *whole, const struct record *record) {
    struct sizes sizes = tensor_sizes(own), to_strides = tensor_strides(own), from_strides = tensor_strides(whole);
    size_t bytes = dtype_bytes(tensor_dtype(own));
    const char *from = tensor_data(whole);
    if (record->kind == RECORD_PARTIAL && packed_is_seen(own))
        shim_problem("AR-WRITE-MEMORY", "Write to the padded sequences instead, or run with -n 1.",
                     "the program wrote through a pointer into the elements of packed sequences, of which each rank has its own");
    if (record->kind != RECORD_SHARD) {
        struct walk walk = {sizes.data, to_strides.data, from_strides.data, (int)sizes.count, bytes};
        walk_copy(&walk, 0, tensor_own_data(own), shim_rank() == 0 ? from : NULL);
        return;
    }
    int64_t shape[TORCH_DIMS_MAX + 1], to[TORCH_DIMS_MAX + 1],
        source[TORCH_DIMS_MAX + 1]; /* the divided dimension taken apart, rows last */
    for (int i = 0; i < (int)sizes.count; i++) {
        shape[i] = i == record->dim ? record->outer : sizes.data[i];
        to[i] = to_strides.data[i] * (i == record->dim ? record->rows * record->inner : 1);
        source[i] = from_strides.data[i] * (i == record->dim ? record->total * record->inner : 1);
    }
    shape[sizes.count] = record->rows * record->inner;
    to[sizes.count] = to_strides.data[record->dim];
    source[sizes.count] = from_strides.data[record->dim];
    struct walk walk = {shape, to, source, (int)sizes.count + 1, bytes};
    walk_copy(&walk, 0, tensor_own_data(own), from + record->first * record->inner * from_strides.data[record->dim] * (int64_t)bytes);
}

/* A bit for each byte that the two lie in: which of them the first has; or, once that is known, are any of them the other's? */
static bool visit_bytes(struct tensor *tensor, const char *begin, unsigned char *bits, bool is_first) {
    struct sizes sizes = tensor_sizes(tensor), strides = tensor_strides(tensor);
    int64_t width = (int64_t)dtype_bytes(tensor_dtype(tensor)), elements = tensor_elements(tensor);
    for (int64_t element = 0; element < elements; element++) {
        int64_t at = (const char *)tensor_data(tensor) - begin, left = element;
        for (size_t i = sizes.count; i-- > 0; left /= sizes.data[i])
            at += left % sizes.data[i] * strides.data[i] * width;
        for (int64_t byte = at; byte < at + width; byte++) {
            if (is_first)
                bits[byte / 8] |= (unsigned char)(1 << byte % 8);
            else if (bits[byte / 8] >> byte % 8 & 1)
                return true;
        }
    }
    return false;
}

bool extent_meets(struct tensor *one, struct tensor *other) {
    enum { BITS_MAX = 1 << 28 };
    const char *begin = tensor_data(one), *other_begin = tensor_data(other);
    const char *end = begin + extent_bytes(one), *other_end = other_begin + extent_bytes(other);
    const char *least = begin < other_begin ? begin : other_begin, *most = end > other_end ? end : other_end;
    unsigned char *bits = (most - least) / 8 < BITS_MAX ? calloc((size_t)(most - least) / 8 + 1, 1) : NULL;
    if (!bits)
        return true;
    visit_bytes(one, least, bits, true);
    bool is_met = visit_bytes(other, least, bits, false);
    free(bits);
    return is_met;
}
