/*
 * What a value was computed from: known on each rank by itself, and compared where ranks exchange, so that values which are alike in everything else are not
 * exchanged for each other. A loop over a set that is ordered by addresses comes in another order on each rank, and so do threads that take from a queue.
 *
 * Rules
 *  - Of batches: the same however often, and in whatever order, it is joined.
 *  - Of calls: a hash of the operator, of what its operands come from in their order, and of its numbers. Not of how many calls there were before: what one
 *    rank alone looks at, by the clock or as garbage is collected, and nobody exchanges, changes nothing.
 *  - Sums and products are sums and products of what their operands come from, modulo a prime: the same in any order.
 *  - What may be called or not by the memory layout of a rank's rows (contiguous, view, transpose) passes on what its operand comes from; a composite's
 *    result is its own, whatever it has called.
 *  - A parameter is its place among the leaves. A view of one is its shape: its place would make each view a leaf, and hosts may round a step differently.
 *    Another whole operand is its shape and the first bits of its first element: all ranks have the same. Numbers with more than six digits (of float32: more
 *    than one) are none of the program's text, but computed, perhaps from the time, which no two ranks read alike: they do not count here, where all that is
 *    read and printed is compared. Those that something is learned from are compared with the next gradients (shim/torch/numbers.c).
 *  - A draw is its number among the thread's.
 *  - What is written beside other threads to some elements of rows, in place or through a view, changes nothing of what the rows come from.
 */
#include "read.h"

/* In order, and: ADDED: with beta = 0 what is added to may be anything (torch.empty). PICKED: elements of some operands replace those of others, which may be
   anything (torch.where, of what rejection sampling has begun with). */
enum origin_kind { ORIGIN_ORDERED, ORIGIN_ADDED, ORIGIN_PICKED, ORIGIN_SUM, ORIGIN_PRODUCT, ORIGIN_SAME, ORIGIN_DRAW };

#define PRIME ((1ull << 61) - 1)
#define MULTIPLIER 0x9E3779B97F4A7C15ull
#define COMPUTED_NUMBER 0x51ED270B27220A95ull /* any */

/* Sums and products are below the prime, and so are hashes where they become one of these, not before: there are a dozen in a call. */
static uint64_t below_prime(uint64_t word) {
    return word % PRIME;
}

static uint64_t plus(uint64_t one, uint64_t other) {
    return below_prime(below_prime(one) + below_prime(other));
}

static uint64_t minus(uint64_t one, uint64_t other) {
    return plus(one, PRIME - below_prime(other));
}

static uint64_t times(uint64_t one, uint64_t other) {
    return (uint64_t)((unsigned __int128)one * other % PRIME);
}

/* ---- what a thread has given out */

struct given {
    uint64_t origins, draws;
    uint64_t batch; /* what is in the batch that is being cut; 0: its rows have their origin */
};

static struct given main_given;
static const struct threads_kept all_given = {&main_given, sizeof main_given, NULL};

static struct given *given(void) {
    return threads_own_kept(&all_given);
}

/* What is in the batch goes with its rows: the thread that cuts them may be one that never exchanges anything (a task that computes the loss). */
void origin_of_batch(uint64_t checksum) {
    given()->batch = checksum;
}

struct origin origin_new(void) {
    struct given *own = given();
    uint64_t number = ++own->origins << 32 | (uint32_t)(threads_own() * MULTIPLIER >> 32);
    uint64_t drawn = checksum_bytes(0, &number, sizeof number), calls = checksum_mix(drawn, 1);
    if (own->batch)
        calls = checksum_mix(calls, own->batch);
    own->batch = 0;
    return (struct origin){number, 1ull << (drawn & 63) | 1ull << (drawn >> 6 & 63) | 1ull << (drawn >> 12 & 63), calls};
}

/* Writes some elements of divided rows in place, while another thread may write or read others, earlier on one rank and later on the next. */
static bool writes_beside(const struct shard_call *call) {
    return call->op->writes == WRITES_SOME && call->arguments[0].record.kind == RECORD_SHARD && read_is_beside_others();
}

void origin_add(struct shard_call *call, uint64_t checksum) {
    if (writes_beside(call))
        return;
    call->record.origin.calls = checksum_mix(call->record.origin.calls, checksum);
    for (int i = 0; i < call->result_count; i++)
        call->results[i].origin.calls = checksum_mix(call->results[i].origin.calls, checksum);
}

/* Rows that a loader has read, or that were cut just now, get theirs here, where a thread's calls come in the same order on all ranks. */
static __attribute__((noinline)) struct origin give_origin(struct shard_call *call) {
    struct origin origin = origin_new();
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].record.kind == RECORD_SHARD || call->arguments[i].record.kind == RECORD_PARTIAL) {
            call->arguments[i].record.origin = origin;
            record_set_origin(argument_tensor(&call->arguments[i]), origin);
        }
    return origin;
}

/* ---- operators */

static bool is_named(const struct operator *op, const char *const *names, size_t count) {
    size_t length = strlen(op->short_name) - (op->is_in_place ? 1 : 0);
    for (size_t i = 0; i < count; i++)
        if (!strncmp(names[i], op->short_name, length) && !names[i][length])
            return true;
    return false;
}

static enum origin_kind kind_of(const struct operator *op, const struct rule *rule) {
    static const char *const same[] = {"clone", "contiguous", "detach", "alias", "positive", "lift_fresh", "requires_grad"},
                             *const added[] = {"addmm", "baddbmm", "addbmm", "addmv", "addr"},
                             *const picked[] = {"where",       "scatter",        "index_put",      "index_copy",    "index_fill",
                                                "masked_fill", "masked_scatter", "select_scatter", "slice_scatter", "diagonal_scatter",
                                                "put",         "scatter_reduce", "index_reduce"},
                             *const sums[] = {"add", "sub"}, *const products[] = {"mul"};
    static rule_function *const views[] = {rule_view,    rule_reshape_alias,    rule_memory,    rule_expand, rule_transpose,
                                           rule_permute, rule_matrix_transpose, rule_unsqueeze, rule_squeeze},
                                *const draws[] = {rule_random_in_place, rule_random_like, rule_bernoulli,
                                                  rule_native_dropout,  rule_rrelu,       rule_multinomial};
    if (is_named(op, added, sizeof added / sizeof *added))
        return ORIGIN_ADDED;
    if (is_named(op, picked, sizeof picked / sizeof *picked))
        return ORIGIN_PICKED;
    if (!rule->decide)
        return ORIGIN_ORDERED;
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (rule->decide == views[i])
            return ORIGIN_SAME;
    for (size_t i = 0; i < sizeof draws / sizeof *draws; i++)
        if (rule->decide == draws[i])
            return ORIGIN_DRAW;
    if (is_named(op, same, sizeof same / sizeof *same))
        return ORIGIN_SAME;
    if (strcmp(op->overload, "Tensor"))
        return ORIGIN_ORDERED;
    return is_named(op, sums, 2) ? ORIGIN_SUM : is_named(op, products, 1) ? ORIGIN_PRODUCT : ORIGIN_ORDERED;
}

/* Which argument is noise that only who trains has drawn: before PyTorch 2 memory that nobody has written otherwise. 0: none. */
static uint8_t noise_of(const struct operator *op) {
    static const char *const forward[] = {"rrelu_with_noise"}, *const backward[] = {"rrelu_with_noise_backward"};
    return is_named(op, forward, 1) ? 1 : is_named(op, backward, 1) ? 2 : 0;
}

void origin_meet(struct operator *op, const struct rule *rule) {
    op->origin_noise = noise_of(op);
    op->origin_kind = (uint8_t)kind_of(op, rule);
    op->writes = (uint8_t)window_writes(op);
    op->origin_name = checksum_mix(checksum_bytes(0, op->name, strlen(op->name)), checksum_bytes(1, op->overload, strlen(op->overload)));
}

/* ---- operands */

/* Numbers of the program's text have few digits: of each type as many count as one of millions of computed numbers has by chance. (A float32 has seven: of six
   digits every tenth would be.) What few operations make of such a number (1 - 0.9999) is still one. */
struct digits {
    double least;    /* whole number of so many */
    double rounding; /* of a number's size */
};
static const struct digits digits_of_float64 = {1e5, 0x1p-42}, digits_of_float32 = {1, 0x1p-24};

static uint64_t of_number(double number, struct digits digits) {
    static const double POWER_MAX = 1e22; /* the largest of ten that is exact */
    double size = number < 0 ? -number : number, up = 1, down = 1;
    if (!(size < 9e15))
        return number != number ? 2 : number < 0 ? 3 : 4;
    while (size > 0 && size * up < digits.least && up < POWER_MAX)
        up *= 10;
    while (size / down >= 10 * digits.least)
        down *= 10;
    double written = (double)(int64_t)(size * up / down + 0.5) / up * down, away = size - written;
    if ((away < 0 ? -away : away) > size * digits.rounding)
        return COMPUTED_NUMBER;
    uint64_t bits;
    memcpy(&bits, &written, sizeof bits);
    return checksum_mix(bits, number < 0 ? 14 : 5);
}

/* On the host. Of a fraction sign, exponent and a few digits: two machines may round the last ones differently. */
static uint64_t of_first_element(const void *data, enum torch_dtype dtype, bool is_number) {
    uint64_t bits = 0;
    if (dtype == DTYPE_FLOAT64 && is_number)
        return of_number(*(const double *)data, digits_of_float64);
    if (dtype == DTYPE_FLOAT32 && is_number)
        return of_number(*(const float *)data, digits_of_float32);
    if (dtype_is_narrow(dtype) && is_number) /* has hardly more digits than those */
        return COMPUTED_NUMBER;
    if (dtype == DTYPE_FLOAT64 || dtype == DTYPE_FLOAT32) {
        float number = dtype == DTYPE_FLOAT32 ? *(const float *)data : (float)*(const double *)data;
        uint32_t word;
        memcpy(&word, &number, sizeof word);
        return word >> 8;
    }
    size_t bytes = dtype_bytes(dtype);
    memcpy(&bits, data, bytes < sizeof bits ? bytes : sizeof bits);
    return dtype_is_floating(dtype) ? bits >> 3 : bits;
}

/* Python's classes tell their sizes, or do not. */
static bool has_sizes(struct tensor *tensor) {
    return tensor_is_plain(tensor) && !(*tensor_key_set(tensor) & torch_facts.bits_mode);
}

static uint64_t of_whole(struct tensor *tensor, bool is_read) {
    if (!has_sizes(tensor))
        return 1;
    struct sizes sizes = tensor_sizes(tensor);
    uint64_t word = sizes.count, elements = 1;
    for (size_t i = 0; i < sizes.count; i++) {
        word = word * MULTIPLIER + (uint64_t)sizes.data[i];
        elements *= (uint64_t)sizes.data[i];
    }
    enum torch_dtype dtype = tensor_dtype(tensor);
    bool is_exact = !dtype_is_floating(dtype) || !numbers_may_be_apart(); /* numbers_meet_tensor() looks at it, too */
    const void *data = is_read && is_exact && elements && tensor_is_on_host(tensor) ? tensor_data(tensor) : NULL;
    return data ? checksum_mix(word, of_first_element(data, dtype, elements == 1)) : word;
}

static bool is_not_read(const struct shard_call *call, const struct argument *argument) {
    enum { BETA = 3, TRAINS = 3 /* behind the noise */ };
    uint8_t noise = call->op->origin_noise;
    if (noise)
        return argument->position == noise && !call_flag(call, noise + TRAINS);
    return call->op->origin_kind == ORIGIN_ADDED && argument->position == 0 && call_real(call, BETA, 1) == 0;
}

static bool is_ignored(const struct shard_call *call, const struct argument *argument) {
    return call->op->origin_kind == ORIGIN_PICKED || is_not_read(call, argument);
}

static uint64_t of_argument(const struct shard_call *call, const struct argument *argument) {
    struct tensor *tensor = argument_tensor(argument);
    if (argument->record.kind == RECORD_SHARD || argument->record.kind == RECORD_PARTIAL)
        return argument->record.origin.calls;
    size_t place = argument->is_parameter ? leaf_place(tensor) : 0;
    if (place)
        return checksum_mix(place - 1, 6);
    if (argument->is_parameter)
        return checksum_mix(of_whole(tensor, false), 12);
    return checksum_mix(of_whole(tensor, !schema_writes(call, argument) && !is_ignored(call, argument)), 7);
}

static uint64_t of_integers(const struct value *value) {
    uint64_t word = 11;
    if (value->tag == TAG_INTS)
        for (uint32_t i = 0; i < value->count; i++)
            word = word * MULTIPLIER + (uint64_t)value->integers[i];
    else if (value_is_list(value))
        for (const struct value *element = value_list(value)->begin; element < value_list(value)->end; element++)
            if (element->tag == TAG_INT)
                word = word * MULTIPLIER + (uint64_t)element->integer;
    return word;
}

static uint64_t of_value(const struct value *value) {
    if (value->tag == TAG_INT)
        return checksum_mix((uint64_t)value->integer, 8);
    if (value->tag == TAG_DOUBLE)
        return of_number(value->real, digits_of_float64);
    if (value->tag == torch_facts.tag_bool)
        return value_flag(value) ? 9 : 10;
    return of_integers(value);
}

/* ---- calls */

static uint64_t of_ordered(const struct shard_call *call) {
    uint64_t word = call->op->origin_name;
    for (int i = 0; i < call->argument_count; i++)
        word = checksum_mix(word, of_argument(call, &call->arguments[i]));
    for (int i = 0; i < call->value_count; i++) {
        const struct value *value = &call->values[i];
        if (!value_is_tensor(value) && !(call->op->without_interest >> i & 1))
            word = checksum_mix(word, of_value(value));
    }
    return word;
}

/* self + alpha * other, or self - alpha * other. */
static uint64_t of_sum(const struct shard_call *call) {
    uint64_t other = of_argument(call, &call->arguments[1]);
    if (call_real(call, 2, 1) != 1)
        other = times(other, of_value(&call->values[2]));
    return (call->op->short_name[0] == 's' ? minus : plus)(of_argument(call, &call->arguments[0]), other);
}

static uint64_t of_call(const struct shard_call *call) {
    bool has_two = call->argument_count == 2;
    switch ((enum origin_kind)call->op->origin_kind) {
    case ORIGIN_SUM:
        return has_two ? of_sum(call) : of_ordered(call);
    case ORIGIN_PRODUCT:
        return has_two ? times(of_argument(call, &call->arguments[0]), of_argument(call, &call->arguments[1])) : of_ordered(call);
    case ORIGIN_SAME:
        return of_argument(call, &call->arguments[0]);
    case ORIGIN_DRAW:
        return checksum_mix(of_ordered(call), given()->draws);
    case ORIGIN_ORDERED:
    case ORIGIN_ADDED:
    case ORIGIN_PICKED:
        break;
    }
    return of_ordered(call);
}

uint64_t origin_batches(void) {
    return given()->origins;
}

struct origin origin_of_call(struct shard_call *call) {
    struct origin origin = call->arguments[0].record.origin;
    if (writes_beside(call))
        return origin;
    for (int i = 1; i < call->argument_count; i++)
        origin = origin_join(origin, call->arguments[i].record.origin);
    if (!origin.newest)
        origin = give_origin(call);
    origin.calls = of_call(call);
    return origin;
}

/* Is it a part of what is learned from? */
static bool is_learned_from(const struct shard_call *call) {
    for (int i = 0; i < call->argument_count; i++)
        if (call->arguments[i].record.kind != RECORD_NONE && tensor_requires_grad(argument_tensor(&call->arguments[i])))
            return true;
    return shim_is_in_phase(BOARD_BACKWARD); /* in a hook */
}

/* Targets, weights of classes and the like. Tensors with more than one element but those that have a history: of parameters, which are compared. */
static bool is_of_numbers(const struct shard_call *call, const struct argument *argument) {
    struct tensor *tensor = argument_tensor(argument);
    return argument->record.kind == RECORD_NONE && !argument->is_parameter && !schema_writes(call, argument) && has_sizes(tensor) &&
           !is_not_read(call, argument) &&
           (tensor_elements(tensor) == 1 || (!tensor_requires_grad(tensor) && call->op->origin_kind != ORIGIN_PICKED));
}

/* Not those that meet counts, or a loss without a history: so many words in so many seconds is printed, and nothing learns from it. */
void origin_meet_numbers(const struct shard_call *call) {
    if (shim_has_threads())
        read_meet_thread();
    if (shim_reads_example() || !is_learned_from(call))
        return;
    for (int i = 0; i < call->value_count; i++)
        if (call->values[i].tag == TAG_DOUBLE)
            numbers_meet(call->values[i].real);
    for (int i = 0; i < call->argument_count; i++)
        if (is_of_numbers(call, &call->arguments[i]))
            numbers_meet_tensor(argument_tensor(&call->arguments[i]));
}

void origin_begin_call(const struct shard_call *call) {
    if (call->op->origin_kind == ORIGIN_DRAW)
        given()->draws++;
    origin_meet_numbers(call);
}

struct origin origin_of_result(struct origin origin, int index) {
    if (index)
        origin.calls = checksum_mix(origin.calls, (uint64_t)index);
    return origin;
}

enum { OPERANDS_MAX = 16 };

/* A call's operands, by their addresses alone: it may give one back (drop-out in evaluation). */
struct operands {
    const struct tensor *tensors[OPERANDS_MAX];
    int count;
};

static struct operands operands_of(const struct shard_call *call) {
    struct operands operands = {.count = 0};
    for (int i = 0; i < call->argument_count && operands.count < OPERANDS_MAX; i++)
        operands.tensors[operands.count++] = argument_tensor(&call->arguments[i]);
    return operands;
}

static bool is_operand(const struct operands *operands, const struct tensor *tensor) {
    for (int i = 0; i < operands->count; i++)
        if (operands->tensors[i] == tensor)
            return true;
    return false;
}

/* Its results are its own, whatever it has called; but for views and copies, which hang on the rows' layout, and what it has drawn. */
static void set_result(struct shard_call *call, struct value *result, int place, int index, const void *operands) {
    if (tensor_is_marked(result->tensor) && !is_operand(operands, result->tensor))
        record_set_origin(result->tensor, origin_of_result(call->record.origin, index));
}

void origin_run_composite(struct shard_call *call) {
    struct operands operands = operands_of(call);
    uint64_t draws = given()->draws;
    dispatch_run_user(call->op, call->dispatch->handle, call->dispatch->key_set, call->dispatch->stack);
    if (given()->draws != draws)
        call->record.origin.calls = checksum_mix(call->record.origin.calls, given()->draws);
    if (!call->op->may_alias && !call->op->written)
        call_visit_results(call, set_result, &operands);
}

/* ---- exchanges */

void origin_note(struct origin origin) {
    if (!origin.newest)
        return;
    comm_note("batch that a value comes from", origin_word(origin));
    comm_note("operation that a value comes from", origin.calls);
}
