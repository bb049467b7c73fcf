/*
 * Entry: a whole batch that meets a parameter is cut into rows. A guess about speed only: narrowing any replicated tensor is exact, so a wrong guess
 * (a table of positions cut as if it were a batch) is merely gathered again later.
 */
#include "bag.h"
#include "learned.h"
#include "window.h"

/*
 * Sequences are (batch, time) in one program and (time, batch) in the next, and a layer cannot tell. What was cut along its time is found out later, where a
 * recurrent layer or an attention needs all of it, or a cell takes one step after the other: from then on the layer at which it was cut takes the other
 * dimension. All of this follows from global facts, so it is the same on all ranks.
 */
enum { CHANGES_MAX = 4 }; /* a layer that is used for both settles down in the end */

/* A hash of the thread, of the operator and of the shapes of its parameters. */
uint64_t entry_layer(const struct shard_call *call) {
    uint64_t layer = checksum_bytes(learned_whose(), call->op->name, strlen(call->op->name));
    for (int i = 0; i < call->argument_count; i++) {
        struct sizes sizes = tensor_sizes(argument_tensor(&call->arguments[i]));
        if (call->arguments[i].is_parameter)
            layer = checksum_bytes(layer, sizes.data, sizes.count * sizeof *sizes.data);
    }
    return layer ? layer : 1;
}

void entry_learn_time(const struct record *record) {
    struct habit *habit = record->layer ? learned_habit(record->layer) : NULL;
    if (!habit || habit->dim != record->layer_dim || habit->changes == CHANGES_MAX)
        return;
    *learned_usual_dim() = habit->dim = 1 - habit->dim;
    habit->changes++;
}

static bool is_long_enough(int64_t total) {
    return total >= 2 * (int64_t)shim_world_size(); /* never a rank with one row only because of a remainder: a size of one broadcasts */
}

/* The batch dimension of a recurrent layer's input: the last argument says batch_first. */
static int recurrent_dim(const struct shard_call *call) {
    return call_flag(call, call->value_count - 1) ? 0 : 1;
}

/* All of them plain: the result of a wrapped tensor (torch.func.grad and vmap of a living model) is a wrapper, too, and has no rows to mark. */
static bool meets_parameter(const struct shard_call *call, const struct argument *data) {
    bool meets = false;
    for (int i = 0; i < call->argument_count; i++) {
        if (!tensor_is_plain(argument_tensor(&call->arguments[i])))
            return false;
        meets |= call->arguments[i].is_parameter && &call->arguments[i] != data;
    }
    return meets;
}

/* The data argument and the dimension to cut; NULL: none. */
static struct argument *entry_find(struct shard_call *call, const struct rule *rule, int *dim) {
    bool is_bag = rule->entry == ENTRY_BAG, second = rule->entry == ENTRY_DATA1 || rule->entry == ENTRY_INDEX || is_bag;
    struct argument *data = call_argument(call, second ? 1 : 0);
    if (!data || data->is_parameter || tensor_has_no_values(argument_tensor(data)) || !meets_parameter(call, data))
        return NULL;
    int dims = argument_dims(data);
    if (rule->decide == rule_convolution && dims != rule->a)
        return NULL; /* an image without a batch */
    bool is_sequence = dims >= 3 || (rule->entry == ENTRY_INDEX && dims == 2);
    *dim = rule->entry == ENTRY_RECURRENT                    ? recurrent_dim(call)
           : is_sequence && rule->decide != rule_convolution ? learned_habit(entry_layer(call))->dim
                                                             : 0;
    if (*dim == 1 && rule->entry != ENTRY_RECURRENT && !is_long_enough(argument_size(data, 1)))
        *dim = 0;
    if (rule->entry == ENTRY_RECURRENT && dims != 3)
        return NULL;
    if (rule->entry == ENTRY_PACKED)
        return packed_sequences(call) ? data : NULL;
    if ((rule->entry == ENTRY_INDEX || is_bag) && !bounds_hold(call, 1, argument_size(call_argument(call, 0), 0)))
        return NULL; /* throws, on all ranks */
    if (is_bag)
        return bag_count(call) ? data : NULL;
    if (rule->entry == ENTRY_INDEX && dims == 1) {
        int64_t last = *learned_last_batch(); /* they are cut only when they are as many */
        return !last || argument_size(data, 0) == last ? data : NULL;
    }
    return dims >= 2 ? data : NULL;
}

/* All rows of one step, a view of what was gathered for it. Which windows there are is another on each rank beside other threads. */
static void learn_from_step(const struct argument *step) {
    struct tensor *sequence, *whole, *tensor = argument_tensor(step);
    struct record record;
    if (step->record.kind != RECORD_GATHERED || !step->record.is_view_of_gathered || shim_has_threads() ||
        !window_find(tensor_storage(tensor), &sequence, &record, &whole))
        return;
    if (record.kind == RECORD_SHARD && record.layer && record.dim == record.layer_dim && tensor_dims(sequence) == 3 &&
        tensor_size(sequence, 1 - record.dim) == tensor_size(tensor, 0))
        entry_learn_time(&record);
}

static void cut(struct shard_call *call, const struct rule *rule, struct argument *data, int dim, int64_t total) {
    struct record record = record_shard(dim, total);
    record.origin = origin_new();
    record.layer = rule->entry == ENTRY_RECURRENT ? 0 : entry_layer(call);
    record.layer_dim = dim;
    *learned_last_batch() = record.total;
    if (rule->decide == rule_recurrent && rule->entry == ENTRY_DATA0)
        learn_from_step(data);
    if (rule->entry == ENTRY_BAG) {
        bag_enter(call, &record);
        return;
    }
    struct tensor *rows = rows_lend(argument_tensor(data), &record, dim); /* layers make something new of their data */
    record_set(rows, record);
    value_replace(data->slot, value_tensor(rows));
    call_collect(call);
}

/* What get() of a data set gives the model each rank computes whole, since it may read its own rows only; so it must not change the model. */
static bool is_of_example(struct shard_call *call, const struct rule *rule) {
    if (!shim_reads_example())
        return false;
    if ((rule->decide == rule_batch_norm || rule->decide == rule_instance_norm) && call_flag(call, 5))
        shim_note_draw();
    return true;
}

bool entry_decide(struct shard_call *call, const struct rule *rule) {
    int dim;
    bool is_traced = call->dispatch->key_set & torch_facts.bit_tracer; /* a trace must not record the cut */
    if (is_of_example(call, rule) || rule->entry == ENTRY_NONE || is_traced || transform_is_open(call))
        return false;
    struct argument *data = entry_find(call, rule, &dim);
    start_check_new_leaves(); /* also where the batch is too short to be divided: then each rank trains the whole model by itself */
    if (!data)
        return false;
    int64_t total = rule->entry == ENTRY_PACKED ? packed_sequences(call)
                    : rule->entry == ENTRY_BAG  ? bag_count(call)
                                                : argument_size(data, dim);
    bool long_enough = is_long_enough(total);
    uint64_t checksum = start_check_batch(argument_tensor(data));
    {
        SHIM_NOTE_SCOPE;
        comm_note(long_enough ? "batch that is divided" : "batch that is too short to be divided", checksum);
    }
    recognise_batch(call, total, long_enough, shim_records() ? entry_layer(call) : 0);
    if (!long_enough)
        return false;
    origin_of_batch(checksum);
    if (rule->entry == ENTRY_PACKED && !packed_enter(call)) {
        origin_of_batch(0);
        return false;
    }
    report_batch();
    shim_phase(BOARD_FORWARD, call->op->name);
    if (rule->entry != ENTRY_PACKED)
        cut(call, rule, data, dim, total);
    explain_cut(call);
    return true;
}
