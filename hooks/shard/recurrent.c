/*
 * Recurrent layers and cells: every sequence of the batch by itself, so they run whole on the own rows. States of all rows are narrowed to
 * the own; an input that was divided along its time is gathered and divided along its batch instead. Dropout between layers draws for the
 * whole batch: then layer by layer.
 */
#include "random.h"

enum { SEQUENCE = 0, CELL = 1 }; /* rule->a */

enum { LAYERS_MAX = TORCH_DIMS_MAX }; /* a list of ours holds as many tensors */

/* Arguments of lstm.input, gru.input, rnn_tanh.input, rnn_relu.input. */
enum { INPUT, STATES, PARAMETERS, HAS_BIASES, LAYERS, DROPOUT, TRAIN, BIDIRECTIONAL, BATCH_FIRST };

/* A divided argument has the lead's rows along dim, a replicated one all of them: it is to be narrowed. */
static bool decide_rows(struct shard_call *call, struct argument *argument, int dim, int dims) {
    if (argument_dims(argument) != dims)
        return false;
    if (argument->record.kind == RECORD_SHARD)
        return argument->record.dim == dim && record_same_rows(&argument->record, &call->record);
    decide_narrow(argument, dim);
    return argument_size(argument, dim) == record_total(&call->record);
}

static bool decide_all(struct shard_call *call, int input_dim, int state_dim, int dims) {
    for (int i = 0; i < call->argument_count; i++) {
        struct argument *argument = &call->arguments[i];
        bool fits = argument->position == INPUT    ? decide_rows(call, argument, input_dim, dims)
                    : argument->position == STATES ? decide_rows(call, argument, state_dim, dims)
                                                   : argument->record.kind != RECORD_SHARD;
        if (!fits)
            return false;
    }
    return true;
}

/* The input is divided along another dimension than its batch: gather it, and divide it along the batch when that is long enough. */
static bool divide_batch_instead(struct shard_call *call, struct argument *input, int dim) {
    struct record record = record_shard(dim, argument_size(input, dim));
    if (record.total < 2 * (int64_t)shim_world_size())
        return false;
    entry_learn_time(&input->record);
    OPAQUE_SCOPE;
    explain_gather(call, "divided its batch instead of its time");
    struct tensor *whole = gather_shard(call->op->name, argument_tensor(input), &input->record);
    struct tensor *rows = rows_take(whole, &record, dim);
    tensor_release(whole);
    record_set(rows, record);
    value_replace(input->slot, value_tensor(rows));
    call_collect(call);
    return true;
}

/* ---- layer by layer */

/* at::dropout with a mask drawn for all rows. context: their record, along dimension 1. Takes output. */
static struct value drop_out_padded(const void *context, struct value output, double p) {
    const struct record *record = context;
    struct value mask;
    if (p == 1)
        mask = TORCH_CALL("aten::zeros_like", "", output, value_none(), value_none(), value_none(), value_none(), value_none());
    else {
        mask = value_tensor(random_keep_mask(output.tensor, record, 1 - p, tensor_dtype(output.tensor)));
        value_drop(TORCH_CALL("aten::div_", "Scalar", mask, value_real(1 - p)));
    }
    value_replace(&output, TORCH_CALL("aten::mul", "Tensor", output, mask));
    value_drop(mask);
    return output;
}

/* The layer's states, both directions; of an LSTM a list of two. Owned. */
static struct value states_of(const struct value *states, int64_t layer, int64_t directions) {
    if (!value_is_list(states))
        return TORCH_CALL("aten::narrow", "", *states, value_int(0), value_int(layer * directions), value_int(directions));
    struct tensor *both[2];
    for (int i = 0; i < 2; i++)
        both[i] =
            TORCH_CALL("aten::narrow", "", value_list(states)->begin[i], value_int(0), value_int(layer * directions), value_int(directions))
                .tensor;
    struct value list = value_tensor_list(both, 2);
    tensor_release(both[0]);
    tensor_release(both[1]);
    return list;
}

/* One layer of the operator itself, of padded sequences time first. results: output, then the states (one or two). Takes input. */
static void run_layer(struct shard_call *call, int packed, struct value input, int64_t layer, struct value *results) {
    enum { ARGUMENTS = 9 };
    const struct value *given = call->values + packed;
    struct stack *all = value_list(&given[PARAMETERS]);
    int64_t count = (all->end - all->begin) / call_int(call, LAYERS + packed, 1);
    struct tensor *own[TORCH_DIMS_MAX];
    for (int64_t i = 0; i < count; i++)
        own[i] = all->begin[layer * count + i].tensor;
    struct value states = states_of(&given[STATES], layer, call_flag(call, BIDIRECTIONAL + packed) ? 2 : 1);
    struct value arguments[1 + ARGUMENTS] = {input, given[INPUT]}; /* the sizes of packed ones */
    memcpy(arguments + 1 + packed,
           (struct value[]){states, value_tensor_list(own, (size_t)count), given[HAS_BIASES], value_int(1), value_real(0), given[TRAIN],
                            given[BIDIRECTIONAL], value_bool(false)},
           8 * sizeof *arguments);
    struct operator_reference reference = {call->op->name, call->op->overload, *call->dispatch->handle};
    results[0] = operator_call(&reference, ARGUMENTS, arguments, results + 1, 2);
    value_drop(input);
    if (states.tag == TAG_TENSOR)
        value_drop(states);
}

int recurrent_run_layers(struct shard_call *call, int packed, struct value input, recurrent_drop_out *drop_out, const void *context,
                         struct value *results) {
    int64_t layers = call_int(call, LAYERS + packed, 1);
    int states = value_is_list(&call->values[STATES + packed]) ? 2 : 1;
    struct tensor *finals[2][LAYERS_MAX];
    for (int64_t layer = 0; layer < layers; layer++) {
        run_layer(call, packed, input, layer, results);
        for (int i = 0; i < states; i++)
            finals[i][layer] = results[1 + i].tensor;
        input = layer < layers - 1 ? drop_out(context, results[0], call_real(call, DROPOUT + packed, 0)) : results[0];
    }
    for (int i = 0; i < states; i++) {
        results[1 + i] = TORCH_CALL("aten::cat", "", value_tensor_list(finals[i], (size_t)layers), value_int(0));
        for (int64_t layer = 0; layer < layers; layer++)
            tensor_release(finals[i][layer]);
    }
    return states;
}

static void run_layers(struct shard_call *call) {
    OPAQUE_SCOPE;
    bool batch_first = call_flag(call, BATCH_FIRST);
    struct record record = call->record;
    struct value results[3], input = call->values[INPUT];
    tensor_retain(input.tensor);
    if (batch_first)
        value_replace(&input, TORCH_CALL("aten::transpose", "int", input, value_int(0), value_int(1)));
    record.dim = 1;
    int states = recurrent_run_layers(call, 0, input, drop_out_padded, &record, results);
    for (int i = 0; i < states; i++)
        record_set(results[1 + i].tensor, record);
    if (batch_first)
        value_replace(&results[0], TORCH_CALL("aten::transpose", "int", results[0], value_int(0), value_int(1)));
    record.dim = batch_first ? 0 : 1;
    record_clear(results[0].tensor);
    record_set(results[0].tensor, record);
    execute_return(call, results, 1 + states);
}

bool recurrent_drops_out(const struct shard_call *call, int packed) {
    return call_real(call, DROPOUT + packed, 0) > 0 && call_flag(call, TRAIN + packed) && call_int(call, LAYERS + packed, 1) > 1;
}

/* On an accelerator the dropout is its library's, in which nobody can draw layer by layer. */
bool recurrent_layers_fit(const struct shard_call *call, int packed) {
    if (!tensor_is_on_host(call->values[0].tensor))
        return false;
    struct stack *all = value_list(&call->values[PARAMETERS + packed]);
    int64_t layers = call_int(call, LAYERS + packed, 1);
    return layers <= LAYERS_MAX && (all->end - all->begin) / layers <= TORCH_DIMS_MAX;
}

/* cuDNN's kernels want the first states in one piece ("rnn: hx is not contiguous"), as the program's are: rows of their dimension 1 are not. */
void recurrent_make_states_dense(struct shard_call *call, int packed) {
    enum { CONTIGUOUS = 0 };
    for (int i = 0; i < call->argument_count; i++) {
        struct value *slot = call->arguments[i].slot;
        if (call->arguments[i].position != STATES + packed || tensor_is_on_host(slot->tensor) || tensor_is_contiguous(slot->tensor))
            continue;
        value_replace(slot, TORCH_CALL("aten::contiguous", "", *slot, value_int(CONTIGUOUS)));
        call->arguments[i].narrow = -2;
    }
}

/* The states' rows now, so that they can be made dense. */
static void narrow_states(struct shard_call *call) {
    execute_narrow(call);
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].narrow >= 0)
            call->arguments[i].narrow = -2;
    OPAQUE_SCOPE;
    recurrent_make_states_dense(call, 0);
}

/* ---- the rule */

/* a: SEQUENCE (input, states, parameters, ..., batch_first); CELL (input, states, weights and biases): rows in dimension 0 of all. Packed
   sequences have a rule of their own (packed.c). */
RULE_FUNCTION(recurrent) {
    struct argument *input = call_argument(call, INPUT);
    bool cell = rule->a == CELL;
    if (!input || argument_dims(input) != (cell ? 2 : 3))
        return RULE_GATHER;
    int dim = cell || call_flag(call, BATCH_FIRST) ? 0 : 1, state_dim = cell ? 0 : 1;
    if (input->record.kind == RECORD_SHARD && input->record.dim != dim) {
        if (cell || !divide_batch_instead(call, input, dim))
            return RULE_GATHER;
    }
    if (!decide_all(call, dim, state_dim, cell ? 2 : 3))
        return RULE_GATHER;
    if (!cell && recurrent_drops_out(call, 0)) {
        if (!recurrent_layers_fit(call, 0))
            return RULE_GATHER;
        execute_narrow(call);
        run_layers(call);
        return RULE_DONE;
    }
    if (!cell && !tensor_is_on_host(argument_tensor(input)))
        narrow_states(call);
    decide_shard(call, 0, dim);
    decide_shard(call, 1, state_dim);
    return RULE_LOCAL;
}
