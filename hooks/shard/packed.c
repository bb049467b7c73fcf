/*
 * Packed sequences (torch.nn.utils.rnn.pack_padded_sequence): the elements of all sequences one after the other in time, at each time those of the sequences
 * that are that long, longest first. A rank has some of the sequences, so its elements lie in pieces whose length changes with the time: no shard. They are
 * kept as a partial sum of the whole length, zero but for the own elements, which any operator may take for what it is: a sum over the ranks. The recurrent
 * layers and the way back to padded sequences look the own elements up in it and need none of the others'.
 */
#include <stdlib.h>

#include "shard.h"

/* Arguments of lstm.data, gru.data, rnn_tanh.data, rnn_relu.data, which go on as those of padded sequences do; _pad_packed_sequence has the first two. */
enum { ELEMENTS, SIZES, STATES };

/* Which elements are a rank's. Free what it owns with packing_free. */
struct packing {
    int64_t sequences, elements, times, own_times; /* of the whole batch, and how long the own sequences are */
    int64_t word;                                  /* which they are (record.h) */
    struct value positions;                        /* int64: the own elements' among all; owned */
    struct value own_sizes;                        /* int64: how many own sequences there are at each time; owned */
};

static _Atomic bool is_used; /* there has been such a sum: most programs have none */

static void packing_free(struct packing *packing) {
    value_drop(packing->positions);
    value_drop(packing->own_sizes);
}
#define PACKING __attribute__((cleanup(packing_free))) struct packing

static struct value integers(const int64_t *numbers, int64_t count) {
    struct value tensor = TORCH_CALL("aten::empty", "memory_format", value_int_list(&count, 1), value_int(DTYPE_INT64), value_none(),
                                     value_none(), value_none(), value_none());
    memcpy(tensor_data(tensor.tensor), numbers, (size_t)count * sizeof *numbers);
    return tensor;
}

/* The numbers of a replicated one-dimensional tensor in host memory; NULL: it is another. */
static const int64_t *host_integers(const struct argument *argument, int64_t *count) {
    struct tensor *tensor = argument ? argument_tensor(argument) : NULL;
    if (!tensor || argument->record.kind == RECORD_SHARD || argument->record.kind == RECORD_PARTIAL || !tensor_is_plain(tensor) ||
        !tensor_is_on_host(tensor) || tensor_dtype(tensor) != DTYPE_INT64 || tensor_dims(tensor) != 1 || !tensor_is_dense(tensor))
        return NULL;
    *count = tensor_size(tensor, 0);
    return *count ? tensor_data(tensor) : NULL;
}

/* How many sequences, and in the upper half a hash of the sizes: elements of others may be as many. */
static int64_t word_of(const int64_t *sizes, int64_t times) {
    uint64_t hash = checksum_bytes(1, sizes, (size_t)times * sizeof *sizes);
    return (int64_t)((hash & 0x7fffffff00000000u) | (uint32_t)sizes[0]);
}

static int64_t sequences_of(int64_t word) {
    return (int64_t)(uint32_t)word;
}

static int64_t at_most(int64_t number, int64_t most) {
    return number < 0 ? 0 : number > most ? most : number;
}

/* sizes: how many sequences are that long, for each time. data: where the elements are. False: no sizes of packed sequences. */
static bool packing_read(struct packing *packing, const int64_t *sizes, int64_t times, struct tensor *data) {
    int64_t first, rows, own = 0, at = 0;
    *packing = (struct packing){.sequences = sizes[0], .times = times, .word = word_of(sizes, times)};
    for (int64_t time = 0; time < times; time++) {
        if (sizes[time] < 1 || (time && sizes[time] > sizes[time - 1]))
            return false;
        packing->elements += sizes[time];
    }
    record_rows(packing->sequences, shim_rank(), &first, &rows);
    int64_t *positions = malloc((size_t)packing->elements * sizeof *positions), *own_sizes = malloc((size_t)times * sizeof *own_sizes);
    for (int64_t time = 0; time < times; at += sizes[time++]) {
        own_sizes[time] = at_most(sizes[time] - first, rows);
        packing->own_times += own_sizes[time] > 0;
        for (int64_t i = 0; i < own_sizes[time]; i++)
            positions[own++] = at + first + i;
    }
    packing->positions = integers(positions, own);
    value_replace(&packing->positions, value_tensor(host_to_device_of(packing->positions.tensor, data)));
    packing->own_sizes = integers(own_sizes, packing->own_times);
    free(positions);
    free(own_sizes);
    return true;
}

static struct value own_elements(const struct packing *packing, struct value data) {
    return TORCH_CALL("aten::index_select", "", data, value_int(0), packing->positions);
}

/* The own elements (taken) among zeros, a partial sum. */
static struct value among_zeros(const struct packing *packing, struct value own) {
    struct sizes sizes = tensor_sizes(own.tensor);
    int64_t shape[TORCH_DIMS_MAX];
    memcpy(shape, sizes.data, sizes.count * sizeof *shape);
    shape[0] = packing->elements;
    struct value plain = TORCH_CALL("aten::detach", "", own);
    struct value zeros = TORCH_CALL("aten::new_zeros", "", plain, value_int_list(shape, sizes.count), value_none(), value_none(),
                                    value_none(), value_none());
    struct value sum = TORCH_CALL("aten::index_copy", "", zeros, value_int(0), packing->positions, own);
    value_drop(zeros);
    value_drop(plain);
    value_drop(own);
    record_clear(sum.tensor);
    record_set(sum.tensor, (struct record){.kind = RECORD_PARTIAL, .packed = packing->word});
    atomic_store_explicit(&is_used, true, memory_order_relaxed);
    return sum;
}

bool packed_fits(struct shard_call *call) {
    struct argument *data = call_argument(call, 0);
    int64_t times;
    const int64_t *sizes = host_integers(call_argument(call, 1), &times);
    return data && data->record.packed && sizes && word_of(sizes, times) == data->record.packed;
}

int64_t packed_sequences(struct shard_call *call) {
    int64_t times;
    const int64_t *sizes = host_integers(call_argument(call, SIZES), &times);
    return sizes ? sizes[0] : 0;
}

bool packed_enter(struct shard_call *call) {
    struct argument *data = call_argument(call, ELEMENTS);
    int64_t times;
    const int64_t *sizes = host_integers(call_argument(call, SIZES), &times);
    OPAQUE_SCOPE;
    PACKING packing = {.sequences = 0};
    if (!packing_read(&packing, sizes, times, argument_tensor(data)) || packing.elements != argument_size(data, 0))
        return false;
    value_replace(data->slot, among_zeros(&packing, own_elements(&packing, *data->slot)));
    call_collect(call);
    return true;
}

struct wanted {
    const void *storage;
    bool is_found;
};

static void compare(struct tensor *tensor, const struct record *record, void *context) {
    struct wanted *wanted = context;
    wanted->is_found |= record->packed && tensor_storage(tensor) == wanted->storage;
}

bool packed_is_seen(struct tensor *tensor) {
    if (!atomic_load_explicit(&is_used, memory_order_relaxed))
        return false;
    struct wanted wanted = {.storage = tensor_storage(tensor)};
    record_each(false, compare, &wanted);
    return wanted.is_found;
}

/* ---- the rules */

/* How many sequences are that long, for each time, from lengths in descending order. Owned; false: they are not. */
static bool sizes_of_lengths(const int64_t *lengths, int64_t count, int64_t longest, int64_t **sizes) {
    for (int64_t i = 0; i < count; i++)
        if (lengths[i] < 1 || lengths[i] > longest || (i && lengths[i] > lengths[i - 1]))
            return false;
    *sizes = calloc((size_t)lengths[0], sizeof **sizes);
    for (int64_t i = 0; i < count; i++)
        for (int64_t time = 0; time < lengths[i]; time++)
            (*sizes)[time]++;
    return true;
}

/* _pack_padded_sequence(input, lengths, batch_first) -> (elements, how many there are at each time) */
RULE_FUNCTION(pack) {
    struct argument *input = call_argument(call, 0), *given = call_argument(call, 1);
    int64_t count, *sizes, dim = call_flag(call, 2) ? 0 : 1;
    const int64_t *lengths = host_integers(given, &count);
    if (input && call->lead == input && argument_dims(input) > 1 && call->record.dim == 1 - dim)
        entry_learn_time(&call->record);
    if (!input || call->lead != input || call->shards != 1 || call->record.dim != dim ||
        record_total(&call->record) != call->record.total || !lengths || count != call->record.total ||
        !sizes_of_lengths(lengths, count, argument_size(input, 1 - (int)dim), &sizes))
        return RULE_GATHER;
    OPAQUE_SCOPE;
    int64_t times = lengths[0];
    PACKING packing = {.sequences = 0};
    packing_read(&packing, sizes, times, argument_tensor(input));
    struct value results[2] = {{.tag = TAG_NONE}, integers(sizes, times)};
    free(sizes);
    execute_compare(call, given);
    value_replace(given->slot, value_tensor(rows_take(argument_tensor(given), &call->record, 0)));
    dispatch_run_opaque(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
    struct stack *stack = call->dispatch->stack;
    value_drop(stack->begin[1]);
    record_clear(stack->begin[0].tensor);
    results[0] = among_zeros(&packing, stack->begin[0]);
    memcpy(stack->begin, results, sizeof results);
    return RULE_DONE;
}

/* The lengths of packed sequences. Owned. */
static struct value lengths_of(const int64_t *sizes, int64_t times) {
    int64_t *lengths = calloc((size_t)sizes[0], sizeof *lengths);
    for (int64_t time = 0; time < times; time++)
        for (int64_t i = 0; i < sizes[time]; i++)
            lengths[i]++;
    struct value tensor = integers(lengths, sizes[0]);
    free(lengths);
    return tensor;
}

/* _pad_packed_sequence(elements, how many at each time, batch_first, padding_value, total_length) -> (sequences, their lengths) */
RULE_FUNCTION(unpack) {
    if (!packed_fits(call) || call->shards)
        return RULE_GATHER;
    OPAQUE_SCOPE;
    PACKING packing = {.sequences = 0};
    int64_t times, longest = call_int(call, 4, 0);
    const int64_t *sizes = host_integers(call_argument(call, 1), &times);
    if (!packing_read(&packing, sizes, times, call->values[0].tensor) || (longest > 0 && longest < times))
        return RULE_GATHER;
    struct value lengths = lengths_of(sizes, times);
    value_replace(&call->values[0], own_elements(&packing, call->values[0]));
    tensor_retain(packing.own_sizes.tensor);
    value_replace(&call->values[1], packing.own_sizes);
    value_replace(&call->values[4], value_int(longest > 0 ? longest : times));
    struct record record = record_shard(call_flag(call, 2) ? 0 : 1, packing.sequences);
    dispatch_run_opaque(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
    record_clear(call->dispatch->stack->begin[0].tensor);
    record_set(call->dispatch->stack->begin[0].tensor, record);
    value_replace(&call->dispatch->stack->begin[1], lengths);
    return RULE_DONE;
}

/* First states have all sequences in dimension 1, or this rank's: those are narrowed. */
static bool states_fit(struct shard_call *call, const struct record *record) {
    for (int i = 0; i < call->argument_count; i++) {
        struct argument *argument = &call->arguments[i];
        bool divided = argument->record.kind == RECORD_SHARD;
        if (argument->position == ELEMENTS)
            continue;
        if (argument->record.kind == RECORD_PARTIAL || (divided && argument->position != STATES))
            return false;
        if (argument->position != STATES)
            continue;
        if (argument_dims(argument) != 3 || (divided ? argument->record.dim != 1 || !record_same_rows(&argument->record, record)
                                                     : argument_size(argument, 1) != record->total))
            return false;
    }
    return true;
}

/* ---- dropout between layers draws for all elements: layer by layer */

/* at::dropout with a mask drawn for all elements. context: the packing. Takes own. */
static struct value drop_out(const void *context, struct value own, double p) {
    const struct packing *packing = context;
    int64_t shape[] = {packing->elements, tensor_size(own.tensor, 1)};
    struct value plain = TORCH_CALL("aten::detach", "", own);
    struct value mask =
        TORCH_CALL("aten::new_zeros", "", plain, value_int_list(shape, 2), value_none(), value_none(), value_none(), value_none());
    if (p < 1) {
        value_drop(TORCH_CALL("aten::bernoulli_", "float", mask, value_real(1 - p), value_none()));
        value_drop(TORCH_CALL("aten::div_", "Scalar", mask, value_real(1 - p)));
    }
    value_replace(&mask, own_elements(packing, mask));
    struct value result = TORCH_CALL("aten::mul", "Tensor", own, mask);
    value_drop(plain);
    value_drop(mask);
    value_drop(own);
    return result;
}

/* Leaves the own elements and the states of all layers on the stack, as the operator does. */
static void run_layers(struct shard_call *call, const struct packing *packing) {
    struct value results[3];
    tensor_retain(call->values[ELEMENTS].tensor);
    int states = recurrent_run_layers(call, 1, call->values[ELEMENTS], drop_out, packing, results);
    execute_return(call, results, 1 + states);
}

/* lstm.data, gru.data, rnn_tanh.data, rnn_relu.data -> (elements, states...) */
RULE_FUNCTION(packed_recurrent) {
    if (!packed_fits(call) || (recurrent_drops_out(call, 1) && !recurrent_layers_fit(call, 1)))
        return RULE_GATHER;
    struct record record = record_shard(1, sequences_of(call_argument(call, ELEMENTS)->record.packed));
    PACKING packing = {.sequences = 0};
    int64_t times;
    const int64_t *sizes = host_integers(call_argument(call, SIZES), &times);
    OPAQUE_SCOPE;
    if (!states_fit(call, &record) || !packing_read(&packing, sizes, times, call->values[ELEMENTS].tensor))
        return RULE_GATHER;
    for (int i = 0; i < call->argument_count; i++) {
        struct argument *argument = &call->arguments[i];
        if (argument->position == STATES && argument->record.kind != RECORD_SHARD)
            value_replace(argument->slot, value_tensor(rows_take(argument_tensor(argument), &record, 1)));
    }
    recurrent_make_states_dense(call, 1);
    value_replace(&call->values[ELEMENTS], own_elements(&packing, call->values[ELEMENTS]));
    tensor_retain(packing.own_sizes.tensor);
    value_replace(&call->values[SIZES], packing.own_sizes);
    if (recurrent_drops_out(call, 1))
        run_layers(call, &packing);
    else
        dispatch_run_opaque(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
    struct stack *stack = call->dispatch->stack;
    record_clear(stack->begin[0].tensor);
    stack->begin[0] = among_zeros(&packing, stack->begin[0]);
    for (struct value *state = stack->begin + 1; state < stack->end; state++)
        record_set(state->tensor, record);
    return RULE_DONE;
}
