/* Carrying a decision out. */
#include <stdlib.h>

#include "shard.h"
#include "window.h"

void refuse_write(const struct shard_call *call, const char *why) {
    shim_problem("AR-WRITE",
                 "Write the statement so that it makes a new tensor (y = x * 2 instead of x.mul_(2)), or run with -n 1; docs/limits.md "
                 "lists what can be written.",
                 "operator %s%s%s would write to a tensor in place, but %s", call->op->name, call->op->overload[0] ? "." : "",
                 call->op->overload, why);
}

void execute_return(struct shard_call *call, const struct value *results, int count) {
    for (int i = 0; i < call->value_count; i++)
        value_drop(call->values[i]);
    struct stack *stack = call->dispatch->stack;
    memcpy(stack->begin, results, (size_t)count * sizeof *results);
    stack->end = stack->begin + count;
}

/* ---- marking results */

void execute_check_rows(const struct operator *op, struct tensor *tensor, const struct record *record) {
    if (record->dim < tensor_dims(tensor) && tensor_size(tensor, record->dim) == record_local(record))
        return;
    shim_problem("AR-RULE", "This is a defect of accel-run: please report the operator. Run the program without accel-run meanwhile.",
                 "operator %s: the result has %lld elements along dimension %d where this rank's rows are %lld", op->name,
                 record->dim < tensor_dims(tensor) ? (long long)tensor_size(tensor, record->dim) : -1, record->dim,
                 (long long)record_local(record));
}

static void scale_result(struct value *result, double scale) {
    if (!constant_suits(result->tensor)) {
        value_replace(result, TORCH_CALL("aten::mul", "Scalar", *result, value_real(scale)));
        return;
    }
    struct value factor = constant_tensor(CONSTANT_SCALAR, scale, tensor_dtype(result->tensor));
    value_replace(result, TORCH_CALL("aten::mul", "Tensor", *result, factor));
    value_drop(factor);
}

/* What was not asked for is an empty tensor (the Q of linalg.qr with mode "r"). */
static bool is_left_out(const struct shard_call *call, struct tensor *result) {
    return call->op->result_count > 1 && tensor_dims(result) == 1 && !tensor_size(result, 0);
}

static void mark_result(struct shard_call *call, struct value *result, int place, int index, const void *unused) {
    const struct record *record = &call->results[place < call->result_count ? place : call->result_count - 1];
    if (record->kind == RECORD_PARTIAL && call->scale != 1)
        scale_result(result, call->scale);
    bool is_rows = record->kind == RECORD_SHARD && !is_left_out(call, result->tensor);
    if (is_rows)
        execute_check_rows(call->op, result->tensor, record);
    if (is_rows || record->kind == RECORD_PARTIAL) {
        struct record own = *record;
        own.origin = origin_of_result(own.origin, index);
        record_set(result->tensor, own);
        return;
    }
    mark_gathered(result->tensor, false);
}

/* Results that inherited the key from an argument (views) but are not decided to be anything lose it. */
static void unmark_result(struct shard_call *call, struct value *result, int place, int index, const void *unused) {
    if (tensor_is_marked(result->tensor) && record_get(result->tensor).kind == RECORD_NONE)
        record_clear(result->tensor);
}

/* ---- running */

/* What is lent is no view of the whole for autograd: it is for labels, masks and indices, and for results that are none of it. */
bool execute_lends(const struct shard_call *call, const struct argument *argument) {
    bool makes_new = rule_of(call->op)->decide == rule_pointwise && !call->op->is_composite;
    return !call->op->written && (makes_new || !dtype_is_differentiable(tensor_dtype(argument_tensor(argument))));
}

/* Labels, masks and indices that meet the rows of a batch are as much of it as its data, and may come from elsewhere (another host's disk, a worker that was
   faster). Numbers, which ranks may have rounded differently, are compared with the gradients (origin_meet_numbers). */
void execute_compare(struct shard_call *call, const struct argument *argument) {
    struct tensor *whole = argument_tensor(argument);
    if (dtype_is_differentiable(tensor_dtype(whole)) || !tensor_is_on_host(whole) || call_writes(call, argument))
        return;
    uint64_t checksum = start_check_tensor(whole);
    origin_add(call, checksum);
    SHIM_NOTE_SCOPE;
    comm_note("labels, masks or indices of a batch", checksum);
}

void execute_narrow(struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++) {
        struct argument *argument = &call->arguments[i];
        if (argument->narrow < 0)
            continue;
        execute_compare(call, argument);
        struct tensor *rows =
            (execute_lends(call, argument) ? rows_lend : rows_take)(argument_tensor(argument), &call->record, argument->narrow);
        record_clear(rows);
        value_replace(argument->slot, value_tensor(rows));
    }
}

/* While the program may look at what is saved for the backward: the call whose kernel runs, and the storages of its whole operands. */
struct running {
    const struct running *outer;
    const struct shard_call *call;
    int count;
    void **storages;
};

static pthread_key_t running_key; /* struct running; the thread's memory is too small for what is rare */
static _Atomic bool saves_are_seen;

static void make_key(void) {
    pthread_key_create(&running_key, NULL);
}

void execute_saves_are_seen(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    constants_end();
    atomic_store(&saves_are_seen, true);
}

bool execute_are_saves_seen(void) {
    return atomic_load_explicit(&saves_are_seen, memory_order_relaxed);
}

static void end_running(struct running *ended) {
    free(ended->storages);
    pthread_setspecific(running_key, ended->outer);
}

static void run_seen(const struct shard_call *call) {
    struct running own __attribute__((cleanup(end_running))) = {.outer = pthread_getspecific(running_key), .call = call};
    own.storages = malloc((size_t)(call->argument_count + 1) * sizeof *own.storages);
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].narrow == -1)
            own.storages[own.count++] = tensor_storage(argument_tensor(&call->arguments[i]));
    pthread_setspecific(running_key, &own);
    dispatch_run_opaque(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
}

static bool is_operand(const struct running *running, struct tensor *tensor) {
    for (int i = 0; i < running->count; i++)
        if (running->storages[i] == tensor_storage(tensor))
            return true;
    return false;
}

static bool has_rows(struct tensor *tensor, const struct record *record) {
    return record->kind == RECORD_SHARD && record->dim < tensor_dims(tensor) && tensor_size(tensor, record->dim) == record_local(record);
}

/* What a kernel keeps of its results is not marked yet, and what it keeps of operands that were cut is not, either. */
struct record execute_saved_record(struct tensor *tensor) {
    const struct running *running = execute_are_saves_seen() ? pthread_getspecific(running_key) : NULL;
    for (int i = 0; running && i < running->call->result_count; i++)
        if (has_rows(tensor, &running->call->results[i]) && !is_operand(running, tensor))
            return running->call->results[i];
    return (struct record){.kind = RECORD_NONE};
}

void execute_local(struct shard_call *call) {
    execute_narrow(call);
    if (execute_are_saves_seen())
        run_seen(call);
    else
        dispatch_run_opaque(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
    OPAQUE_SCOPE;
    call_visit_results(call, call->result_count ? mark_result : unmark_result, NULL);
}

/* ---- gathered: replicated work on whole tensors */

enum { FAR_LARGER = 16 };

/* The memory that results may be views of, of each such argument. */
struct gathered_storage {
    void *storage;
    struct tensor *source, *whole; /* owned; NULL: not gathered now, or of packed elements */
    struct record record;
};
struct gathered_storages {
    struct gathered_storage *list;
    int count;
};

static void forget_storages(struct gathered_storages *storages) {
    for (int i = 0; i < storages->count; i++) {
        tensor_release(storages->list[i].source);
        tensor_release(storages->list[i].whole);
    }
    free(storages->list);
}

/* Is the tensor a view of what was gathered? Gathered now: a window is opened. */
static bool is_view_of(const struct gathered_storages *storages, struct tensor *tensor) {
    for (int i = 0; i < storages->count; i++) {
        const struct gathered_storage *gathered = &storages->list[i];
        if (gathered->storage != tensor_storage(tensor))
            continue;
        if (gathered->source)
            window_open(gathered->source, &gathered->record, gathered->whole);
        return true;
    }
    return false;
}

struct tensor *execute_sum_parts(const struct shard_call *call, struct tensor *tensor) {
    recognise_gathered(call, "summed its parts", "");
    return gather_partial(call->op->name, tensor);
}

struct tensor *execute_gather_argument(struct shard_call *call, const struct argument *argument) {
    struct tensor *tensor = argument_tensor(argument), *seen = window_at_hand(call, argument);
    if (seen)
        return seen;
    if (argument->record.kind == RECORD_PARTIAL && !call_writes(call, argument)) /* a number that is read, above all */
        return execute_sum_parts(call, tensor);
    report_gather();
    explain_gather(call, argument->record.kind == RECORD_SHARD ? "gathered its rows" : "summed its parts");
    return argument->record.kind == RECORD_SHARD ? gather_shard(call->op->name, tensor, &argument->record)
                                                 : gather_partial(call->op->name, tensor);
}

static void gather_arguments(struct shard_call *call, struct gathered_storages *storages) {
    OPAQUE_SCOPE;
    for (int i = 0; i < call->argument_count; i++) {
        struct argument *argument = &call->arguments[i];
        struct tensor *tensor = argument_tensor(argument);
        if (argument->record.kind == RECORD_GATHERED && argument->record.is_view_of_gathered)
            storages->list[storages->count++] = (struct gathered_storage){tensor_storage(tensor), NULL, NULL, argument->record};
        if (argument->record.kind != RECORD_SHARD && argument->record.kind != RECORD_PARTIAL)
            continue;
        struct tensor *whole = execute_gather_argument(call, argument);
        bool is_followed = !argument->record.packed;
        if (is_followed) {
            tensor_retain(tensor);
            tensor_retain(whole);
        }
        storages->list[storages->count++] =
            (struct gathered_storage){tensor_storage(whole), is_followed ? tensor : NULL, is_followed ? whole : NULL, argument->record};
        value_replace(argument->slot, value_tensor(whole));
    }
}

/* By what such a kernel has computed. */
static bool is_divided(struct tensor *tensor) {
    enum record_kind kind = tensor_is_marked(tensor) ? record_get(tensor).kind : RECORD_NONE;
    return kind == RECORD_SHARD || kind == RECORD_PARTIAL;
}

/* Ranks that compute one thing of one whole have the same bits, but here: the driver on the host, gelsy, is given pivots that libtorch has not filled, and what
   was in that memory decides how it rounds. */
static bool rounds_anew(const struct operator *op) {
    return !strcmp(op->short_name, "linalg_lstsq");
}

/* Where nothing is divided, of what is learned from: one rank alone may look at the rest, by the clock. */
static void share_result(struct shard_call *call, struct value *result, int place, int index, const void *unused) {
    if (!tensor_is_plain(result->tensor) || !tensor_is_on_host(result->tensor) ||
        !(call->shards + call->partials || tensor_requires_grad(result->tensor)))
        return;
    SHIM_COMM_SCOPE;
    start_check_take_rank_0s(call->op->name, result->tensor);
}

/* The kernel of an operator of the program's own is code of the program: it may look at divided tensors that are no arguments, and have a custom function. */
void execute_whole(struct shard_call *call) {
    bool is_of_libtorch = call->op->name != call->op->short_name;
    (is_of_libtorch ? dispatch_run_opaque : dispatch_run_user)(call->op, call->dispatch->handle, call->dispatch->key_set,
                                                               call->dispatch->stack);
    if (!rounds_anew(call->op))
        return;
    OPAQUE_SCOPE;
    call_visit_results(call, share_result, NULL);
}

static void mark_of_whole(struct shard_call *call, struct value *result, int place, int index, const void *storages) {
    if (!tensor_is_plain(result->tensor) || is_divided(result->tensor))
        return;
    mark_gathered(result->tensor, is_view_of(storages, result->tensor));
}

/* What is met by rows that are gathered for it, now: without a collective it would be noted on the rank alone that happens to look. Not what is far larger than
   they are, a corpus of which they look up a part: reading it all would cost more than the call. */
static void compare_operands(struct shard_call *call) {
    int64_t most = 0;
    for (int i = 0; i < call->argument_count && call->shards; i++)
        if (call->arguments[i].record.kind == RECORD_SHARD && window_gathers_anew(call, &call->arguments[i]))
            most += FAR_LARGER * argument_elements(&call->arguments[i]);
    for (int i = 0; i < call->argument_count && most; i++) {
        struct argument *operand = &call->arguments[i];
        struct tensor *tensor = argument_tensor(operand); /* a nested one is asked nothing: it answers by exceptions */
        bool is_whole = operand->record.kind == RECORD_NONE || operand->record.kind == RECORD_GATHERED;
        if (is_whole && !dtype_is_differentiable(tensor_dtype(tensor)) && tensor_is_plain(tensor) && tensor_elements(tensor) <= most)
            execute_compare(call, operand);
    }
}

void execute_gathered(struct shard_call *call) {
    compare_operands(call);
    __attribute__((cleanup(forget_storages))) struct gathered_storages storages = {
        malloc((size_t)(call->argument_count + 1) * sizeof *storages.list), 0};
    gather_arguments(call, &storages);
    execute_whole(call);
    OPAQUE_SCOPE;
    call_visit_results(call, mark_of_whole, &storages);
}
