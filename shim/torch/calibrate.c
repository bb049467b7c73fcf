/*
 * Finds every offset of libtorch at run time, by calling known operators on private tensors and looking for what must be there. Nothing here depends on
 * a version number; the values found on ten releases stand in docs/how-it-works.md.
 */
#include <stdlib.h>

#include "../shim.h"
#include "../resolve.h"
#include "functions.h"

struct torch_facts torch_facts;

static uint64_t key_bit(int key) {
    return 1ull << (torch_facts.backend_count + key - 1);
}

/* initializeFunctionalityOffsetsAndMasks returns {offset, mask} per functionality: where its rows stand in the dispatch table and which backend bits choose
   among them. The first with a mask tells the number of backends. */
static void calibrate_offsets(void) {
    uint16_t pairs[512];
    memset(pairs, 0xff, sizeof pairs);
    ((void (*)(void *))torch_functions.offsets_and_masks)(pairs);
    int count = 0;
    while (count < 256 && pairs[2 * count] != 0xffff) {
        torch_facts.offset[count] = pairs[2 * count];
        torch_facts.mask[count] = pairs[2 * count + 1];
        count++;
    }
    torch_facts.functionality_count = count;
    for (int i = 0; i < count && !torch_facts.backend_count; i++)
        torch_facts.backend_count = __builtin_popcount(torch_facts.mask[i]);
    if (count < 20 || count > 60 || torch_facts.backend_count < 8)
        torch_unsupported("dispatch keys", "%d functionalities, %d backends", count, torch_facts.backend_count);
}

static int key_by_name(const char *name) {
    for (int key = 1; key < torch_facts.functionality_count + 200; key++) {
        const char *text = torch_functions.key_name((uint16_t)key);
        if (text && !strcmp(text, name))
            return key;
    }
    torch_unsupported("dispatch keys", "no key is called %s", name);
}

void calibrate_keys(void) {
    calibrate_offsets();
    torch_facts.key_shard = (uint16_t)key_by_name("TESTING_ONLY_GenericWrapper");
    torch_facts.key_parameter = (uint16_t)key_by_name("TESTING_ONLY_GenericMode");
    torch_facts.key_composite = (uint16_t)key_by_name("CompositeImplicitAutograd");
    torch_facts.bit_shard = key_bit(torch_facts.key_shard);
    torch_facts.bit_parameter = key_bit(torch_facts.key_parameter);
    torch_facts.bit_tracer = key_bit(key_by_name("Tracer"));
    torch_facts.bit_zero = key_bit(key_by_name("ZeroTensor"));
    torch_facts.bit_conjugate = key_bit(key_by_name("Conjugate"));
    torch_facts.bit_negative = key_bit(key_by_name("Negative"));
    torch_facts.bit_wrapped = key_bit(key_by_name("FuncTorchGradWrapper"));
    torch_facts.bits_transform =
        key_bit(key_by_name("FuncTorchDynamicLayerFrontMode")) | key_bit(key_by_name("FuncTorchDynamicLayerBackMode"));
    torch_facts.bits_mode = key_bit(key_by_name("Python")) | key_bit(key_by_name("PythonTLSSnapshot"));
    torch_facts.bit_autograd = key_bit(key_by_name("AutogradFunctionality"));
    torch_facts.bit_sparse = key_bit(key_by_name("Sparse"));
    torch_facts.bit_cpu = 1;
    torch_facts.default_included = key_bit(key_by_name("BackendSelect")) | key_bit(key_by_name("ADInplaceOrView"));
    for (int key = 1; key < torch_facts.functionality_count; key++) {
        const char *name = torch_functions.key_name((uint16_t)key);
        if (name && !strncmp(name, "Autocast", 8))
            torch_facts.default_excluded |= key_bit(key);
    }
    torch_facts.undefined = resolve_data("libc10", "_ZN3c1019UndefinedTensorImpl10_singletonE");
    if (!torch_facts.undefined)
        torch_unsupported("undefined tensor", "no UndefinedTensorImpl::_singleton");
}

/* Our fallback stands in two neighbouring rows of every operator: their places give the first row and the distance of two. */
void calibrate_table(uint16_t key, uint16_t next_key, void *fallback) {
    struct handle handle;
    torch_functions.find_schema(&handle, torch_functions.dispatcher(), "aten::add", "Tensor");
    long places[2];
    int found = 0;
    for (long at = 0; at < 16384 && found < 2; at += 8)
        if (*(void **)(handle.definition + at) == fallback)
            places[found++] = at;
    int rows = torch_facts.offset[next_key] - torch_facts.offset[key];
    if (found < 2 || rows < 1 || (places[1] - places[0]) % rows)
        torch_unsupported("dispatch table", "%d rows of ours found, %d rows apart", found, rows);
    torch_facts.table_stride = (places[1] - places[0]) / rows;
    torch_facts.table = places[0] - torch_facts.table_stride * torch_facts.offset[key];
    torch_facts.overload = torch_functions.register_fallback_new_string ? 32 : 8; /* sizeof(std::string) of the build's string ABI */
    if (strcmp(*(char **)handle.definition, "aten::add") || strcmp(*(char **)(handle.definition + torch_facts.overload), "Tensor"))
        torch_unsupported("operator names", "aten::add.Tensor has another name");
}

/* An arange of `count` elements; dtype < 0: none given. Needs no key set: BackendSelect makes it. */
static struct value calibration_range(int64_t first, int64_t end, int dtype) {
    struct handle handle;
    torch_functions.find_schema(&handle, torch_functions.dispatcher(), "aten::arange", "start");
    struct stack stack;
    stack.begin = calloc(8, sizeof(struct value));
    stack.capacity = stack.begin + 8;
    stack.begin[0] = value_int(first);
    stack.begin[1] = value_int(end);
    stack.begin[2] = dtype < 0 ? value_none() : value_int(dtype);
    for (int i = 3; i < 6; i++)
        stack.begin[i] = value_none();
    stack.end = stack.begin + 6;
    dispatch_kernel(&handle, dispatch_without_fallthrough(&handle, torch_facts.default_included), &stack);
    if (stack.end != stack.begin + 1 || stack.begin[0].tag != TAG_TENSOR)
        torch_unsupported("boxed call", "aten::arange returned no tensor");
    struct value result = stack.begin[0];
    free(stack.begin);
    return result;
}

static void calibrate_key_set(struct tensor *tensor) {
    uint64_t expected = torch_facts.bit_cpu | key_bit(key_by_name("Dense")) | torch_facts.bit_autograd |
                        key_bit(key_by_name("ADInplaceOrView")) | key_bit(key_by_name("AutocastCPU"));
    for (long at = 16; at < 256 && !torch_facts.key_set; at += 8)
        if (*(uint64_t *)((char *)tensor + at) == expected)
            torch_facts.key_set = at;
    if (!torch_facts.key_set)
        torch_unsupported("tensor key set", "not found");
    torch_facts.plain_keys = expected;
    torch_facts.tensor_vtable = *(void **)tensor;
}

/* A new tensor with one owner: both counts are 1. (Since 2.7 the C ABI counts, and what stands here is of no interest.) */
static void calibrate_counts(struct tensor *tensor) {
    const uint32_t *halves = (const uint32_t *)((const char *)tensor + 8);
    if (halves[0] == 1 && halves[1] == 1)
        torch_facts.weak_count = 12;
    else if (halves[0] == 1 && halves[1] == 0 && halves[2] == 1 && halves[3] == 0)
        torch_facts.weak_count = 16;
    else if (!torch_functions.new_tensor_handle || !torch_functions.delete_tensor_object)
        torch_unsupported("reference counts", "%u %u %u %u in a tensor with one owner", halves[0], halves[1], halves[2], halves[3]);
}

static void calibrate_dtype(void) {
    static const int dtypes[] = {DTYPE_FLOAT32, DTYPE_INT64, DTYPE_FLOAT64, DTYPE_INT32, DTYPE_INT16};
    struct value tensors[5];
    for (int i = 0; i < 5; i++)
        tensors[i] = calibration_range(0, 6, dtypes[i]);
    int found = 0;
    for (long at = 16; at < torch_facts.key_set; at += 2) {
        int same = 0;
        for (int i = 0; i < 5; i++)
            same += *(uint16_t *)((char *)tensors[i].tensor + at) == dtypes[i];
        if (same == 5 && !found++)
            torch_facts.dtype = at;
    }
    if (found != 1)
        torch_unsupported("tensor dtype", "%d candidates", found);
    for (int i = 0; i < 5; i++)
        value_drop(tensors[i]);
}

/* storage_: the word of the tensor whose pointee holds the address of the data; storage_offset_: the word that is 0, 3 and 4 for the tensor and two slices. */
static void calibrate_storage(struct tensor *tensor) {
    void *expected = torch_functions.data_float((void **)&tensor);
    for (long at = 8; at < 64 && !torch_facts.storage; at += 8)
        for (long inner = 8; inner < 64 && !torch_facts.storage; inner += 8) {
            void *word;
            if (peek_word(*(char **)((char *)tensor + at) + inner, &word) && word == expected) {
                torch_facts.storage = at;
                torch_facts.storage_data = inner;
            }
        }
    struct value three = TORCH_CALL("aten::narrow", "", value_tensor(tensor), value_int(0), value_int(3), value_int(2));
    struct value four = TORCH_CALL("aten::narrow", "", value_tensor(tensor), value_int(0), value_int(4), value_int(2));
    for (long at = 16; at < torch_facts.key_set && !torch_facts.storage_offset; at += 8)
        if (*(int64_t *)((char *)tensor + at) == 0 && *(int64_t *)((char *)three.tensor + at) == 3 &&
            *(int64_t *)((char *)four.tensor + at) == 4)
            torch_facts.storage_offset = at;
    value_drop(three);
    value_drop(four);
    if (!torch_facts.storage || !torch_facts.storage_offset)
        torch_unsupported("tensor storage", "storage at %ld, offset at %ld", torch_facts.storage, torch_facts.storage_offset);
}

/* Where the words of three tensors fit, at one place only besides a known one of the first's; 0: not found. */
static long word_where(struct tensor *const *tensors, const void *besides, bool (*fits)(int64_t *const *words)) {
    int64_t *words[3];
    long found = 0;
    for (long at = 16; at < torch_facts.key_set; at += 8) {
        for (int i = 0; i < 3; i++)
            words[i] = (int64_t *)((char *)tensors[i] + at);
        if (words[0] == besides || !fits(words))
            continue;
        if (found)
            return 0;
        found = at;
    }
    return found;
}

/* {a tensor, what is detached from it, another tensor}: besides the storage, its version is all that the first two share. Each is an object on the heap: what
   an allocator has left in the gaps between a tensor's fields may be alike, too (seen with the 2.9.1 wheel). */
static bool is_version(int64_t *const *words) {
    bool are_objects = *words[0] > 4096 && *words[2] > 4096 && *words[0] % 16 == 0 && *words[2] % 16 == 0;
    return are_objects && *words[0] == *words[1] && *words[0] != *words[2];
}

/* Of 6, 2 and 5 elements in one dimension: besides their sizes. */
static bool is_element_count(int64_t *const *words) {
    return *words[0] == 6 && *words[1] == 2 && *words[2] == 5;
}

static const struct record middle = {.kind = RECORD_SHARD, .total = 5, .first = 1, .rows = 2, .outer = 1, .inner = 1};

/* Two rows of five: what a slice has, and the version goes on with the whole's. */
static bool lent_rows_are_right(struct value whole) {
    struct value lent = value_tensor(rows_lend(whole.tensor, &middle, 0)), sliced = value_tensor(rows_take(whole.tensor, &middle, 0));
    struct value equal = TORCH_CALL("aten::equal", "", lent, sliced);
    int64_t before = TORCH_CALL("aten::_version", "", lent).integer;
    value_drop(TORCH_CALL("aten::relu_", "", whole));
    int64_t after = TORCH_CALL("aten::_version", "", lent).integer;
    value_drop(sliced);
    value_drop(lent);
    return value_flag(&equal) && after == before + 1;
}

static void calibrate_rows(struct tensor *tensor) {
    struct value detached = TORCH_CALL("aten::detach", "", value_tensor(tensor)), other = calibration_range(0, 5, DTYPE_FLOAT32);
    struct value two = TORCH_CALL("aten::narrow", "", value_tensor(tensor), value_int(0), value_int(0), value_int(2));
    const void *storage = (char *)tensor + torch_facts.storage, *sizes = tensor_sizes(tensor).data;
    torch_facts.version = word_where((struct tensor *[]){tensor, detached.tensor, other.tensor}, storage, is_version);
    torch_facts.elements = word_where((struct tensor *[]){tensor, two.tensor, other.tensor}, sizes, is_element_count);
    torch_facts.lends_rows = torch_facts.version && torch_facts.elements; /* to be tried */
    torch_facts.lends_rows = torch_facts.lends_rows && lent_rows_are_right(other);
    if (torch_facts.lends_rows)
        shell_begin(other.tensor, &middle);
    shim_log('d', "a tensor's version stands at %ld, its number of elements at %ld: batches are %s", torch_facts.version,
             torch_facts.elements, torch_facts.lends_rows ? "lent" : "sliced");
    value_drop(two);
    value_drop(other);
    value_drop(detached);
}

/* The schema's arguments: relu has one, mm two, add.Tensor three (self, other, alpha). */
static void calibrate_arguments(void) {
    struct handle one, two, three;
    void *dispatcher = torch_functions.dispatcher();
    torch_functions.find_schema(&one, dispatcher, "aten::relu", "");
    torch_functions.find_schema(&two, dispatcher, "aten::mm", "");
    torch_functions.find_schema(&three, dispatcher, "aten::add", "Tensor");
    for (long at = 16; at < torch_facts.table && !torch_facts.arguments; at += 8) {
        long first = *(long *)(one.definition + at + 8) - *(long *)(one.definition + at);
        long second = *(long *)(two.definition + at + 8) - *(long *)(two.definition + at);
        long third = *(long *)(three.definition + at + 8) - *(long *)(three.definition + at);
        if (first >= 48 && first < 1024 && second == 2 * first && third == 3 * first) {
            torch_facts.arguments = at;
            torch_facts.argument_bytes = first;
        }
    }
    if (!torch_facts.arguments)
        torch_unsupported("schema", "arguments not found");
}

static const char *first_argument(const char *name, const char *overload) {
    struct handle handle;
    torch_functions.find_schema(&handle, torch_functions.dispatcher(), name, overload);
    return *(char **)(handle.definition + torch_facts.arguments);
}

/* What an argument's schema says of its memory. The word that is a pointer where the first argument is written or viewed, (a!) or (a), and NULL where it is
   neither; the byte behind it that is 1 where it is written and 0 where it is viewed. */
static void calibrate_aliases(void) {
    enum { EACH = 5, ALIAS_BYTES = 144 };
    const char *writes[EACH] = {first_argument("aten::relu_", ""), first_argument("aten::add_", "Tensor"),
                                first_argument("aten::mul_", "Tensor"), first_argument("aten::zero_", ""),
                                first_argument("aten::fill_", "Scalar")},
               *views[EACH] = {first_argument("aten::view", ""), first_argument("aten::t", ""), first_argument("aten::detach", ""),
                               first_argument("aten::unsqueeze", ""), first_argument("aten::transpose", "int")},
               *others[EACH] = {first_argument("aten::relu", ""), first_argument("aten::mm", ""), first_argument("aten::exp", ""),
                                first_argument("aten::clone", ""), first_argument("aten::add", "Tensor")};
    void *write[EACH], *view[EACH], *none[EACH];
    int found = 0;
    for (long at = 8; at < torch_facts.argument_bytes && !torch_facts.alias; at += 8) {
        bool fits = true;
        for (int i = 0; i < EACH; i++) {
            memcpy(&write[i], writes[i] + at, sizeof *write);
            memcpy(&view[i], views[i] + at, sizeof *view);
            memcpy(&none[i], others[i] + at, sizeof *none);
            void *word;
            fits = fits && !none[i] && peek_word(write[i], &word) && peek_word(view[i], &word);
        }
        if (fits)
            torch_facts.alias = at;
    }
    for (long at = 0; at < ALIAS_BYTES && torch_facts.alias; at++) {
        int same = 0;
        for (int i = 0; i < EACH; i++)
            same += ((char *)write[i])[at] == 1 && ((char *)view[i])[at] == 0;
        if (same == EACH && !found++)
            torch_facts.alias_write = at;
    }
    if (found != 1)
        torch_unsupported("schema", "what operators write: word at %ld, %d candidates in it", torch_facts.alias, found);
}

void calibrate_values(void) {
    struct value tensor = calibration_range(0, 6, DTYPE_FLOAT32);
    calibrate_key_set(tensor.tensor);
    calibrate_counts(tensor.tensor);
    calibrate_dtype();
    calibrate_storage(tensor.tensor);
    calibrate_rows(tensor.tensor);
    lists_begin(tensor.tensor);
    calibrate_arguments();
    calibrate_aliases();
    lists_find_types();
    bound_begin(tensor.tensor);
    stale_begin(tensor.tensor);
    value_drop(tensor);
}
