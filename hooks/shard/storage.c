/*
 * The program takes the storage of a divided tensor (storage(), in Python with it deepcopy, pickle and torch.save) and puts it together with
 * the sizes, strides and offset that the tensor tells, which are the whole batch's (shim/torch/layout.c). It gets what the storage is in one process: all
 * blocks of rows, of which the tensor may be a part only, so that all tensors that share a storage share the one that stands in for it.
 */
#include "shard.h"

/* How many bytes a StorageImpl holds: the word that tells 8 * 12347 in one made for that. 0: not found. */
static long find_bytes_field(void) {
    enum { NUMBERS = 12347, WORDS = 24 };
    OPAQUE_SCOPE;
    struct value made =
        TORCH_CALL("aten::arange", "start", value_int(0), value_int(NUMBERS), value_none(), value_none(), value_none(), value_none());
    const int64_t *words = tensor_storage(made.tensor);
    long found = 0;
    for (long i = 1; i < WORDS && !found; i++)
        if (words[i] == 8 * NUMBERS)
            found = i;
    value_drop(made);
    return found;
}

/* The storage as a divided tensor: blocks x own rows x elements of a row. Owned, marked; NULL: it does not consist of blocks. */
static struct tensor *storage_as_blocks(struct tensor *tensor, const struct record *record, int64_t bytes) {
    struct layout_block block;
    if (!layout_block(tensor, record, &block))
        return NULL;
    int64_t elements = bytes / (int64_t)dtype_bytes(tensor_dtype(tensor));
    if (elements % block.own)
        return NULL;
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(tensor));
    struct value blocks =
        TORCH_CALL("aten::as_strided", "", plain, value_int_list((int64_t[]){elements / block.own, record->rows, block.row}, 3),
                   value_int_list((int64_t[]){block.own, block.row, 1}, 3), value_int(0));
    value_drop(plain);
    record_set(
        blocks.tensor,
        (struct record){
            .kind = RECORD_SHARD, .dim = 1, .total = record->total, .first = record->first, .rows = record->rows, .outer = 1, .inner = 1});
    return blocks.tensor;
}

/* The same of a sum, of which each rank has a part of every element. */
static struct tensor *storage_as_parts(struct tensor *tensor, const struct record *record, int64_t bytes) {
    int64_t elements = bytes / (int64_t)dtype_bytes(tensor_dtype(tensor)), one = 1;
    struct value plain = TORCH_CALL("aten::detach", "", value_tensor(tensor));
    struct value parts = TORCH_CALL("aten::as_strided", "", plain, value_int_list(&elements, 1), value_int_list(&one, 1), value_int(0));
    value_drop(plain);
    record_set(parts.tensor, (struct record){.kind = RECORD_PARTIAL, .packed = record->packed});
    return parts.tensor;
}

static struct tensor *storage_as_divided(struct tensor *tensor, const struct record *record) {
    static _Atomic long field;
    OPAQUE_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    long known = atomic_load(&field);
    if (!known)
        atomic_store(&field, known = find_bytes_field());
    int64_t bytes = known ? ((const int64_t *)tensor_storage(tensor))[known] : 0;
    if (!bytes)
        return NULL;
    return record->kind == RECORD_SHARD ? storage_as_blocks(tensor, record, bytes) : storage_as_parts(tensor, record, bytes);
}

static int64_t elements_of(struct tensor *tensor) {
    OPAQUE_SCOPE;
    return tensor_elements(tensor);
}

struct tensor *storage_stand_in(struct tensor *tensor) {
    struct record record = record_get(tensor);
    if (record.kind != RECORD_SHARD && record.kind != RECORD_PARTIAL)
        return read_stand_in(tensor);
    struct tensor *divided = storage_as_divided(tensor, &record);
    if (!divided)
        shim_problem("AR-STORAGE", "Copy it first, e.g. x.clone(), or save x.numpy().",
                     "the program takes the storage (deepcopy, pickle, torch.save, storage()) of a tensor whose rows are divided among the "
                     "ranks, and whose memory does not consist of rows");
    struct tensor *whole = read_stand_in_of_storage(divided);
    tensor_release(divided);
    return whole;
}

/* Pointers to all of a storage, however it is looked at (h, h.t(), h.view(-1)), are pointers to one memory. Of a part, only the part is put together. */
struct tensor *memory_stand_in(struct tensor *tensor) {
    struct record record = record_get(tensor);
    if (record.kind != RECORD_SHARD || !tensor_is_on_host(tensor))
        return read_stand_in(tensor);
    struct tensor *whole = read_stand_in_at_hand(tensor, &record);
    if (whole)
        return whole;
    struct tensor *divided = storage_as_divided(tensor, &record);
    if (!divided)
        return read_stand_in(tensor);
    bool is_all = elements_of(divided) == elements_of(tensor);
    whole = is_all ? read_stand_in_of_storage(divided) : read_stand_in(tensor);
    tensor_release(divided);
    return whole;
}
