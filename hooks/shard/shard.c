/*
 * The client of the dispatch key: every operator at user level that touches a marked tensor or a parameter comes here, is looked at, decided and executed.
 */
#include <stdlib.h>

#include "learned.h"
#include "read.h"

enum { ARGUMENTS_INLINE = 6 }; /* more are rare, and kernels would run deeper on the stack, in memory that is not in the cache */

static void call_add(struct shard_call *call, struct value *slot, int position) {
    struct argument *argument = &call->arguments[call->argument_count++];
    struct tensor *tensor = slot->tensor;
    bool marked = tensor_is_marked(tensor);
    *argument = (struct argument){.slot = slot, .position = position, .is_parameter = tensor_is_parameter(tensor), .narrow = -1};
    if (!marked)
        return;
    argument->record = record_get(tensor);
    switch (argument->record.kind) {
    case RECORD_SHARD:
        call->shards++;
        break;
    case RECORD_PARTIAL:
        call->partials++;
        break;
    case RECORD_GATHERED:
        call->gathered++;
        break;
    case RECORD_NONE: /* inherited the key, but nobody says what it holds: never guess */
        shim_problem("AR-NO-RECORD", "Please report the operator; run the program without accel-run meanwhile.",
                     "operator %s met a tensor made from a divided one in a way that accel-run did not see", call->op->name);
    }
}

static int call_count_tensors(const struct value *values, int count) {
    int tensors = 0;
    for (int i = 0; i < count; i++)
        if (value_is_tensor(&values[i]))
            tensors++;
        else if (value_is_list(&values[i]))
            tensors += (int)(value_list(&values[i])->end - value_list(&values[i])->begin);
    return tensors;
}

/* Finds the tensors again, after arguments changed. */
void call_collect(struct shard_call *call) {
    call->argument_count = call->shards = call->partials = call->gathered = 0;
    call->lead = NULL;
    call->has_own_bags = false;
    for (int i = 0; i < call->value_count; i++) {
        struct value *value = &call->values[i];
        if (value_is_tensor(value))
            call_add(call, value, i);
        else if (value_is_list(value))
            for (struct value *element = value_list(value)->begin; element < value_list(value)->end; element++)
                if (value_is_tensor(element))
                    call_add(call, element, i);
    }
    for (int i = 0; i < call->argument_count && !call->lead; i++)
        if (call->arguments[i].record.kind == RECORD_SHARD)
            call->lead = &call->arguments[i];
    if (!(call->shards + call->partials))
        return;
    struct origin origin = origin_of_call(call);
    if (call->lead)
        call->record = call->lead->record;
    call->record.origin = origin;
}

/* ---- no shard, no partial: replicated work. Only history that reaches back to a gathered shard is remembered. */
static void execute_replicated(struct shard_call *call, const struct rule *rule) {
    bool from_gathered = call->gathered > 0;
    if (from_gathered && rule->decide == rule_memory)
        view_check_gathered(call);
    (from_gathered ? execute_gathered : execute_whole)(call);
}

static bool writes_kind(const struct shard_call *call, enum record_kind kind) {
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].record.kind == kind && call_writes(call, &call->arguments[i]))
            return true;
    return false;
}

/* A replicated tensor is written as a whole on every rank (acc += rows): into its own rows only would leave the others as they were. */
static bool writes_whole(const struct shard_call *call) {
    for (int i = 0; i < call->argument_count && call->op->written; i++)
        if (call->arguments[i].record.kind != RECORD_SHARD && schema_writes(call, &call->arguments[i]))
            return true;
    return false;
}

/* out= rows that are divided otherwise than the result. */
static bool writes_other_rows(const struct shard_call *call) {
    int result = 0;
    for (int i = 0; i < call->argument_count && call->op->is_out; i++) {
        const struct record *record = &call->arguments[i].record, *decided;
        if (!schema_writes(call, &call->arguments[i]))
            continue;
        decided = &call->results[result < call->result_count ? result : call->result_count - 1];
        if (!call->result_count || decided->kind != RECORD_SHARD || decided->dim != record->dim || !record_same_rows(decided, record))
            return true;
        result++;
    }
    return false;
}

/* Sparse, quantised and nested tensors have no rows to narrow. */
static bool narrows_special(const struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].narrow >= 0 && !tensor_is_plain(argument_tensor(&call->arguments[i])))
            return true;
    return false;
}

static void gather_or_write(struct shard_call *call) {
    if (writes_kind(call, RECORD_SHARD))
        execute_write_gathered(call);
    else
        execute_gathered(call);
}

static void materialise_partials(struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++) {
        struct argument *argument = &call->arguments[i];
        if (argument->record.kind != RECORD_PARTIAL)
            continue;
        struct tensor *total = execute_sum_parts(call, argument_tensor(argument));
        mark_gathered(total, true); /* what the operator makes a view of it would not write to the parts */
        value_replace(argument->slot, value_tensor(total));
    }
    call_collect(call);
}

/* Rows that were loaded as rows have passed no entry, where the models of all ranks are compared. */
void call_check_parameters(const struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].is_parameter) {
            start_check_new_leaves();
            return;
        }
}

bool call_may_overflow(const struct shard_call *call) {
    struct tensor *lead = call->lead ? argument_tensor(call->lead) : NULL;
    return lead && tensor_dtype(lead) == DTYPE_FLOAT16 && !tensor_is_recorded(lead);
}

static bool parts_may_overflow(const struct shard_call *call) {
    bool has_parts = false;
    for (int i = 0; i < call->result_count; i++)
        has_parts |= call->results[i].kind == RECORD_PARTIAL;
    return has_parts && call_may_overflow(call);
}

enum rule_outcome call_decide(struct shard_call *call, const struct rule *rule) {
    if (!rule->decide)
        return call->op->is_composite ? RULE_COMPOSE : RULE_GATHER;
    if (call->op->is_out && rule->decide != rule_compose && writes_whole(call))
        return RULE_GATHER;
    enum rule_outcome outcome = rule->decide(call, rule);
    if (outcome == RULE_LOCAL && (writes_whole(call) || writes_other_rows(call) || narrows_special(call) || parts_may_overflow(call)))
        return RULE_GATHER;
    return outcome;
}

/* What is gathered is another tensor: the trace would have it as a constant. */
__attribute__((noreturn)) static void refuse_trace(const struct shard_call *call) {
    shim_problem("AR-TRACED",
                 "Trace before the first layer, or with tensors that no parameter has met (torch.randn_like), or run with -n 1.",
                 "operator %s is traced (make_fx, torch.func.linearize, fake or functional tensors; before PyTorch 2.2 any mode) with a "
                 "tensor whose "
                 "rows are divided",
                 call->op->name);
}

static bool takes_sums(struct shard_call *call, const struct rule *rule) {
    return rule->partial == PARTIAL_AS_IS || (rule->partial == PARTIAL_PACKED && packed_fits(call));
}

static void call_execute(struct shard_call *call, const struct rule *rule) {
    if (call->shards)
        call_check_parameters(call);
    if (!call->shards && !call->partials && !entry_decide(call, rule)) {
        execute_replicated(call, rule);
        return;
    }
    dispatch_set_divided(true);
    if (call->dispatch->key_set & torch_facts.bit_tracer) /* torch.jit.trace would record this rank's rows */
        refuse_trace(call);
    if (transform_is_open(call)) {
        if (dispatch_in_trace())
            refuse_trace(call);
        (writes_kind(call, RECORD_SHARD) || writes_kind(call, RECORD_PARTIAL) ? execute_write_gathered : execute_gathered)(call);
        return;
    }
    if (call->partials && !takes_sums(call, rule)) {
        if (!call->shards && partial_execute(call, rule))
            return;
        if (rule->decide == rule_compose || (!rule->decide && call->op->is_composite)) {
            origin_run_composite(call);
            return;
        }
        if (writes_kind(call, RECORD_PARTIAL)) {
            execute_write_gathered(call);
            return;
        }
        if (!call->shards) {
            execute_gathered(call);
            return;
        }
        materialise_partials(call);
    }
    recognise_call(call, rule);
    switch (call_decide(call, rule)) {
    case RULE_LOCAL:
        recognise_divided(call);
        execute_local(call);
        break;
    case RULE_GATHER:
        gather_or_write(call);
        break;
    case RULE_COMPOSE:
        origin_run_composite(call);
        break;
    case RULE_DONE:
        recognise_divided(call);
        break;
    }
}

static void free_arguments(struct argument **arguments) {
    free(*arguments);
}

/* What is written, for those who have copies of it. */
struct all_written {
    struct written *list;
    int count;
};

static void free_written(struct all_written *written) {
    for (int i = 0; i < written->count; i++)
        window_end_call(&written->list[i]);
    free(written->list);
}

static struct all_written find_written(const struct shard_call *call) {
    struct all_written written = {.list = malloc(((size_t)call->argument_count + 1) * sizeof(struct written))};
    for (int i = 0; i < call->argument_count; i++) {
        if (!call_writes_values(call, &call->arguments[i]) || !tensor_is_plain(argument_tensor(&call->arguments[i])))
            continue;
        struct written *one = &written.list[written.count++];
        *one = window_region_of_call(call, &call->arguments[i]);
        if (call->op->is_out) /* it may be made larger */
            one->extent.dims = one->told.dims = -1;
        window_keep_before(call, &call->arguments[i], one);
    }
    return written;
}

static void shard_call(struct dispatch_call *dispatch) {
    const struct rule *rule = rule_of(dispatch->op);
    struct stack *stack = dispatch->stack;
    struct shard_call call;
    struct argument few[ARGUMENTS_INLINE];
    call.dispatch = dispatch;
    call.op = dispatch->op;
    call.values = stack->begin;
    call.value_count = (int)(stack->end - stack->begin);
    call.result_count = 0;
    call.scale = 1;
    int tensors = call_count_tensors(call.values, call.value_count);
    __attribute__((cleanup(free_arguments))) struct argument *many =
        tensors > ARGUMENTS_INLINE ? malloc((size_t)tensors * sizeof *many) : NULL;
    call.arguments = many ? many : few;
    call_collect(&call);
    if (call.shards + call.partials) {
        if (shim_reads_example()) /* the ranks would meet, each in an example of its own */
            shim_note_draw();
        origin_begin_call(&call);
    } else if (call.gathered)
        origin_meet_numbers(&call);
    bool is_read = read_before_call(&call), has_windows = window_before_call(&call);
    __attribute__((cleanup(free_written))) struct all_written written = {.list = NULL};
    if (is_read || has_windows)
        written = find_written(&call);
    call_execute(&call, rule);
    for (int i = 0; i < written.count; i++) {
        window_find_changes(&written.list[i]);
        if (is_read || shim_has_threads()) /* another one may have come to look meanwhile */
            read_after_write(&written.list[i]);
        if (has_windows)
            window_after_write(&written.list[i]);
    }
    if (!dispatch_is_opaque())
        window_release_let_go();
}

static struct tensor *shard_whole(struct tensor *tensor) {
    struct record record = record_get(tensor);
    if (record.kind == RECORD_SHARD || record.kind == RECORD_PARTIAL) {
        OPAQUE_SCOPE;
        return record.kind == RECORD_SHARD ? gather_shard("whole value", tensor, &record) : gather_partial("whole value", tensor);
    }
    tensor_retain(tensor);
    return tensor;
}

static void shard_operator_met(struct operator *op);

const struct dispatch_client dispatch_client = {
    shard_operator_met,   shard_call,          shard_whole,      write_in_form,  gather_is_node,     memory_stand_in,
    storage_stand_in,     read_settle,         direct_decide,    direct_mark,    learned_last_batch, execute_saves_are_seen,
    execute_saved_record, origin_batches,      window_stand_for, window_written, window_replaced,    normalise_hook_returned,
    learned_keep,         learned_begin_again, learned_end_again};

static void shard_operator_met(struct operator *op) {
    const struct rule *rule = rule_find(op);
    op->client = rule;
    origin_meet(op, rule);
    op->only_records = !op->is_composite && rule_only_records(rule);
    op->suits_direct = rule_suits_direct(rule);
}

const struct rule *rule_of(const struct operator *op) {
    return op->client;
}
