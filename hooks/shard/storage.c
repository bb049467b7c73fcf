/*
 * The program takes the storage of a divided tensor (storage(), in Python with it deepcopy, pickle and torch.save) and puts it together with
 * the sizes, strides and offset that the tensor tells, which are the whole batch's: it gets the storage of the copy that stands in for the
 * tensor's memory (read.c). Tensors that share a storage must share the copy's: where they are of different extent the program is stopped.
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

/* What record_each looks for, which hands nothing through. Python's global lock is held. */
static struct {
    const int64_t *storage;
    int64_t bytes;
    struct tensor *tensor; /* of those that are not what the storage holds the first in an order that is the same on all ranks */
    uint64_t order;
    int64_t extent;
    bool is_ambiguous;
} wanted;

static void compare_storage(struct tensor *tensor, const struct record *record) {
    if ((record->kind != RECORD_SHARD && record->kind != RECORD_PARTIAL) || tensor_storage(tensor) != (void *)wanted.storage)
        return;
    int64_t sizes[TORCH_DIMS_MAX], strides[TORCH_DIMS_MAX], last = 0;
    int dims = record_full_shape(tensor, record, sizes, strides);
    uint64_t order = (uint64_t)dims;
    for (int i = 0; i < dims; i++) {
        last += (sizes[i] - 1) * strides[i];
        order = (order ^ (uint64_t)sizes[i] ^ (uint64_t)strides[i] << 32) * 0x9E3779B97F4A7C15ull;
    }
    int64_t extent = (last + 1) * (int64_t)dtype_bytes(tensor_dtype(tensor));
    if (record->kind == RECORD_SHARD && extent <= wanted.bytes)
        return; /* the rows of a batch that has just entered: a view of the batch's own storage, which holds all of it */
    wanted.is_ambiguous |= tensor_storage_offset(tensor) != 0 || (wanted.tensor && wanted.extent != extent);
    if (wanted.tensor && wanted.order <= order)
        return;
    wanted.tensor = tensor;
    wanted.order = order;
    wanted.extent = extent;
}

struct tensor *storage_stand_in(struct tensor *tensor) {
    static _Atomic long field;
    long known = atomic_load(&field);
    if (!known)
        atomic_store(&field, known = find_bytes_field());
    memset(&wanted, 0, sizeof wanted);
    {
        OPAQUE_SCOPE;
        wanted.storage = tensor_storage(tensor);
    }
    wanted.bytes = known ? wanted.storage[known] : 0;
    record_each(compare_storage);
    if (!wanted.tensor)
        return NULL;
    struct tensor *whole = wanted.is_ambiguous ? NULL : read_stand_in(wanted.tensor);
    if (!whole)
        shim_problem("AR-STORAGE", "Copy the part first, e.g. x[:, :2].clone(), or save x.numpy().",
                     "the program takes the storage (deepcopy, pickle, torch.save, storage()) of a tensor whose rows are divided among the "
                     "ranks and which shares "
                     "memory with another part of itself");
    return whole;
}
