/*
 * The program takes the storage of a divided tensor (storage(), in Python with it deepcopy, pickle and torch.save) and puts it together with
 * the sizes, strides and offset that the tensor tells, which are the whole batch's (shim/torch/layout.c). It gets what the storage is in one process: all
 * blocks of rows, of which the tensor may be a part only, so that all tensors that share a storage share the one that stands in for it.
 */
#include "copies.h"
#include "window.h"

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

/* The storage as a divided tensor: blocks x own rows x elements of a row; of a sum: its elements. */
struct blocks {
    int64_t sizes[3], strides[3];
    int dims;
    struct record record;
    bool is_alone; /* no rank knows of another thread that has come to divided tensors */
};

/* -1: not known. */
static int64_t storage_bytes(const void *storage) {
    static _Atomic long field;
    long known = atomic_load(&field);
    if (!known) {
        known = find_bytes_field();
        atomic_store(&field, known = known ? known : -1);
    }
    return known > 0 ? ((const int64_t *)storage)[known] : -1;
}

static int64_t storage_elements(struct tensor *tensor) {
    int64_t known = storage_bytes(tensor_own_storage(tensor)), bytes = (int64_t)dtype_bytes(tensor_dtype(tensor));
    return known > 0 && bytes ? known / bytes : 0;
}

char *storage_memory(const void *storage, size_t bytes) {
    int64_t known = storage_bytes(storage);
    return known < 0 || (int64_t)bytes <= known ? *(char *const *)((const char *)storage + torch_facts.storage_data) : NULL;
}

/* False: it does not consist of blocks, as far as this rank can see. */
static bool blocks_find(struct tensor *tensor, const struct record *record, struct blocks *blocks) {
    struct layout_block block;
    int64_t elements = storage_elements(tensor);
    if (record->kind == RECORD_PARTIAL) {
        *blocks = (struct blocks){{elements}, {1}, 1, {.kind = RECORD_PARTIAL, .packed = record->packed}, false};
        return elements > 0;
    }
    if (!elements || !layout_block(tensor, record, &block) || elements % block.own)
        return false;
    *blocks = (struct blocks){{elements / block.own, record->rows, block.row}, {block.own, block.row, 1}, 3, *record, false};
    blocks->record.dim = 1;
    blocks->record.outer = blocks->record.inner = 1;
    return true;
}

/* What a rank sees of a storage. */
enum { IS_ALONE = 1, BLOCK = 2 };

/* Storages may hold more on some ranks than on others (a row that all have read), so what this one sees is not enough. Is each rank's thread alone, as far as
   it knows: *are_alone. A collective. */
static bool all_agree(uint64_t seen, bool *are_alone) {
    uint64_t all[BOARD_RANKS_MAX];
    *are_alone = true;
    SHIM_COMM_SCOPE;
    comm_all_gather_words("blocks of rows in a storage", seen, all);
    for (uint32_t rank = 0; rank < shim_world_size(); rank++) {
        *are_alone &= all[rank] & IS_ALONE;
        if (all[rank] < BLOCK || all[rank] / BLOCK != all[0] / BLOCK)
            return false;
    }
    return true;
}

static struct tensor *blocks_stand_in(struct tensor *tensor, const struct blocks *blocks) {
    struct value divided;
    {
        OPAQUE_SCOPE;
        OUTSIDE_TRANSFORM_SCOPE;
        struct value plain = TORCH_CALL("aten::detach", "", value_tensor(tensor));
        divided = TORCH_CALL("aten::as_strided", "", plain, value_int_list(blocks->sizes, (size_t)blocks->dims),
                             value_int_list(blocks->strides, (size_t)blocks->dims), value_int(0));
        value_drop(plain);
        record_set(divided.tensor, blocks->record);
    }
    struct tensor *whole = read_stand_in_as(divided.tensor, blocks->is_alone ? COPY_OF_MEMORY : COPY_OF_STORAGE);
    value_drop(divided);
    return whole;
}

/* Does it consist of blocks, as many on all ranks? */
static bool blocks_agreed(struct tensor *tensor, const struct record *record, struct blocks *blocks) {
    OPAQUE_SCOPE;
    uint64_t seen = blocks_find(tensor, record, blocks) ? (uint64_t)blocks->sizes[0] * BLOCK : 0;
    read_meet_thread();
    return all_agree(seen + (read_is_beside_others() ? 0 : IS_ALONE), &blocks->is_alone);
}

static bool is_empty(struct tensor *tensor) {
    OPAQUE_SCOPE;
    return storage_elements(tensor) == 0;
}

/* From its storage's beginning, as the gradient of a sum does. */
static bool repeats_one_row(struct tensor *tensor, const struct record *record) {
    return record->kind == RECORD_SHARD && !tensor_strides(tensor).data[record->dim] && !tensor_own_offset(tensor);
}

struct tensor *storage_stand_in(struct tensor *tensor) {
    struct record record = record_get(tensor);
    struct blocks blocks;
    if ((record.kind != RECORD_SHARD && record.kind != RECORD_PARTIAL) || is_empty(tensor) || shim_is_worker())
        return read_stand_in(tensor);
    TURN_SCOPE(turn, read_turn(tensor, &record, true));
    struct tensor *whole = read_stand_in_at_hand(tensor, &record, copies_is_of_storage);
    if (whole)
        return whole;
    if (!blocks_agreed(tensor, &record, &blocks)) {
        if (repeats_one_row(tensor, &record))
            return read_stand_in(tensor);
        shim_problem("AR-STORAGE", "Copy it first, e.g. x.clone(), or save x.numpy().",
                     "the program takes the storage (deepcopy, pickle, torch.save, storage()) of a tensor whose rows are divided among the "
                     "ranks, and whose memory does not consist of rows");
    }
    return blocks_stand_in(tensor, &blocks);
}

/* Not so an unfolded or expanded view of a part that has as many elements. */
static bool is_all_of_storage(struct tensor *tensor) {
    return storage_elements(tensor) == tensor_elements(tensor) && tensor_is_dense(tensor) && !tensor_own_offset(tensor);
}

/* Is all of it to be put together for the tensor? Not for a part beside other threads: which of those comes first to look at its own, or writes it, is another
   one on each rank. A collective. */
static bool is_of_all(struct tensor *tensor, const struct record *record, struct blocks *blocks) {
    return blocks_agreed(tensor, record, blocks) && (blocks->is_alone || is_all_of_storage(tensor));
}

static struct tensor *stand_in_of_divided(struct tensor *tensor, const struct record *record) {
    struct blocks blocks;
    TURN_SCOPE(turn, read_turn(tensor, record, false));
    bool is_known = read_copy_at_hand(tensor, record); /* as it is: its address stays */
    struct tensor *whole = is_known ? NULL : read_stand_in_at_hand(tensor, record, copies_is_of_memory);
    if (!whole && !is_known && is_of_all(tensor, record, &blocks))
        whole = blocks_stand_in(tensor, &blocks);
    return whole ? whole : read_stand_in(tensor);
}

static int64_t offset_within(struct tensor *whole, struct tensor *tensor, const struct record *record) {
    COPIES_SCOPE;
    const struct copy *copy = copies_with_whole(tensor_storage(whole));
    return copy && copy->extent >= COPY_OF_STORAGE ? layout_told_offset(tensor, record) : tensor_storage_offset(whole);
}

struct tensor *memory_stand_in(struct tensor *tensor, int64_t *offset) {
    struct record record = record_get(tensor);
    bool is_divided = record.kind == RECORD_SHARD || record.kind == RECORD_PARTIAL;
    bool has_rank = tensor_is_on_host(tensor) && !shim_is_worker();
    struct tensor *whole = is_divided && has_rank ? stand_in_of_divided(tensor, &record) : read_stand_in(tensor);
    if (whole)
        *offset = offset_within(whole, tensor, &record);
    if (read_is_by_program(tensor))
        window_release_let_go();
    return whole;
}

/* Complex numbers of a memory of real ones: which may have one more than pairs. */
static struct value complex_part(struct tensor *whole, struct extent told) {
    for (int i = 0; i < told.dims; i++)
        told.strides[i] *= 2;
    told.offset *= 2;
    told.sizes[told.dims] = 2;
    told.strides[told.dims++] = 1;
    struct value pairs = window_part(whole, &told), part = TORCH_CALL("aten::view_as_complex", "", pairs);
    value_drop(pairs);
    return part;
}

struct value storage_part(struct tensor *whole, int64_t offset, struct tensor *tensor, const struct record *record) {
    struct extent told = extent_told(tensor, record);
    told.offset = offset;
    if (tensor_dtype(whole) == tensor_dtype(tensor))
        return window_part(whole, &told);
    bool is_of_pairs = dtype_is_floating(tensor_dtype(whole)) && !dtype_is_floating(tensor_dtype(tensor)) &&
                       dtype_bytes(tensor_dtype(tensor)) == 2 * dtype_bytes(tensor_dtype(whole));
    if (is_of_pairs && told.dims < TORCH_DIMS_MAX)
        return complex_part(whole, told);
    struct value as_type = TORCH_CALL("aten::view", "dtype", value_tensor(whole), value_int(tensor_dtype(tensor)));
    struct value part = window_part(as_type.tensor, &told);
    value_drop(as_type);
    return part;
}

/* What stands in for the tensor's memory, laid out as the tensor is told to be. None: its own does. Owned. */
static struct value memory_as_told(struct tensor *tensor) {
    int64_t offset;
    struct tensor *whole = read_is_by_program(tensor) ? memory_stand_in(tensor, &offset) : NULL;
    if (!whole)
        return value_none();
    OPAQUE_SCOPE;
    OUTSIDE_TRANSFORM_SCOPE;
    struct record record = record_get(tensor);
    return storage_part(whole, offset, tensor, &record);
}

static void drop(struct value *value) {
    value_drop(*value);
}

/* A view made for the taker shares the memory: the copy's. */
void *hook_to_dlpack(struct tensor **self) {
    __attribute__((cleanup(drop))) struct value seen = memory_as_told(*self);
    return ORIGINAL(to_dlpack)(value_is_tensor(&seen) ? &seen.tensor : self);
}

void *hook_to_dlpack_versioned(struct tensor **self) {
    __attribute__((cleanup(drop))) struct value seen = memory_as_told(*self);
    return ORIGINAL(to_dlpack_versioned)(value_is_tensor(&seen) ? &seen.tensor : self);
}
