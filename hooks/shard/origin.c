/*
 * What a value was computed from: known on each rank by itself, and compared where ranks exchange, so that values which are alike in everything else are not
 * exchanged for each other. A loop over a set that is ordered by addresses comes in another order on each rank, and so do threads that take from a queue.
 *
 * Rules
 *  - Of batches: the same however often, and in whatever order, it is joined.
 *  - Of the main thread's operator calls, one number for each, added up: a sum over a set is the same in whatever order it is taken, the numbers of two of its
 *    elements are not. Other threads' calls, which may come in another order where they take tasks, add none: they hand on what their operands have.
 *  - What is called or not by the memory layout of a rank's rows (contiguous, reshape, what a composite calls) adds none, or what the composite itself does.
 */
#include "shard.h"

/* Of the main thread: how many calls with divided tensors it has begun, and in how many composites it is. */
static uint64_t calls_begun;
static int composites;

static bool is_counted_thread(void) {
    return threads_own() == 0 && threads_is_main();
}

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014), below the prime. */
static uint64_t number_of(uint64_t count) {
    uint64_t word = count * 0x9E3779B97F4A7C15ull;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ word >> 27) * 0x94D049BB133111EBull;
    return (word ^ word >> 31) & ORIGIN_PRIME;
}

static struct origin with_number(struct origin origin, uint64_t number) {
    return number ? origin_join(origin, (struct origin){.calls = number}) : origin;
}

/* ---- batches */

struct given {
    uint64_t origins; /* of this thread */
};

static struct given main_given;
static struct threads_kept all_given = {&main_given, sizeof main_given, {NULL}};

static struct origin new_origin(void) {
    struct given *given = threads_own_kept(&all_given);
    uint64_t number = ++given->origins << 32 | (uint32_t)(threads_own() * 0x9E3779B97F4A7C15ull >> 32);
    uint64_t drawn = checksum_bytes(0, &number, sizeof number);
    return (struct origin){number, 1ull << (drawn & 63) | 1ull << (drawn >> 6 & 63) | 1ull << (drawn >> 12 & 63), number_of(drawn)};
}

/* Rows that a loader has read, or that were cut just now, get theirs here, where a thread's calls come in the same order on all ranks. */
static __attribute__((noinline)) struct origin give_origin(struct shard_call *call) {
    struct origin origin = new_origin();
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].record.kind == RECORD_SHARD || call->arguments[i].record.kind == RECORD_PARTIAL) {
            call->arguments[i].record.origin = origin;
            record_set_origin(argument_tensor(&call->arguments[i]), origin);
        }
    return origin;
}

/* ---- calls */

/* What returns its argument or a copy may do so by the layout of a rank's rows. */
static bool hangs_on_layout(const struct operator *op) {
    return op->is_composite && op->may_alias;
}

uint64_t origin_next_number(const struct operator *op) {
    return !is_counted_thread() || composites || hangs_on_layout(op) ? 0 : number_of(calls_begun + 1);
}

void origin_begin_call(const struct shard_call *call) {
    if (call->number) /* the main thread's alone: others must not write */
        calls_begun++;
}

struct origin origin_of_call(struct shard_call *call) {
    struct origin origin = call->arguments[0].record.origin;
    for (int i = 1; i < call->argument_count; i++)
        origin = origin_join(origin, call->arguments[i].record.origin);
    return with_number(origin.newest ? origin : give_origin(call), call->number);
}

struct origin origin_of_result(struct origin origin, int index) {
    return index ? with_number(origin, number_of(~(uint64_t)index)) : origin;
}

static void leave_composite(const bool *entered) {
    if (*entered)
        composites--;
}

static void set_result(struct tensor *tensor, struct origin origin, int index) {
    if (tensor_is_marked(tensor))
        record_set_origin(tensor, origin_of_result(origin, index));
}

/* Its results are its own, whatever it has called. */
static void set_results(const struct shard_call *call) {
    int index = 0;
    for (struct value *result = call->dispatch->stack->begin; result < call->dispatch->stack->end; result++) {
        struct stack single = {result, result + 1, result + 1};
        struct stack *list = value_is_list(result) ? value_list(result) : &single;
        for (struct value *element = list->begin; element < list->end; element++, index++)
            if (value_is_tensor(element))
                set_result(element->tensor, call->record.origin, index);
    }
}

void origin_run_composite(const struct shard_call *call) {
    {
        __attribute__((cleanup(leave_composite))) bool entered = is_counted_thread();
        if (entered)
            composites++;
        dispatch_run_user(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
    }
    if (call->number && !call->op->written)
        set_results(call);
}

/* ---- exchanges */

void origin_note(struct origin origin) {
    if (!origin.newest)
        return;
    comm_note("batch that a value comes from", origin_word(origin));
    comm_note("operation that a value comes from", origin.calls);
}
