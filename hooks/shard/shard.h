/*
 * Sharding: what each operator does to a tensor of which this rank holds its rows.
 *
 * Rules of hooks/shard/
 *  - Two phases. A rule decides from global facts only (whole sizes, kinds of records, scalar arguments, world size), so all ranks decide alike; it writes its
 *    decision into the call (what to narrow, what the results are); execute.c carries it out. One that needs more executes itself (RULE_DONE) after it.
 *  - Whatever is cut, the result is exact: narrowing a replicated tensor is always right, gathering a shard is always right. A rule is about speed, never a
 *    guess about meaning.
 *  - Algebra: SHARD = own rows; PARTIAL = the value is the sum over ranks; replicated otherwise. The sum over ranks of the local loss is the loss, so the
 *    gradient of anything replicated is a partial sum and is always summed, never averaged.
 *  - No rule: an operator gathers and goes on replicated, or, where it writes to a shard, to the whole, of which each rank takes its rows back; a composite is
 *    run as what it is, code written in terms of other operators, at user level, where it sees whole sizes.
 *  - Every collective's label is the operator's name.
 */
#ifndef ACCEL_HOOKS_SHARD_H
#define ACCEL_HOOKS_SHARD_H

#include "../../shim/shim.h"

/* One tensor among the arguments (elements of lists count each). */
struct argument {
    struct value *slot;   /* where it stands; owns a reference */
    struct record record; /* as it was when the call came; RECORD_NONE: replicated */
    int position;         /* index of the schema argument it belongs to */
    bool is_parameter;
    int8_t narrow; /* decision: narrow this replicated tensor along this dimension to the rank's rows; -1: no, -2: it is done */
};

enum { RESULTS_MAX = 8 };

struct shard_call {
    struct dispatch_call *dispatch;
    struct operator *op;
    struct value *values; /* the operator's arguments on the stack */
    int value_count;
    struct argument *arguments; /* all tensors among them */
    int argument_count;
    int shards, partials, gathered; /* how many of each kind */
    bool has_own_bags;              /* embedding_bag: indices, weights and offsets are this rank's already */
    struct argument *lead;          /* the first shard; NULL: none */
    struct record record;           /* the lead's, with the origin of all of them */

    /* the decision for RULE_LOCAL */
    struct record results[RESULTS_MAX]; /* per result (all elements of a list result alike); the last one set serves for further results */
    int result_count;                   /* how many of them the rule has set; 0: results are not marked */
    double scale;                       /* floating results are multiplied by this; 1: no */
};

enum rule_outcome {
    RULE_LOCAL,   /* run the kernel on local rows as decided */
    RULE_GATHER,  /* gather the shards, run replicated */
    RULE_COMPOSE, /* run the composite at user level: its inner operators come back */
    RULE_DONE,    /* the rule has executed it */
};

struct rule;
typedef enum rule_outcome rule_function(struct shard_call *call, const struct rule *rule);

/* How an operator treats a PARTIAL argument when no shard is among the arguments. */
enum partial_kind {
    PARTIAL_MATERIALISE = 0, /* sum over the ranks first */
    PARTIAL_LINEAR,          /* f(a + b) = f(a) + f(b): result partial */
    PARTIAL_ADD,             /* add, sub: replicated operands are divided among the ranks */
    PARTIAL_MUL,             /* linear in one partial factor */
    PARTIAL_DIV,             /* linear in the numerator */
    PARTIAL_SHAPE,           /* reads the shape only: result replicated */
    PARTIAL_AS_IS,           /* the rule takes any sum */
    PARTIAL_PACKED,          /* the rule takes a sum of packed elements (packed_fits), other sums come first */
};

/* Which argument is the data that meets a parameter: entry.c. */
enum entry_kind { ENTRY_NONE = 0, ENTRY_DATA0, ENTRY_DATA1, ENTRY_INDEX, ENTRY_BAG, ENTRY_RECURRENT, ENTRY_PACKED };

struct rule {
    const char *name;
    rule_function *decide; /* NULL: no rule (gather or compose) */
    int a, b;              /* the family's parameters: argument positions */
    enum partial_kind partial;
    enum entry_kind entry;
};

/* Each rule of rules.def is a function in its family's file. */
#define RULE_FUNCTION(name) enum rule_outcome rule_##name(struct shard_call *call, const struct rule *rule)
RULE_FUNCTION(pass);
RULE_FUNCTION(compose);
RULE_FUNCTION(pointwise);
RULE_FUNCTION(like);
RULE_FUNCTION(new_like);
RULE_FUNCTION(view);
RULE_FUNCTION(memory);
RULE_FUNCTION(set);
RULE_FUNCTION(reshape_alias);
RULE_FUNCTION(expand);
RULE_FUNCTION(transpose);
RULE_FUNCTION(matrix_transpose);
RULE_FUNCTION(permute);
RULE_FUNCTION(unsqueeze);
RULE_FUNCTION(squeeze);
RULE_FUNCTION(select);
RULE_FUNCTION(slice);
RULE_FUNCTION(split);
RULE_FUNCTION(cat);
RULE_FUNCTION(stack);
RULE_FUNCTION(reduce_sum);
RULE_FUNCTION(reduce_along);
RULE_FUNCTION(along);
RULE_FUNCTION(any);
RULE_FUNCTION(equal);
RULE_FUNCTION(cosine);
RULE_FUNCTION(linear);
RULE_FUNCTION(rows);
RULE_FUNCTION(mm);
RULE_FUNCTION(addmm);
RULE_FUNCTION(bmm);
RULE_FUNCTION(matmul);
RULE_FUNCTION(embedding);
RULE_FUNCTION(loss);
RULE_FUNCTION(squeezed_loss);
RULE_FUNCTION(nll_loss);
RULE_FUNCTION(class_loss);
RULE_FUNCTION(convolution);
RULE_FUNCTION(layer_norm);
RULE_FUNCTION(batch_norm);
RULE_FUNCTION(instance_norm);
RULE_FUNCTION(group_norm);
RULE_FUNCTION(random_in_place);
RULE_FUNCTION(random_like);
RULE_FUNCTION(bernoulli);
RULE_FUNCTION(native_dropout);
RULE_FUNCTION(rrelu);
RULE_FUNCTION(triangle);
RULE_FUNCTION(pad);
RULE_FUNCTION(recurrent);
RULE_FUNCTION(attention);
RULE_FUNCTION(flash_attention);
RULE_FUNCTION(index_select);
RULE_FUNCTION(index);
RULE_FUNCTION(index_put);
RULE_FUNCTION(index_write);
RULE_FUNCTION(trailing);
RULE_FUNCTION(along_dims);
RULE_FUNCTION(repeat);
RULE_FUNCTION(distance);
RULE_FUNCTION(bilinear);
RULE_FUNCTION(same_size);
RULE_FUNCTION(rows_together);
RULE_FUNCTION(affine_grid);
RULE_FUNCTION(embedding_bag);
RULE_FUNCTION(baddbmm);
RULE_FUNCTION(mv);
RULE_FUNCTION(dot);
RULE_FUNCTION(prelu);
RULE_FUNCTION(log_sigmoid);
RULE_FUNCTION(row_loss);
RULE_FUNCTION(ctc_loss);
RULE_FUNCTION(multinomial);
RULE_FUNCTION(fast_attention);
RULE_FUNCTION(diagonal);
RULE_FUNCTION(diag_embed);
RULE_FUNCTION(one_hot);
RULE_FUNCTION(buckets);
RULE_FUNCTION(spectrum);
RULE_FUNCTION(solve);
RULE_FUNCTION(pack);
RULE_FUNCTION(unpack);
RULE_FUNCTION(packed_recurrent);
RULE_FUNCTION(null); /* the template: hooks/null/null_rule.c */

/* as_strided of rows that have been gathered: stops where it would see what lies between them (view.c). */
void view_check_gathered(struct shard_call *call);

/* ---- looking at arguments (call.c). Sizes are the whole batch's. */
static inline struct tensor *argument_tensor(const struct argument *argument) {
    return argument->slot->tensor;
}
int argument_dims(const struct argument *argument);
int64_t argument_size(const struct argument *argument, int dim);
int64_t argument_elements(const struct argument *argument);
/* As decided, rows (of a mask, say) are written in place to divided rows that are one in memory (expanded): what one rank writes is all ranks'. */
bool call_writes_to_one_row(const struct shard_call *call);
bool call_rows_are_one(const struct shard_call *call); /* the rows that it writes to */
/* The tensor argument at a schema position (not in a list), or NULL when it is none, undefined or absent. */
struct argument *call_argument(struct shard_call *call, int position);
/* A scalar or flag argument; fallback when absent or none. */
int64_t call_int(const struct shard_call *call, int position, int64_t fallback);
double call_real(const struct shard_call *call, int position, double fallback);
bool call_flag(const struct shard_call *call, int position);
bool call_is_none(const struct shard_call *call, int position);
bool call_may_overflow(const struct shard_call *call); /* its parts: of float16, and nothing flows back */
/* A list of ints argument, or one int: how many, copied into integers; -1 when it is none or longer than TORCH_DIMS_MAX. */
int call_ints(const struct shard_call *call, int position, int64_t *integers);
/* Puts another list of as many there. */
void call_set_ints(struct shard_call *call, int position, const int64_t *integers, int count);
/* Each tensor among the results, also in lists. place: of the result, index: among all tensors. */
typedef void result_visitor(struct shard_call *call, struct value *result, int place, int index, const void *context);
void call_visit_results(struct shard_call *call, result_visitor *visit, const void *context);
static inline int wrap_dim(int64_t dim, int dims) {
    return (int)(dim < 0 ? dim + (dims ? dims : 1) : dim);
}

/* ---- decisions */
/* The argument, replicated with the whole size along dim, is to be narrowed to the lead's rows. */
void decide_narrow(struct argument *argument, int dim);
/* Makes every replicated tensor argument that has the whole size along `dim` narrow there; shards must be divided along dim with the lead's rows.
   Returns false (nothing decided) when some tensor argument is a shard along another dimension, or neither. */
bool decide_rows_at(struct shard_call *call, int dim);
/* Element by element with broadcasting: decides for every tensor argument; *result_dim is where the rows stand in the result. False: they do not fit. */
bool decide_broadcast(struct shard_call *call, int *result_dim);
/* Result `index` is a shard with the lead's rows along dim. Further results likewise. */
void decide_shard(struct shard_call *call, int index, int dim);
/* The same with other dimensions merged before and behind the rows than the lead's. */
void decide_merged(struct shard_call *call, int index, int dim, int64_t outer, int64_t inner);
void decide_partial(struct shard_call *call, int index);
void decide_replicated(struct shard_call *call, int index);

/* ---- executing (shard.c, execute.c) */
void execute_narrow(struct shard_call *call);                                       /* the arguments that the decision names */
void execute_compare(struct shard_call *call, const struct argument *argument);     /* with the other ranks' whole operand */
bool execute_lends(const struct shard_call *call, const struct argument *argument); /* a whole operand: its rows, instead of a slice? */
/* Carries out the decision: narrows, runs opaquely, marks. */
void execute_local(struct shard_call *call);
/* For the dispatch client: the program looks at what is saved for the backward; the record of an unmarked tensor that the running operator saves. */
void execute_saves_are_seen(void);
bool execute_are_saves_seen(void);
struct record execute_saved_record(struct tensor *tensor);
/* Stops the job unless the tensor has as many rows as the record says. */
void execute_check_rows(const struct operator *op, struct tensor *tensor, const struct record *record);
/* Runs the operator on its arguments as they are. */
void execute_whole(struct shard_call *call);
/* Gathers every shard and materialises every partial argument, runs opaquely, results replicated (GATHERED when they have history or share memory). */
void execute_gathered(struct shard_call *call);
/* The whole of a shard or a partial sum among the arguments. Owned. */
struct tensor *execute_gather_argument(struct shard_call *call, const struct argument *argument);
/* The sum of a partial one, on every rank: no gather that is warned of. Owned. */
struct tensor *execute_sum_parts(const struct shard_call *call, struct tensor *tensor);
/* The same for an operator that writes to divided tensors or to sums: each rank takes its part of the written whole (write.c). */
void execute_write_gathered(struct shard_call *call);
/* This rank's part of what has been written to a whole tensor: its rows, or of a sum all on rank 0 and zeros elsewhere. With the whole's history. Owned. */
struct value own_part(struct tensor *whole, const struct record *record);
struct tensor *write_in_form(struct tensor *tensor, const struct record *wanted); /* dispatch_client.in_form */
/* Does the operator write to this argument? By its schema; or as running statistics, which schemas do not mark. */
bool schema_writes(const struct shard_call *call, const struct argument *argument);
bool call_writes(const struct shard_call *call, const struct argument *argument);
bool call_writes_values(const struct shard_call *call,
                        const struct argument *argument); /* and not sizes or history alone: h.t_(), h.detach_() */

/* ---- factors (constant.c), on the host */
enum { CONSTANT_SCALAR = -1 }; /* a length: no dimensions */
/* `length` times the same number. Owned; nobody may write to it. Not in inference mode, whose tensors autograd does not keep: constant_suits. */
struct value constant_tensor(int64_t length, double number, enum torch_dtype dtype);
/* Is the tensor recorded by autograd, and is a factor of its own type as exact as a scalar? (bfloat16 and float16 are multiplied by a scalar of 32 bits.) */
bool constant_suits(struct tensor *tensor);
void constants_end(void); /* none suits any more */
/* Drops the arguments and leaves `results` (owned) on the stack. */
void execute_return(struct shard_call *call, const struct value *results, int count);
__attribute__((noreturn)) void refuse_write(const struct shard_call *call, const char *why);

/* ---- gathering (gather.c): collectives, differentiable where the tensor requires grad. Arguments borrowed, results owned and replicated. */
struct tensor *gather_shard(const char *label, struct tensor *tensor, const struct record *record);
struct tensor *gather_partial(const char *label, struct tensor *tensor);
/* The values of a shard in the host's memory, without history, in a dense layout of the whole. Owned. */
struct tensor *gather_laid_out(const char *label, struct tensor *tensor, const struct record *record, const int64_t *sizes,
                               const int64_t *strides);
/* Either, of a tensor without a mark, in the very layout that the program is told (an expanded dimension stays expanded). Owned. */
struct tensor *gather_as_seen(struct tensor *alias, struct record *record);
bool gather_is_node(void *node); /* of a gathered value */
/* Each summed over the ranks. */
void sum_doubles(const char *label, double *values, size_t count, struct origin origin);
/* Folds the order of a whole tensor's memory into what the ranks compare at their next collective. Communication lock held. */
void note_layout(struct tensor *whole);
/* Marks a result as replicated but computed from shards, when that matters (it requires grad, or shares memory with a gathered copy), else as none of ours: it
   may be an argument, which other threads look at meanwhile, and is never without what is said of it in between. */
void mark_gathered(struct tensor *tensor, bool is_view);

/* ---- what values were computed from (origin.c) */
/* An operator that is met for the first time. */
void origin_meet(struct operator *op, const struct rule *rule);
/* A call that has divided tensors begins; or only wholes that were computed from such. */
void origin_begin_call(const struct shard_call *call);
void origin_meet_numbers(const struct shard_call *call);
uint64_t origin_batches(void);           /* how many have come to this thread: the same on all ranks */
void origin_of_batch(uint64_t checksum); /* which the next new origin has in it */
struct origin origin_new(void);
void origin_add(struct shard_call *call, uint64_t checksum); /* to what its results come from */
/* Of what it computes of its arguments, which are given one if they have none yet. */
struct origin origin_of_call(struct shard_call *call);
struct origin origin_of_result(struct origin origin, int index); /* its first, second, ... */
void origin_run_composite(struct shard_call *call);              /* at user level */
/* Folds it into what the ranks compare at their next collective. Communication lock held. */
void origin_note(struct origin origin);

/* ---- entry (entry.c): true when a replicated data tensor was cut into rows: its argument is then the lead. */
bool entry_decide(struct shard_call *call, const struct rule *rule);
/* These rows are cut along their time: the layer where they were cut takes the other dimension from now on. From global facts, so on all ranks alike. */
void entry_learn_time(const struct record *record);
/* Tells a layer from others, by its operator and the sizes of its parameters; never 0. */
uint64_t entry_layer(const struct shard_call *call);

/* Layer by layer (recurrent.c), because dropout between layers draws for all rows. Arguments are those of lstm.input, or, when packed is 1, of lstm.data, where
   the sizes stand after the first and all others one place further. */
/* at::dropout with a mask of all rows, of which the own are taken. Takes output; owned. */
typedef struct value recurrent_drop_out(const void *context, struct value output, double p);
bool recurrent_drops_out(const struct shard_call *call, int packed);  /* is there dropout between layers, in training? */
bool recurrent_layers_fit(const struct shard_call *call, int packed); /* no more layers, and parameters in each, than lists of ours hold? */
void recurrent_make_states_dense(struct shard_call *call, int packed); /* of an accelerator, in place */
/* results[3], owned: output, then the states of all layers; returns how many states (one or two). input: of padded sequences time first; taken. */
int recurrent_run_layers(struct shard_call *call, int packed, struct value input, recurrent_drop_out *drop_out, const void *context,
                         struct value *results);

/* ---- forward-mode derivatives, and transforms (forward.c): one is open, and nothing is divided in it; or whatever this thread calls now */
bool transform_is_open(const struct shard_call *call);
bool transform_is_open_here(void);

/* ---- packed sequences (packed.c): arguments 0, elements, and 1, how many there are at each time */
bool packed_fits(struct shard_call *call);         /* argument 0 is a sum of packed elements, of which this rank has its sequences' */
int64_t packed_sequences(struct shard_call *call); /* how many whole sequences a recurrent layer is given that it could divide; 0: none */
/* Some live sum of packed elements has this tensor's memory: a write that puts anything where its zeros are would be lost. */
bool packed_is_seen(struct tensor *tensor);
/* Makes a sum of packed elements of argument 0, whole and replicated; false: they are no packed sequences. */
bool packed_enter(struct shard_call *call);

/* ---- partial sums (partial.c): a call with partial and without shard arguments. True when it has been executed. */
bool partial_execute(struct shard_call *call, const struct rule *rule);

/* ---- indices (bounds.c) */
/* How many are outside [0, size) and not `ignored`, of an expanded tensor each once; 0 where they are no integers, or cannot be looked through. */
int64_t bounds_count_outside(struct tensor *indices, int64_t size, int64_t ignored);
/* The same of the argument at a position, when it is not divided yet: true when none is outside. */
bool bounds_hold(struct shard_call *call, int position, int64_t size);
bool bounds_count_evenly(struct tensor *indices, int64_t end, int64_t step); /* 0, step, 2 * step, ... below end. Opaque */

/* ---- memory, element by element (extent.c) */
size_t extent_bytes(struct tensor *tensor); /* from the first element to the end of the last */
uint64_t extent_checksum(struct tensor *tensor);
/* In any byte; true also where more than 2 GiB would have to be looked through. */
bool extent_meets(struct tensor *one, struct tensor *other);
/* Elements of a storage. dims -1: unknown, all of it. */
struct extent {
    int dims;
    int64_t sizes[TORCH_DIMS_MAX], strides[TORCH_DIMS_MAX], offset;
};
struct extent extent_of(struct tensor *tensor); /* as this rank has it; unknown: of more dimensions than can be divided */
struct extent extent_told(struct tensor *tensor, const struct record *record); /* all ranks' elements, as one process has them */
int64_t extent_end(const struct extent *extent);                               /* one past the last element; 0: there are none */
/* What the program has written to the whole goes back to the rows of the rank that has them, own; a partial sum becomes rank 0's. */
void extent_write_back(struct tensor *own, struct tensor *whole, const struct record *record);

/* ---- memory that the program reads and writes itself (read.c, read.h). Before an operator: takes back what it wrote to the operator's arguments; true: there
   are copies. After it: brings copies of a storage that it has written up to date. */
bool read_before_call(const struct shard_call *call);
void read_settle(void); /* everything the program wrote */
void read_turn_end(const bool *is_taken);
#define TURN_SCOPE(name, is_taken) __attribute__((cleanup(read_turn_end), unused)) bool name = is_taken

/* ---- views of gathered rows (window.c) */
/* From now on `whole` is a copy of `source` that the program has views of. Takes references of its own. */
void window_open(struct tensor *source, const struct record *record, struct tensor *whole);
/* A whole that takes the place of a divided tensor, or a sum: what is written to either reaches the other. Owned. A collective. */
struct tensor *window_stand_in(struct tensor *source);
/* The same for a whole that has been made. No collective. */
void window_stand_for(struct tensor *source, struct tensor *whole);
/* The shim has written to what the program may have: all copies of it are made anew. */
void window_written(struct tensor *tensor);
/* Before x.data = y, and after it: copies of what x has had are not x's any more. */
void window_replaced(struct tensor *source, bool is_done);
/* The copy that there is of a tensor, for an operator that reads it, or only makes views of it; NULL: none. Owned. May be a collective. */
struct tensor *window_whole(struct tensor *source, const struct operator *op);
/* Before an operator; true: there are windows, which what it writes may matter to. Refuses what cannot be written back. */
bool window_before_call(struct shard_call *call);
/* At the end of an operator: releases what windows have let go (window_let_go.c), whose finalizers may call operators; is there any? */
void window_release_let_go(void);
bool window_has_let_go(void);
const struct rule *rule_find(const struct operator *op); /* in the table, by name (rules.c) */
/* Element by element, or a view: such a kernel cuts no batch and calls none that does, so parameters alone are none of our business. */
bool rule_only_records(const struct rule *rule);
/* It decides for divided tensors without doing anything, and from no argument that is not handed over without boxing. */
bool rule_suits_direct(const struct rule *rule);
/* Finds the tensors among the arguments anew, after a rule has changed them. */
void call_collect(struct shard_call *call);
/* Rows have met parameters: those that are new are compared. A collective when there are any. */
void call_check_parameters(const struct shard_call *call);
/* What the rule says, or gathering where that would write to what the ranks do not share. */
enum rule_outcome call_decide(struct shard_call *call, const struct rule *rule);

/* ---- operators that are called without boxing (direct.c): dispatch_client */
bool direct_decide(struct direct_call *direct);
void direct_mark(const struct direct_call *direct, struct tensor *result);
const struct rule *rule_of(const struct operator *op); /* never NULL: the rule "none" has no decide */

void normalise_hook_returned(void *node, struct tensor *gradient); /* dispatch_client.hook_returned (normalise_twice.c) */

/* ---- what the program does, for `accel-run explain` (recognise.c): nothing otherwise */
void recognise_call(const struct shard_call *call, const struct rule *rule); /* before the rule, which may change the arguments */
void recognise_divided(const struct shard_call *call);
void recognise_gathered(const struct shard_call *call, const char *what, const char *shapes);
/* A batch has met a parameter; layer: tells the layer from others. */
void recognise_batch(const struct shard_call *call, long long rows, bool is_divided, uint64_t layer);

/* ---- notes for --explain (explain.c) */
void explain_gather(const struct shard_call *call, const char *what);
void explain_cut(const struct shard_call *call); /* a batch has met a parameter: call's lead */

#endif
